# SPDX-License-Identifier: Apache-2.0
"""A task as the worker that does it sees it."""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from ._errors import Cancelled, Error, InvalidArgument, NotFound, Retry, Status, TaskCancelled
from ._interrupt import edge
from ._queue_types import CFailure
from ._values import decode

if TYPE_CHECKING:
    from ._place import Place

# What this process has built, whichever of its places at the queue was asked to.
built: dict[str, Any] = {}


class Task:
    """A task that this worker does, from tasks() or for the handler of work().

    number is the task's, attempt how often it was begun before, limit the seconds that this try may take
    (None: no limit), raw the payload's bytes. It is answered by finish(), fail() or put_back(), or else by
    asking for the next one: then it is finished with value. With `with task:` an exception of the body
    fails it, its traceback included, and goes no further; one that is no Exception, such as
    KeyboardInterrupt, puts it back and goes on. Retry lets somebody else try again.
    """

    __slots__ = ("_form", "_payload", "_place", "answered", "attempt", "incarnation", "index", "limit",
                 "number", "raw", "value")

    def __init__(self, place: Place, number: int, raw: bytes, form: bytes, limit_ms: int, index: int,
                 incarnation: int, attempt: int) -> None:
        self._place, self.number, self.raw, self._form = place, number, raw, form
        self.limit: Optional[float] = limit_ms / 1000 if limit_ms else None
        self.index, self.incarnation, self.attempt = index, incarnation, attempt
        self.answered = False
        self.value: Any = None

    @property
    def payload(self) -> Any:
        """As it was submitted."""
        try:
            return self._payload
        except AttributeError:
            self._payload: Any = decode(self.raw, self._form)
            return self._payload

    @staticmethod
    def resource(name: str) -> Any:
        """What this process has built under that name."""
        try:
            return built[name]
        except KeyError:
            raise NotFound(f"resource {name} is not built here: a task names what it needs when it is "
                           "submitted") from None

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled, or is not this worker's any more, and so need not be gone on
        with. Without a system call, as a rule."""
        return self.answered or self._place.why_cancelled() is not None

    def finish(self, value: Any = None) -> bool:
        """The task is done. False where it had been cancelled, and so the value is nobody's."""
        return self._place.finish(self, value)

    def fail(self, message: str, code: Union[Status, int, str] = Status.UNKNOWN, *, details: str = "",
             retryable: bool = False, blame: Optional[str] = None) -> bool:
        """The task has failed. details: a traceback. retryable: somebody else is to try again, blame (a
        worker's name or another word) being at fault. False where it had been cancelled."""
        status = Status.of(code)
        if status == Status.OK:
            raise InvalidArgument("code: expected an error, got OK")
        return self._place.fail(self, failure(status, message, details, retryable, blame))

    def put_back(self) -> bool:
        """Somebody else is to do it, and nobody is to blame. False where it had been cancelled."""
        return self._place.put_back(self)

    @edge
    def __enter__(self) -> Task:
        interrupt = self._place.interrupt
        if interrupt is not None:
            interrupt.armed = self
        return self

    @edge
    def __exit__(self, kind: Any, error: Optional[BaseException], _: object) -> bool:
        interrupt = self._place.interrupt
        if interrupt is not None:
            interrupt.armed = None
        if error is None:
            return False
        if self.answered:
            return isinstance(error, TaskCancelled)
        if is_to_go_on(error, self._place.stopping):
            with contextlib.suppress(Error):
                self.put_back()
            return False
        self._place.fail(self, failure_of(error))
        return True

    def __repr__(self) -> str:
        return f"<elasticd.Task {self.number}{', answered' if self.answered else ''}>"


def is_to_go_on(error: BaseException, stopping: Callable[[], bool]) -> bool:
    """Whether it is no failure of the task."""
    return not isinstance(error, Exception) or (isinstance(error, Cancelled) and stopping())


def failure(code: int, message: str, details: str, retryable: bool, blame: Optional[str]) -> CFailure:
    return CFailure(int(code), _text(message), _text(details) or None, bool(retryable),
                    None if blame is None else _text(blame))


def failure_of(error: BaseException) -> CFailure:
    """As it is told to others."""
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
