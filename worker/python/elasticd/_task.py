# SPDX-License-Identifier: Apache-2.0
"""A task, for the worker that does it."""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from ._errors import Cancelled, Error, InvalidArgument, NotFound, Retry, Status, TaskCancelled
from ._interrupt import edge
from ._queue_types import CFailure
from ._values import decode

if TYPE_CHECKING:
    from ._slot import Slot

# The resources that this process has built; any of its slots may be told to build one.
built: dict[str, Any] = {}


class Task:
    """A task that this worker does, from tasks() or for the handler of work().

    number is the task's number, tries is how often it was begun before, limit is the seconds that this try
    may take (None: no limit), raw has the payload's bytes, index and start are the worker's. finish(), fail()
    or put_back() answer the task; asking for the next task without an answer finishes it with value.

    In `with task:` an exception of the body fails the task, with its traceback, and is raised no further; a
    BaseException that is not an Exception, such as KeyboardInterrupt, puts the task back and is raised
    further. Retry has another worker try it again.
    """

    __slots__ = ("_form", "_payload", "_slot", "answered", "index", "limit", "number", "raw", "start",
                 "tries", "value")

    def __init__(self, slot: Slot, number: int, raw: bytes, form: bytes, limit_ms: int, index: int,
                 start: int, tries: int) -> None:
        self._slot, self.number, self.raw, self._form = slot, number, raw, form
        self.limit: Optional[float] = limit_ms / 1000 if limit_ms else None
        self.index, self.start, self.tries = index, start, tries
        self.answered = False
        self.value: Any = None

    @property
    def payload(self) -> Any:
        """The payload, as it was submitted."""
        try:
            return self._payload
        except AttributeError:
            self._payload: Any = decode(self.raw, self._form)
            return self._payload

    @staticmethod
    def resource(name: str) -> Any:
        """The resource of that name, which this process has built."""
        try:
            return built[name]
        except KeyError:
            raise NotFound(f"resource {name} is not built here: name it when the task is submitted"
                           ) from None

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled, or this worker has lost it, so that there is no use in going on.
        Mostly without a system call."""
        return self.answered or self._slot.why_cancelled() is not None

    def finish(self, value: Any = None) -> bool:
        """The task is done. False where it had been cancelled, so that the value is not used."""
        return self._slot.finish(self, value)

    def fail(self, message: str, code: Union[Status, int, str] = Status.UNKNOWN, *, details: str = "",
             retryable: bool = False, blame: Optional[str] = None) -> bool:
        """The task has failed. details: for example a traceback. retryable: another worker should try again;
        blame, a worker's name or another word, is at fault. False where the task had been cancelled."""
        status = Status.of(code)
        if status == Status.OK:
            raise InvalidArgument("code: expected an error, got OK")
        return self._slot.fail(self, failure(status, message, details, retryable, blame))

    def put_back(self) -> bool:
        """Another worker should do it, and no one is to blame. False where it had been cancelled."""
        return self._slot.put_back(self)

    @edge
    def __enter__(self) -> Task:
        interrupt = self._slot.interrupt
        if interrupt is not None:
            interrupt.armed = self
        return self

    @edge
    def __exit__(self, kind: Any, error: Optional[BaseException], _: object) -> bool:
        interrupt = self._slot.interrupt
        if interrupt is not None:
            interrupt.armed = None
        if error is None:
            return False
        if self.answered:
            return isinstance(error, TaskCancelled)
        if is_raised_further(error, self._slot.stopping):
            with contextlib.suppress(Error):
                self.put_back()
            return False
        self._slot.fail(self, failure_of(error))
        return True

    def __repr__(self) -> str:
        return f"<elasticd.Task {self.number}{', answered' if self.answered else ''}>"


def is_raised_further(error: BaseException, stopping: Callable[[], bool]) -> bool:
    """Whether the exception is raised further: it is not a failure of the task."""
    return not isinstance(error, Exception) or (isinstance(error, Cancelled) and stopping())


def failure(code: int, message: str, details: str, retryable: bool, blame: Optional[str]) -> CFailure:
    return CFailure(int(code), _text(message), _text(details) or None, bool(retryable),
                    None if blame is None else _text(blame))


def failure_of(error: BaseException) -> CFailure:
    """The failure for an exception, without the frames of this package."""
    trace = error.__traceback__
    package = __name__.rpartition(".")[0]
    while trace is not None and trace.tb_frame.f_globals.get("__package__") == package:
        trace = trace.tb_next
    details = "".join(traceback.format_exception(type(error), error, trace))
    name = type(error).__name__
    if isinstance(error, Retry):
        return failure(error.code, str(error) or name, details, True, error.blame)
    code = error.code if isinstance(error, Error) else Status.UNKNOWN
    text = str(error)
    return failure(code, f"{name}: {text}" if text else name, details, False, None)


def _text(text: str) -> bytes:
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace")
