# SPDX-License-Identifier: Apache-2.0
"""The status codes, and an exception for each of them."""

from __future__ import annotations

import enum
import re
from typing import Any, ClassVar, Mapping, Optional, Union


class Status(enum.IntEnum):
    """The canonical status codes, numbered as in elasticd.h."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @classmethod
    def of(cls, code: int | str) -> Status:
        """The status of a number or of a name: 4, "DeadlineExceeded", "DEADLINE_EXCEEDED"."""
        if isinstance(code, str):
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper()
            if name in cls.__members__:
                return cls[name]
        elif code in cls._value2member_map_:
            return cls(code)
        raise InvalidArgument(f"code: expected a status code or its name, got {code!r}")


class Error(Exception):
    """The error of a call. Each status code has a subclass of its own.

    code is the Status; missing names the workers ("worker:1") that the error is about, if any. Where a task
    of a queue has failed, task is its number, worker is the worker that did it, details has what that worker
    said beyond the message, for example a traceback, and exit_code is the code with which the job wants its
    coordinator to exit, if any. about: what elasticd says beside the message of a Manager's error, such as
    the job and its state.
    """

    code: ClassVar[Status] = Status.UNKNOWN
    task: Optional[int] = None
    worker: Optional[str] = None
    details: str = ""
    exit_code: Optional[int] = None
    about: Mapping[str, Any] = {}

    def __init__(self, message: str = "", missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.missing = tuple(missing)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Any:
        return type(self), (self.message, self.missing), self.__dict__.copy()


class Cancelled(Error):
    """The group is being stopped, the handle was closed, or a worker cancelled the barrier."""

    code = Status.CANCELLED


class Unknown(Error):
    """An error without a better code."""

    code = Status.UNKNOWN


class InvalidArgument(Error, ValueError):
    """An argument, or a variable of the environment, makes no sense."""

    code = Status.INVALID_ARGUMENT


class DeadlineExceeded(Error, TimeoutError):
    """The time limit is over."""

    code = Status.DEADLINE_EXCEEDED


class NotFound(Error, KeyError):
    """There is no such key, job or worker."""

    code = Status.NOT_FOUND


class AlreadyExists(Error):
    """The key is there already, or the job is active."""

    code = Status.ALREADY_EXISTS


class PermissionDenied(Error, PermissionError):
    """This process may not do that."""

    code = Status.PERMISSION_DENIED


class ResourceExhausted(Error):
    """A limit was reached: of size, of memory, of calls in flight."""

    code = Status.RESOURCE_EXHAUSTED


class FailedPrecondition(Error):
    """The group, the job, or this worker, is not in a state for it."""

    code = Status.FAILED_PRECONDITION


class Aborted(Error):
    """The worker has another process by now, the group has an error, or a checkpoint was not written."""

    code = Status.ABORTED


class OutOfRange(Error):
    """Changes were lost: list the keys, and open another watch."""

    code = Status.OUT_OF_RANGE


class Unimplemented(Error, NotImplementedError):
    """The agent, or elasticd, does not know the call."""

    code = Status.UNIMPLEMENTED


class Internal(Error):
    """Something that should not have happened did."""

    code = Status.INTERNAL


class Unavailable(Error, ConnectionError):
    """The agent, or elasticd, does not answer."""

    code = Status.UNAVAILABLE


class DataLoss(Error):
    """Data is gone for good."""

    code = Status.DATA_LOSS


class Unauthenticated(Error):
    """The caller is not known."""

    code = Status.UNAUTHENTICATED


def _by_code() -> dict[int, type[Error]]:
    return {int(cls.code): cls for cls in Error.__subclasses__()}


_BY_CODE = _by_code()


def error_of(status: int, message: str, missing: str = "") -> Error:
    """The exception for the status of a call. missing: names with spaces between."""
    return _BY_CODE.get(status, Unknown)(message, tuple(missing.split()))


class QueueFailed(Error):
    """The first task of a queue has failed: submit(), join() or done() raises it, once. It is also the
    exception of its code: both `except Unavailable` and `except QueueFailed` catch it."""

    def __reduce__(self) -> Any:
        return of_kind, (QueueFailed, int(self.code), self.message, self.missing), self.__dict__.copy()


class CallFailed(Error):
    """A worker has not answered a call, or with an error: the first such error, which is also the exception
    of its code. answers has the answer of each worker."""

    answers: tuple[Any, ...] = ()

    def __reduce__(self) -> Any:
        return of_kind, (CallFailed, int(self.code), self.message, self.missing), self.__dict__.copy()


class TaskCancelled(Exception):
    """Raised within a task that was cancelled, where tasks(interrupt=...) asks for it."""


class Retry(Exception):
    """A handler raises it to have another worker try the task again. blame: what is at fault, a worker's name
    or another word; a task fails after queue.blame_limit tries with the same blame."""

    def __init__(self, message: str = "", blame: Optional[str] = None,
                 code: Union[Status, int, str] = Status.UNAVAILABLE) -> None:
        super().__init__(message)
        self.blame, self.code = blame, Status.of(code)


_mixed: dict[tuple[type[Error], type[Error]], type[Error]] = {}


def of_kind(kind: type[Error], status: int, message: str, missing: tuple[str, ...] = ()) -> Error:
    """The exception of that status which is also one of kind."""
    base = _BY_CODE.get(status, Unknown)
    if (kind, base) not in _mixed:
        text = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": kind.__reduce__}
        _mixed[kind, base] = type(kind.__name__, (base, kind), text)
    return _mixed[kind, base](message, missing)
