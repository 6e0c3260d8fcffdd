# SPDX-License-Identifier: Apache-2.0
"""One handle of the library and what every call of it needs: waiting, text, errors.

A call comes back from the library when a signal arrives, so that Python's handlers run, and then goes
on: one that waits with the rest of its time, any other where it was.
"""

from __future__ import annotations

import math
import time
import weakref
from ctypes import byref, c_void_p
from typing import Any, Callable, Optional, Union

from . import _library
from ._errors import Cancelled, InvalidArgument
from ._library import INTERRUPTED, Library, Owned, utf8

Bytes = Union[bytes, bytearray, memoryview]
_LONGEST_MS = 2**31 - 1  # 24 days


def seconds_argument(value: float, what: str, expected: str) -> float:
    """A time from 0 on. No text, of which float() would make one, and no nan."""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        seconds = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what}: expected {expected}, got {value!r:.100}") from None
    except OverflowError:
        seconds = math.nan
    if seconds >= 0:
        return seconds
    raise InvalidArgument(f"{what}: expected {expected}, got {value!r:.100}")


class Deadline:
    """A time limit in seconds (None: none) that starts now. what: its name, for who gave another thing."""

    __slots__ = ("waits", "_end")

    def __init__(self, timeout: Optional[float], what: str = "timeout") -> None:
        self.waits, self._end = True, math.inf
        if timeout is None:
            return
        timeout = seconds_argument(timeout, what, "seconds >= 0 or None")
        self.waits = timeout > 0
        if self.waits:
            self._end = time.monotonic() + timeout

    def left_ms(self) -> int:
        """As the library takes it: -1 for no limit, 0 only for a limit that was 0."""
        if not self.waits:
            return 0
        if self._end == math.inf:
            return -1
        left = self._end - time.monotonic()
        return int(min(max(math.ceil(left * 1000), 1), _LONGEST_MS))


def bytes_of(value: Union[Bytes, str], what: str = "value") -> bytes:
    if isinstance(value, str):
        return utf8(value, what)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what}: expected bytes or str, got {type(value).__name__}")


class Core:
    """Owns the handle until close(); calls that are under way keep it alive until they are back.

    job: whose queues the handle is for, where it is not one of the process's own task.
    """

    def __init__(self, job: Optional[bytes] = None, socket: Optional[bytes] = None) -> None:
        self.library: Library = _library.load()
        handle = c_void_p()
        if job is None:
            status = self.library.open(byref(handle))
        else:
            status = self.library.connect(job, socket, byref(handle))
        self.library.check(status)
        self.library.interruptible(handle, 1)
        self._handle: Optional[Owned] = Owned.of(handle, self.library.close)
        self.streams: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def closed(self) -> bool:
        return self._handle is None

    def handle(self) -> Owned:
        handle = self._handle
        if handle is None:
            raise Cancelled("the job's handle is closed")
        return handle

    def close(self) -> None:
        """Calls that wait end with Cancelled; the handle goes with the last of them."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        self.library.cancel(handle)
        for stream in self._streams():
            stream.close()

    def _streams(self) -> list[Any]:
        while True:
            try:
                return list(self.streams)
            except RuntimeError:  # another thread has just added one
                pass

    def call(self, name: str, *arguments: Any) -> None:
        """A call that does not wait for other tasks."""
        self.run(getattr(self.library, name), *arguments)

    def run(self, function: Callable[..., int], *arguments: Any) -> None:
        """The same by its function. Made again, it goes on where a signal ended it."""
        status = self._again(function, arguments, INTERRUPTED)
        if status:
            self.library.check(status)

    def ask(self, name: str, *arguments: Any) -> int:
        """The same, of one that returns what it has to say, or the negative of a status."""
        said = self._again(getattr(self.library, name), arguments, -INTERRUPTED)
        if said < 0:
            self.library.check(-said)
        return said

    def _again(self, function: Callable[..., int], arguments: tuple[Any, ...], interrupted: int) -> int:
        handle = self._handle
        if handle is None:
            handle = self.handle()
        try:
            while True:
                result = function(handle, *arguments)
                if result != interrupted:
                    return result
        except BaseException:  # of a signal's handler
            self.library.interruptible(handle, 1)
            raise

    def wait(self, function: Callable[[int], int], timeout: Union[Deadline, Optional[float]]) -> None:
        """function(timeout_ms) until it returns for another reason than a signal."""
        status = self.status(function, timeout)
        if status:
            self.fail(status)

    def status(self, function: Callable[[int], int], timeout: Union[Deadline, Optional[float]]) -> int:
        """What it returned."""
        deadline = timeout if isinstance(timeout, Deadline) else Deadline(timeout)
        handle = self.handle()
        try:
            while True:
                status = function(deadline.left_ms())
                if status != INTERRUPTED:
                    return status
        except BaseException:  # of a signal's handler: the call is not made again
            self.library.interruptible(handle, 1)
            raise

    def fail(self, status: int) -> None:
        """Raises what a call that waits has come to."""
        try:
            self.library.check(status)
        except Cancelled as e:
            if self.closed:
                raise Cancelled("the job's handle was closed") from e
            raise
