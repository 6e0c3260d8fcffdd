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


def loop_of_work(place: Place, handler: Callable[[Task], Any],
                 interrupt: Optional[int] = None) -> None:
    """handler(task) for each."""
    call = handler
    try:
        if interrupt is not None:
            watch = place.interrupt = Interrupt(interrupt, place)

            def call(task: Task) -> Any:
                return watch.run(handler, task)
        finish, ask, fail = place.finish_and_ask, place.ask, place.fail_and_ask
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
    failures: list[BaseException] = []
    idle: list[BaseException] = []

    def body() -> None:
        try:
            loop_of_work(open_place(core), handler)
        except DeadlineExceeded as e:
            idle.append(e)
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
    if len(idle) == slots:
        raise idle[0]
