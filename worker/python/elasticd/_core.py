# SPDX-License-Identifier: Apache-2.0
"""One handle of the library, and what every call needs: time limits, bytes, errors.

When a signal arrives the library returns INTERRUPTED, so that Python's handlers run; then the same call is
made again, with the time that is left, and goes on. Where a handler raises, the call is given up.
"""

from __future__ import annotations

import math
import time
import weakref
from ctypes import byref, c_void_p
from typing import Any, Callable, Final, Optional, Union

from . import _library
from ._errors import Cancelled, InvalidArgument
from ._library import INTERRUPTED, Library, Owned, utf8

Bytes = Union[bytes, bytearray, memoryview]

DEFAULT_TIMEOUT: Final = 600.0
"""The seconds that a wait for other workers lasts where the program gives no timeout: torch's default."""

LONGEST_MS = 2**31 - 1  # 24 days


def seconds_argument(value: float, what: str, expected: str) -> float:
    """A time of 0 or more seconds. nan is refused, and text, which float() would accept."""
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
    """A time limit in seconds (None: no limit) that starts now. what: its name, for messages."""

    __slots__ = ("waits", "_end", "_is_default")

    def __init__(self, timeout: Optional[float], what: str = "timeout") -> None:
        self.waits, self._end, self._is_default = True, math.inf, timeout is DEFAULT_TIMEOUT
        if timeout is None:
            return
        timeout = seconds_argument(timeout, what, "seconds >= 0 or None")
        self.waits = timeout > 0
        if self.waits:
            self._end = time.monotonic() + timeout

    def is_over(self) -> bool:
        """False where there is none."""
        return 0 <= self.left_ms() <= 1

    def left_ms(self) -> int:
        """As the library takes it: -1 for no limit, 0 only for a limit that was 0."""
        if not self.waits:
            return 0
        if self._end == math.inf:
            return -1
        left = self._end - time.monotonic()
        return int(min(max(math.ceil(left * 1000), 1), LONGEST_MS))

    def left_checked_ms(self) -> int:
        """The same for calls that fail at once where they would wait for this thread itself, unless the
        program has set the limit (ELASTICD_DEFAULT_LIMIT in binding.h)."""
        left = self.left_ms()
        return -max(left, 2) if self._is_default and left > 0 else left


def bytes_of(value: Union[Bytes, str], what: str = "value") -> bytes:
    if isinstance(value, str):
        return utf8(value, what)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what}: expected bytes or str, got {type(value).__name__}")


class Core:
    """Owns the handle until close(); calls that are under way keep it until they return.

    job: the handle is for the queues of this job, and not the process's own worker.
    """

    def __init__(self, job: Optional[bytes] = None, socket: Optional[bytes] = None) -> None:
        self.library: Library = _library.load()
        handle = c_void_p()
        if job is None:
            status = self.library.open(byref(handle))
        else:
            status = self.library.queue_connect(job, socket, byref(handle))
        self.library.check(status)
        self.library.interruptible(handle, True)
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
        """Ends waiting calls with Cancelled; the handle is freed after the last of them."""
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
        """A call that does not wait for other workers."""
        self.run(getattr(self.library, name), *arguments)

    def run(self, function: Callable[..., int], *arguments: Any) -> None:
        """The same, given the function."""
        status = self._again(function, arguments)
        if status:
            self.library.check(status)

    def _again(self, function: Callable[..., int], arguments: tuple[Any, ...]) -> int:
        handle = self._handle
        if handle is None:
            handle = self.handle()
        try:
            while True:
                status = function(handle, *arguments)
                if status != INTERRUPTED:
                    return status
        except BaseException:  # of a signal's handler
            self.library.give_up(handle)
            raise

    def wait(self, function: Callable[[int], int], timeout: Union[Deadline, Optional[float]]) -> None:
        """Calls function(timeout_ms) until it returns for another reason than a signal; raises its error."""
        status = self.status(function, timeout)
        if status:
            self.fail(status)

    def status(self, function: Callable[[int], int], timeout: Union[Deadline, Optional[float]],
               checked: bool = False) -> int:
        """The same; returns the status. checked: see Deadline.left_checked_ms()."""
        deadline = timeout if isinstance(timeout, Deadline) else Deadline(timeout)
        handle, left = self.handle(), deadline.left_checked_ms if checked else deadline.left_ms
        try:
            while True:
                status = function(left())
                if status != INTERRUPTED:
                    return status
        except BaseException:  # of a signal's handler
            self.library.give_up(handle)
            raise

    def fail(self, status: int) -> None:
        """Raises the error of a call that waits."""
        try:
            self.library.check(status)
        except Cancelled as e:
            if self.closed:
                raise Cancelled("the job's handle was closed") from e
            raise
