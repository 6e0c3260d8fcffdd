# SPDX-License-Identifier: Apache-2.0
"""The loops of workers that do tasks."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, Optional

from ._core import Core
from ._errors import DeadlineExceeded
from ._interrupt import Interrupt
from ._place import Place
from ._task import Task, is_to_go_on


def loop_of_tasks(place: Place, interrupt: Optional[int]) -> Iterator[Task]:
    """One after the other, as they are asked for."""
    try:
        if interrupt is not None:
            place.interrupt = Interrupt(interrupt, place)
        task = place.ask()
        while task is not None:
            yield task
            if task.answered:
                task = place.ask()
            else:
                task.answered = True
                task = place.finish_and_ask(task.value)
    finally:
        _end(place)


class Idle(Exception):
    """Nothing came in time for any slot."""


class Patience:
    """Of slots side by side: one for which nothing comes in time asks again while another is at a task."""

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

    def asking(self, get: Callable[..., Optional[Task]],
               again: Callable[[], Optional[Task]]) -> Callable[..., Optional[Task]]:
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


def loop_of_work(place: Place, handler: Callable[[Task], Any],
                 interrupt: Optional[int] = None, patience: Optional[Patience] = None) -> None:
    """handler(task) for each. With patience it asks again where nothing came in time."""
    call = handler
    try:
        if interrupt is not None:
            watch = place.interrupt = Interrupt(interrupt, place)

            def call(task: Task) -> Any:
                return watch.run(handler, task)
        finish, ask, fail = place.finish_and_ask, place.ask, place.fail_and_ask
        if patience is not None:
            finish, ask, fail = (patience.asking(get, place.ask) for get in (finish, ask, fail))
        task = ask()
        while task is not None:
            try:
                value = call(task)
            except Exception as e:
                if is_to_go_on(e, place.stopping):
                    raise
                task = ask() if task.answered else _failed(task, fail, e)
                continue
            if task.answered:
                task = ask()
            else:
                task.answered = True
                task = finish(value)
    finally:
        _end(place)


def _failed(task: Task, fail: Callable[[BaseException], Optional[Task]], error: Exception) -> Optional[Task]:
    task.answered = True
    return fail(error)


def _end(place: Place) -> None:
    interrupt, place.interrupt = place.interrupt, None
    try:
        if interrupt is not None:
            interrupt.stop()
    finally:
        place.close()


def work_in_threads(open_place: Callable[[Core], Place], handler: Callable[[Task], Any], slots: int) -> None:
    """The same in as many threads, until all are at the end or the first one fails. One for which nothing
    comes in time has not failed: it ends no other amid a task."""
    core = Core()  # one that can be closed below those that wait
    patience = Patience(handler)
    failures: list[BaseException] = []
    idle: list[Optional[BaseException]] = []

    def body() -> None:
        try:
            loop_of_work(open_place(core), patience.handle, patience=patience)
        except Idle as e:
            idle.append(e.__cause__)
        except BaseException as e:
            failures.append(e)
            core.close()

    threads = [threading.Thread(target=body, name=f"elasticd-slot-{i}", daemon=True) for i in range(slots)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        core.close()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if failures:
        raise failures[0]
    if len(idle) == slots and idle[0] is not None:
        raise idle[0]
