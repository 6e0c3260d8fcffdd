# SPDX-License-Identifier: Apache-2.0
"""The loops of workers that do tasks."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, Optional

from ._core import Core
from ._errors import Cancelled, DeadlineExceeded
from ._interrupt import Interrupt
from ._slot import Slot
from ._task import Task, is_raised_further


def loop_of_tasks(slot: Slot, interrupt: Optional[int]) -> Iterator[Task]:
    """The tasks, each when the program asks for it."""
    try:
        if interrupt is not None:
            slot.interrupt = Interrupt(interrupt, slot)
        task = slot.next_task()
        while task is not None:
            yield task
            if task.answered:
                task = slot.next_task()
            else:
                task.answered = True
                task = slot.finish_and_next(task.value)
    finally:
        _end(slot)


_Get = Callable[..., Optional[Task]]


class Idle(Exception):
    """No task came in time for any slot."""


class Patience:
    """For several slots: one for which no task comes in time asks again while another one does a task."""

    def __init__(self, handler: Callable[[Task], Any]) -> None:
        self._handler = handler
        self._lock = threading.Lock()
        self._at_work = 0

    def handle(self, task: Task) -> Any:
        with self._lock:
            self._at_work += 1
        try:
            return self._handler(task)
        finally:
            with self._lock:
                self._at_work -= 1

    def asking(self, get: _Get, again: _Get) -> _Get:
        def patient(*given: Any) -> Optional[Task]:
            now = get
            while True:
                try:
                    return now(*given)
                except DeadlineExceeded as e:
                    if not self._at_work:
                        raise Idle() from e
                    now, given = again, ()
        return patient


def loop_of_work(slot: Slot, handler: Callable[[Task], Any], interrupt: Optional[int] = None) -> None:
    """Calls handler(task) for each task."""
    call = handler
    try:
        if interrupt is not None:
            watch = slot.interrupt = Interrupt(interrupt, slot)

            def call(task: Task) -> Any:
                return watch.run(handler, task)
        _do_tasks(slot, call, slot.finish_and_next, slot.next_task, slot.fail_and_next)
    finally:
        _end(slot)


def _do_tasks(slot: Slot, call: Callable[[Task], Any], finish: _Get, ask: _Get, fail: _Get) -> None:
    task = ask()
    while task is not None:
        try:
            value = call(task)
        except Exception as e:
            if is_raised_further(e, slot.stopping):
                raise
            task = ask() if task.answered else _failed(task, fail, e)
            continue
        if task.answered:
            task = ask()
        else:
            task.answered = True
            task = finish(value)


def _failed(task: Task, fail: _Get, error: Exception) -> Optional[Task]:
    task.answered = True
    return fail(error)


def _end(slot: Slot) -> None:
    interrupt, slot.interrupt = slot.interrupt, None
    try:
        if interrupt is not None:
            interrupt.stop()
    finally:
        slot.close()


class Slots:
    """Several slots, each in a thread. When one fails, the others get no more tasks, and end when they have
    finished those that they have. The failed one puts its task back after they have stopped to wait, since
    one of them would get it otherwise."""

    def __init__(self, open_slot: Callable[[Core], Slot], handler: Callable[[Task], Any]) -> None:
        self._core = Core()
        self._open_slot, self._patience = open_slot, Patience(handler)
        self._lock = threading.Lock()
        self._slots: list[Slot] = []
        self._stopped = False
        self._failures: list[BaseException] = []
        self._idle: list[Optional[BaseException]] = []

    def run(self, n: int) -> None:
        """Returns when all have ended; raises the exception of the first one that has failed."""
        threads = [threading.Thread(target=self._body, name=f"elasticd-slot-{i}", daemon=True)
                   for i in range(n)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self._stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            self._core.close()
        if self._failures:
            raise self._failures[0]
        if len(self._idle) == n and self._idle[0] is not None:
            raise self._idle[0]

    def _body(self) -> None:
        slot: Optional[Slot] = None
        try:
            slot = self._open_slot(self._core)
            self._add(slot)
            asking = self._patience.asking
            finish, ask, fail = (asking(get, slot.next_task)
                                 for get in (slot.finish_and_next, slot.next_task, slot.fail_and_next))
            _do_tasks(slot, self._patience.handle, finish, ask, fail)
        except Idle as e:
            self._idle.append(e.__cause__)
        except BaseException as e:
            if not (self._stopped and isinstance(e, Cancelled)):
                self._failures.append(e)
            self._stop()
        finally:
            if slot is not None:
                slot.close()

    def _add(self, slot: Slot) -> None:
        with self._lock:
            self._slots.append(slot)
            if self._stopped:
                slot.stop()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for slot in self._slots:
                slot.stop()
