# SPDX-License-Identifier: Apache-2.0
"""The status codes, and an exception for each of them."""

from __future__ import annotations

import enum
import re
from typing import Any, ClassVar


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
        raise ValueError(f"code: expected a status code or its name, got {code!r}")


class Error(Exception):
    """What a call of elasticd failed with. Each status code has a subclass of its own.

    code is the Status; missing names the tasks ("worker:1") that the error is about, if any.
    """

    code: ClassVar[Status] = Status.UNKNOWN

    def __init__(self, message: str = "", missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.missing = tuple(missing)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Any:
        return type(self), (self.message, self.missing)


class Cancelled(Error):
    """The group is being stopped, the handle was closed, or somebody cancelled the wait."""

    code = Status.CANCELLED


class Unknown(Error):
    """None of the others."""

    code = Status.UNKNOWN


class InvalidArgument(Error, ValueError):
    """Something that was passed, or the environment, makes no sense."""

    code = Status.INVALID_ARGUMENT


class DeadlineExceeded(Error, TimeoutError):
    """The time limit is over."""

    code = Status.DEADLINE_EXCEEDED


class NotFound(Error, KeyError):
    """There is no such key."""

    code = Status.NOT_FOUND


class AlreadyExists(Error):
    """The key is there already."""

    code = Status.ALREADY_EXISTS


class PermissionDenied(Error, PermissionError):
    """This process may not do that."""

    code = Status.PERMISSION_DENIED


class ResourceExhausted(Error):
    """A limit was reached: of size, of memory, of calls in flight."""

    code = Status.RESOURCE_EXHAUSTED


class FailedPrecondition(Error):
    """The group is not in a state for it; this process is stale, perhaps."""

    code = Status.FAILED_PRECONDITION


class Aborted(Error):
    """Another member failed."""

    code = Status.ABORTED


class OutOfRange(Error):
    """Changes were lost: list, and watch anew."""

    code = Status.OUT_OF_RANGE


class Unimplemented(Error, NotImplementedError):
    """The agent does not know the call."""

    code = Status.UNIMPLEMENTED


class Internal(Error):
    """Something that should not have happened did."""

    code = Status.INTERNAL


class Unavailable(Error, ConnectionError):
    """The agent does not answer."""

    code = Status.UNAVAILABLE


class DataLoss(Error):
    """Data is gone for good."""

    code = Status.DATA_LOSS


class Unauthenticated(Error):
    """It is not known who asks."""

    code = Status.UNAUTHENTICATED


def _by_code() -> dict[int, type[Error]]:
    return {int(cls.code): cls for cls in Error.__subclasses__()}


_BY_CODE = _by_code()


def error_of(status: int, message: str, missing: str = "") -> Error:
    """The exception for what a call of the library returned. missing: names with spaces between."""
    return _BY_CODE.get(status, Unknown)(message, tuple(missing.split()))
