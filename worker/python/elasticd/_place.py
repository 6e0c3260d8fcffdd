# SPDX-License-Identifier: Apache-2.0
"""One place at the queue, as the library has it: it has one task or none."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import byref, c_char_p, c_void_p, string_at
from typing import Any, Callable, Mapping, Optional

from ._core import Core, Deadline
from ._errors import Cancelled, Error, FailedPrecondition, Status
from ._interrupt import Interrupt
from ._library import INTERRUPTED, Owned, text_of
from ._queue_types import BUILD, CALL, INIT, ITEM, TASK, CBytes, CFailure, CItem
from ._task import Task, built, failure, failure_of, is_to_go_on
from ._values import JSON, TEXT, decode, encode

Function = Callable[[Any], Any]

_NONE = CBytes(b"null", 4, JSON)
_TO_NONE = byref(_NONE)
_NEVER = -1
_REFUSED = (Status.INVALID_ARGUMENT, Status.RESOURCE_EXHAUSTED)

_builders: dict[str, Function] = {}  # a build may come to any place of the process


class Place:
    """Asks for tasks and answers them, one thread at a time. Builds and calls are served here."""

    def __init__(self, core: Core, resources: Optional[Mapping[str, Function]], init: Optional[Function],
                 calls: Optional[Function], timeout: Optional[float], stopping: Callable[[], bool],
                 by_hand: bool) -> None:
        Deadline(timeout)  # so that nonsense is refused at once
        for name, build in (resources or {}).items():
            if not callable(build):
                raise TypeError(f"resources[{name!r}]: expected a function, got {type(build).__name__}")
        _builders.update(resources or {})
        self.stopping, self.by_hand = stopping, by_hand
        self.interrupt: Optional[Interrupt] = None
        self._core, self._library = core, core.library
        self._init, self._calls, self._timeout = init, calls, timeout
        handle, opened = core.handle(), c_void_p()
        status = INTERRUPTED
        while status == INTERRUPTED:
            status = self._library.work_open(handle, byref(opened))
        self._library.check(status)
        self._handle = handle
        self._work: Optional[Owned] = Owned.of(opened, self._library.work_close, handle)
        self._lock, self._pid = threading.RLock(), os.getpid()
        self._item = c_void_p()
        self._to_item = byref(self._item)
        self._address: Optional[int] = None
        self._view: Any = None
        self._payload, self._form = c_char_p(), c_char_p()
        self._answer = CBytes()
        self._to_answer = byref(self._answer)
        self._bytes = self._library.bytes_from
        # Without argtypes to go through: all that they get is of C's own types.
        self._next, self._finish_next, self._fail_next = self._library.plain_work

    def close(self) -> None:
        """What it has is put back."""
        with self._alone():
            work, self._work = self._work, None
            if work is not None:
                self._library.work_close(work)
                work.value = None  # whoever refers to it, a traceback perhaps

    def why_cancelled(self) -> Optional[str]:
        """None where what it has was not. Of any thread."""
        with self._alone():
            if self._work is None:
                return "the loop is over"
            if self._library.work_cancelled(self._work):
                return text_of(self._library.error_text())
            return None

    def _alone(self) -> Any:
        """Nobody closes it meanwhile."""
        if self._pid != os.getpid():  # a child of fork(): who may have held it is not here
            self._lock, self._pid = threading.RLock(), os.getpid()
        return self._lock

    # What comes next; each of these returns it. None: there will be nothing any more.

    def ask(self) -> Optional[Task]:
        return self._serve(self._again(self._next))

    def finish_and_ask(self, value: Any) -> Optional[Task]:
        if value is not None or self._timeout is not None or self.by_hand:
            return self._serve(self._finished(value))
        # What most handlers return, without a step between: in each of many workers this runs on a processor
        # that others have just had.
        try:
            status = self._finish_next(self._work or self._closed(), _TO_NONE, _NEVER, self._to_item)
        except BaseException:  # of a signal's handler
            self._library.interruptible(self._handle, 1)
            raise
        return self._serve(status if status != INTERRUPTED else self._again(self._next))

    @staticmethod
    def _closed() -> Owned:
        raise Cancelled("the loop is over")

    def fail_and_ask(self, error: BaseException) -> Optional[Task]:
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
        if status in _REFUSED:  # the value, or by the wait for the next one
            error = self._error(status)
            status = self._again(self._fail_next, byref(failure_of(error)))
            if status == Status.FAILED_PRECONDITION:
                raise error
        return status

    def _again(self, function: Any, *answer: Any) -> int:
        """Its status, whatever signals come."""
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
                if status == Status.DEADLINE_EXCEEDED:  # it is to wait
                    self.interrupt.rest()
                    status = self._next(work, ms, self._to_item)
            else:
                status = function(work, *answer, ms, self._to_item)
            while status == INTERRUPTED:  # the answer is given
                if deadline is not None:
                    ms = deadline.left_ms()
                status = self._next(work, ms, self._to_item)
            return status
        except BaseException:  # of a signal's handler
            self._library.interruptible(self._handle, 1)
            raise

    def _serve(self, status: int) -> Optional[Task]:
        """Does what has come until it is a task."""
        while True:
            if status:
                if status != Status.ABORTED:
                    self._core.fail(status)
                status = self._again(self._next)  # the answer was to what had been cancelled
                continue
            address = self._item.value
            if address is None:
                return None
            if address != self._address:
                self._view = (ctypes.c_char * ITEM.size).from_address(address)
                self._payload = c_char_p.from_address(address + CItem.payload.offset)
                self._form = c_char_p.from_address(address + CItem.format.offset)
                self._address = address
            (kind, _, number, name, payload, length, _, _, _, limit_ms, index, incarnation,
             attempt) = ITEM.unpack_from(self._view)
            raw = self._payload.value or b""  # to its first NUL, which is quicker than by its length
            if len(raw) != length:
                raw = self._bytes(payload, length)
            form = self._form.value or b""
            if kind == TASK:
                if self.interrupt is not None:
                    self.interrupt.watch()
                return Task(self, number, raw, form, limit_ms, index, incarnation, attempt)
            status = self._do(kind, text_of(string_at(name)), raw, form)

    def _do(self, kind: int, name: str, raw: bytes, form: bytes) -> int:
        """A build or a call."""
        lacks = self._lacks(kind, name)
        if lacks is not None:
            return self._again(self._fail_next, byref(failure(*lacks, "", False, None)))
        try:
            if kind == INIT and not form:  # roles[].init is a string
                form = TEXT
            value = self._called(kind, name, decode(raw, form))
        except Exception as e:
            if is_to_go_on(e, self.stopping):
                raise
            return self._again(self._fail_next, byref(failure_of(e)))
        return self._finished(value)

    def _function(self, kind: int, name: str) -> Optional[Callable[[Any], Any]]:
        if kind == BUILD:
            return _builders.get(name)
        return self._calls if kind == CALL or self._init is None else self._init

    def _lacks(self, kind: int, name: str) -> Optional[tuple[Status, str]]:
        """Why it is nothing that this worker could do."""
        if self._function(kind, name) is not None:
            return None
        if kind == BUILD:
            return Status.NOT_FOUND, f"this worker cannot build {name}: its loop has no function for that"
        return Status.UNIMPLEMENTED, "this worker takes no calls: its loop has no function for them"

    def _called(self, kind: int, name: str, payload: Any) -> Any:
        function = self._function(kind, name)
        assert function is not None
        value = function(payload)
        if kind != BUILD:
            return value
        built[name] = value
        return None

    # How it went, without asking for more. False: it had been cancelled.

    def finish(self, task: Task, value: Any) -> bool:
        data = _bytes_of(value)
        return self._end(task, self._library.work_finish, byref(data))

    def fail(self, task: Task, failure: CFailure) -> bool:
        return self._end(task, self._library.work_fail, byref(failure))

    def put_back(self, task: Task) -> bool:
        return self._end(task, self._library.work_put_back)

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
