# SPDX-License-Identifier: Apache-2.0
"""One slot of this worker at the queue: it has one task, or none."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import byref, c_char_p, c_void_p, string_at
from typing import Any, Callable, Mapping, Optional

from ._core import Core, Deadline
from ._errors import Cancelled, Error, FailedPrecondition, Status
from ._interrupt import Interrupt
from ._library import INTERRUPTED, Owned, text_of, uninterrupted
from ._queue_types import BUILD, CALL, INIT, ITEM, TASK, CBytes, CFailure, CItem
from ._task import Task, built, failure, failure_of, is_raised_further
from ._values import JSON, TEXT, decode, encode

Function = Callable[[Any], Any]

_NONE = CBytes(b"null", 4, JSON)
_TO_NONE = byref(_NONE)
_NEVER = -1
_REFUSED = (Status.INVALID_ARGUMENT, Status.RESOURCE_EXHAUSTED)

_builders: dict[str, Function] = {}  # of the process: any of its slots may be told to build


class Slot:
    """Asks for tasks and answers them, one thread at a time. It also serves builds and calls."""

    def __init__(self, core: Core, resources: Optional[Mapping[str, Function]], init: Optional[Function],
                 calls: Optional[Function], timeout: Optional[float], stopping: Callable[[], bool],
                 by_hand: bool) -> None:
        Deadline(timeout)  # refuses nonsense at once
        for name, build in (resources or {}).items():
            if not callable(build):
                raise TypeError(f"resources[{name!r}]: expected a function, got {type(build).__name__}")
        _builders.update(resources or {})
        self.stopping, self.by_hand = stopping, by_hand
        self.interrupt: Optional[Interrupt] = None
        self._core, self._library = core, core.library
        self._init, self._calls, self._timeout = init, calls, timeout
        handle, opened = core.handle(), c_void_p()
        self._library.check(uninterrupted(lambda: int(self._library.queue_work_open(handle, byref(opened)))))
        self._handle = handle
        self._work: Optional[Owned] = Owned.of(opened, self._library.queue_work_close, handle)
        self._lock, self._pid = threading.RLock(), os.getpid()
        self._item = c_void_p()
        self._to_item = byref(self._item)
        self._address: Optional[int] = None
        self._view: Any = None
        self._payload, self._form = c_char_p(), c_char_p()
        self._answer = CBytes()
        self._to_answer = byref(self._answer)
        self._bytes = self._library.bytes_from
        # Functions without argtypes: all their arguments are of C's types.
        self._next, self._finish_next, self._fail_next = self._library.work_plain

    def close(self) -> None:
        """Puts back the task that it has."""
        with self._exclusive():
            work, self._work = self._work, None
            if work is not None:
                self._library.queue_work_close(work)
                work.value = None  # a traceback, for example, may still refer to it

    def stop(self) -> None:
        """Ends its wait for a task, in another thread, with Cancelled. It gets no more tasks, but can answer
        the task that it has."""
        with self._exclusive():
            if self._work is not None:
                self._library.queue_work_stop(self._work)

    def why_cancelled(self) -> Optional[str]:
        """Why the task was cancelled; None where it was not. Any thread may call it."""
        with self._exclusive():
            if self._work is None:
                return "the loop is over"
            status = uninterrupted(lambda: int(self._library.queue_work_cancelled(self._work)))
            return text_of(self._library.error_text()) if status == Status.CANCELLED else None

    def _exclusive(self) -> Any:
        """No other thread closes it meanwhile."""
        if self._pid != os.getpid():  # a child of fork(), where no other thread holds the lock
            self._lock, self._pid = threading.RLock(), os.getpid()
        return self._lock

    # Each of these returns the next task. None: no task will come any more.

    def next_task(self) -> Optional[Task]:
        return self._serve(self._again(self._next))

    def finish_and_next(self, value: Any) -> Optional[Task]:
        if value is not None or self._timeout is not None or self.by_hand:
            return self._serve(self._finished(value))
        # Most handlers return None: this is the shortest way, since with many workers each runs on a
        # processor whose caches another one has just used.
        try:
            status = self._finish_next(self._work or self._closed(), _TO_NONE, _NEVER, self._to_item)
        except BaseException:  # of a signal's handler
            self._library.give_up(self._handle)
            raise
        return self._serve(status if status != INTERRUPTED else self._again(self._next))

    @staticmethod
    def _closed() -> Owned:
        raise Cancelled("the loop is over")

    def fail_and_next(self, error: BaseException) -> Optional[Task]:
        return self._serve(self._again(self._fail_next, byref(failure_of(error))))

    def _finished(self, value: Any) -> int:
        if value is None:
            return self._again(self._finish_next, _TO_NONE)
        answer = self._answer
        try:
            answer.data, answer.format = raw, _ = encode(value, "value")
        except (TypeError, ValueError, RecursionError) as e:
            return self._again(self._fail_next, byref(failure_of(e)))
        answer.len = len(raw)
        status = self._again(self._finish_next, self._to_answer)
        answer.data = None
        if status in _REFUSED:  # of the value, or of the wait for the next task
            error = self._error(status)
            status = self._again(self._fail_next, byref(failure_of(error)))
            if status == Status.FAILED_PRECONDITION:
                raise error
        return status

    def _again(self, function: Any, *answer: Any) -> int:
        """Calls function until it returns for another reason than a signal. Returns the status."""
        work, timeout = self._work or self._closed(), self._timeout
        deadline: Optional[Deadline] = None
        ms = _NEVER
        if timeout is not None:
            deadline = Deadline(timeout)
            ms = deadline.left_ms()
        try:
            status: int
            if self.by_hand and self.interrupt is not None:
                status = function(work, *answer, 0, self._to_item)
                if status == Status.DEADLINE_EXCEEDED:  # it has to wait
                    self.interrupt.rest()
                    status = self._next(work, ms, self._to_item)
            else:
                status = function(work, *answer, ms, self._to_item)
            while status == INTERRUPTED:  # the answer is on its way
                if deadline is not None:
                    ms = deadline.left_ms()
                status = self._next(work, ms, self._to_item)
            return status
        except BaseException:  # of a signal's handler
            self._library.give_up(self._handle)
            raise

    def _serve(self, status: int) -> Optional[Task]:
        """Serves builds and calls until a task comes."""
        while True:
            if status:
                if status != Status.ABORTED:
                    self._core.fail(status)
                status = self._again(self._next)  # the item that was answered had been cancelled
                continue
            address = self._item.value
            if address is None:
                return None
            if address != self._address:
                self._view = (ctypes.c_char * ITEM.size).from_address(address)
                self._payload = c_char_p.from_address(address + CItem.payload.offset)
                self._form = c_char_p.from_address(address + CItem.format.offset)
                self._address = address
            (kind, _, number, name, payload, length, _, _, _, limit_ms, index, start,
             tries) = ITEM.unpack_from(self._view)
            raw = self._payload.value or b""  # up to its first NUL, which is faster than by its length
            if len(raw) != length:
                raw = self._bytes(payload, length)
            form = self._form.value or b""
            if kind == TASK:
                if self.interrupt is not None:
                    self.interrupt.watch()
                return Task(self, number, raw, form, limit_ms, index, start, tries)
            status = self._do(kind, text_of(string_at(name)), raw, form)

    def _do(self, kind: int, name: str, raw: bytes, form: bytes) -> int:
        """Serves a build or a call."""
        lacks = self._lacks(kind, name)
        if lacks is not None:
            return self._again(self._fail_next, byref(failure(*lacks, "", False, None)))
        try:
            if kind == INIT and not form:  # roles[].init is a string
                form = TEXT
            value = self._called(kind, name, decode(raw, form))
        except Exception as e:
            if is_raised_further(e, self.stopping):
                raise
            return self._again(self._fail_next, byref(failure_of(e)))
        return self._finished(value)

    def _function(self, kind: int, name: str) -> Optional[Callable[[Any], Any]]:
        if kind == BUILD:
            return _builders.get(name)
        return self._calls if kind == CALL or self._init is None else self._init

    def _lacks(self, kind: int, name: str) -> Optional[tuple[Status, str]]:
        """Why this worker cannot serve it; None where it can."""
        if self._function(kind, name) is not None:
            return None
        if kind == BUILD:
            return Status.NOT_FOUND, f"this worker cannot build {name}: its loop has no function for it"
        return Status.UNIMPLEMENTED, "this worker takes no calls: its loop has no function for them"

    def _called(self, kind: int, name: str, payload: Any) -> Any:
        function = self._function(kind, name)
        assert function is not None
        value = function(payload)
        if kind != BUILD:
            return value
        built[name] = value
        return None

    # Answers that do not ask for the next task. False: the task had been cancelled.

    def finish(self, task: Task, value: Any) -> bool:
        data = _bytes_of(value)
        return self._end(task, self._library.queue_work_finish, byref(data))

    def fail(self, task: Task, failure: CFailure) -> bool:
        return self._end(task, self._library.queue_work_fail, byref(failure))

    def put_back(self, task: Task) -> bool:
        return self._end(task, self._library.queue_work_put_back)

    def _end(self, task: Task, function: Any, *answer: Any) -> bool:
        if task.answered:
            raise FailedPrecondition(f"task {task.number} is answered already")
        work, interrupt = self._work, self.interrupt
        if work is None:
            raise FailedPrecondition(f"task {task.number} was put back: the loop is over")
        if interrupt is not None:
            interrupt.busy = True
        try:
            status = self._core.status(lambda _: int(function(work, *answer)), None)
        finally:
            if interrupt is not None:
                interrupt.busy = False
        if status not in _REFUSED:
            task.answered = True
        if status and status != Status.ABORTED:
            self._core.fail(status)
        return status == 0

    def _error(self, status: int) -> Error:
        try:
            self._library.check(status)
        except Error as e:
            return e
        raise AssertionError(status)


def _bytes_of(value: Any) -> CBytes:
    raw, form = encode(value, "value")
    return CBytes(raw, len(raw), form)
