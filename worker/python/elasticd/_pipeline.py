# SPDX-License-Identifier: Apache-2.0
"""Several calls of the key-value store that go together."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_int64, c_size_t, c_void_p, string_at
from itertools import accumulate
from types import TracebackType
from typing import Any, List, Optional, Type, Union

from ._core import Bytes, Core, Deadline, bytes_of
from ._errors import Error, FailedPrecondition, error_of
from ._library import INTERRUPTED, OP, SIZES, text_argument

PUT, GET, DELETE = 1, 2, 3
OVERWRITE, PERSISTENT = 16, 32  # with PUT

_ROOM, _CALLS = 1 << 16, 256
_ROOM_ARGUMENT = c_size_t.from_param(_ROOM)


class _Place:
    """Where a batch has what becomes of it."""

    __slots__ = ("buffer", "ops", "said", "told")

    def __init__(self) -> None:
        self.ops, self.said = c_void_p(), (c_int64 * _CALLS)()
        self.buffer: Any = ctypes.create_string_buffer(_ROOM)
        # As the library is told of them.
        self.told = byref(self.ops), byref(self.buffer), _ROOM_ARGUMENT, byref(self.said)


class Maker:
    """Makes calls in one write, as they are packed for the library."""

    def __init__(self, core: Core) -> None:
        self.core, self._call = core, core.library.packed_plain
        self._places: list[_Place] = []  # that no call uses now

    def make(self, kinds: bytes, keys: List[str], values: Optional[List[bytes]],
             timeout: Optional[float]) -> tuple[List[Any], bool]:
        """What each came to: the value of a get, how many keys a delete found, None, or its Error; and
        whether there is one of the latter."""
        n = len(keys)
        if not n:
            return [], False
        text: Optional[bytes]
        try:
            text = "\0".join(keys).encode()
        except (TypeError, UnicodeEncodeError):
            text = None
        if text is None or text.count(0) != n - 1:
            text = b"\0".join([text_argument(key, "key") for key in keys])
        ms, deadline = -1, None
        if timeout is not None:
            deadline = Deadline(timeout)
            ms = deadline.left_ms()
        data = lengths = None
        if values is not None:
            data, lengths = b"".join(values), struct.pack(f"@{n}N", *map(len, values))
        try:
            place = self._places.pop()
        except IndexError:
            place = _Place()
        ops, said, told, handle = place.ops, place.said, place.told, self.core.handle()
        if n > _CALLS:
            said = (c_int64 * n)()
            told = *told[:3], byref(said)
        size = SIZES[n] if n < 256 else c_size_t(n)
        try:
            status = self._call(handle, size, kinds, text, data, lengths, ms, *told)
            while status == INTERRUPTED:
                if deadline is not None:
                    ms = deadline.left_ms()
                status = self._call(handle, size, kinds, text, data, lengths, ms, *told)
            if ops:
                return _told(ops, n), status != 0
        except BaseException:  # of a signal's handler
            self.core.library.interruptible(handle, 1)
            raise
        finally:
            if ops:
                self.core.library.ops_free(ops, n)
                ops.value = None
        if status:
            self.core.library.check(status)
        found = _unpacked(kinds, said[:n], place.buffer)
        self._places.append(place)
        return found, False


def _unpacked(kinds: bytes, said: List[int], buffer: Any) -> List[Any]:
    gets = kinds.count(GET)
    if not gets and DELETE not in kinds:
        return [None] * len(said)
    if gets == len(said):
        ends = list(accumulate(said))
        raw = buffer[:ends[-1]]
        return [raw[end - length:end] for end, length in zip(ends, said)]
    found: List[Any] = []
    at = 0
    for kind, number in zip(kinds, said):
        if kind == GET:
            found.append(buffer[at:at + number])
            at += number
        else:
            found.append(number if kind == DELETE else None)
    return found


def _told(ops: c_void_p, n: int) -> List[Any]:
    """The same, of each call's own record."""
    records = string_at(ops, OP.size * n)
    return [error_of(status, (string_at(text) if text else b"").decode(errors="replace"), "") if status
            else string_at(value, length) if op == GET else deleted if op == DELETE else None
            for op, _, _, _, _, _, status, value, length, deleted, text in OP.iter_unpack(records)]


class Pending:
    """What one call of a pipeline comes to, once that was made."""

    __slots__ = ("_error", "_value")

    _error: Error
    _value: Any

    @property
    def error(self) -> Optional[Error]:
        """None where it has succeeded."""
        try:
            return self._error
        except AttributeError:
            pass
        if hasattr(self, "_value"):
            return None
        return FailedPrecondition("the pipeline was not made")

    def result(self) -> Any:
        """The value of a get, how many keys a delete found, None for a put; or its error is raised."""
        try:
            return self._value
        except AttributeError:
            pass
        error = self.error
        assert error is not None
        raise error


class Pipeline:
    """Calls that are collected and made in one write, in their order, when the with statement ends or at
    run(); what others do may come between them. Nothing is made where the with statement ends by an
    exception.

    Each call has its own result or error. run() raises the first error, unless check is False; the
    calls behind it are made all the same. timeout (seconds; None: no limit) is for all gets together.
    """

    def __init__(self, maker: Maker, timeout: Optional[float] = None, check: bool = True) -> None:
        if timeout is not None:
            Deadline(timeout)
        self._maker, self._timeout, self._check = maker, timeout, check
        self._begin()

    def _begin(self) -> None:
        self._kinds = bytearray()
        self._keys: list[str] = []
        self._values: list[bytes] = []
        self._pending: list[Pending] = []

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, key: str, value: Union[Bytes, str], *, overwrite: bool = False,
            persistent: bool = False) -> Pending:
        """Writes a key; AlreadyExists where it is there and overwrite is not set."""
        data = value if type(value) is bytes else bytes_of(value)
        kind = PUT | OVERWRITE if overwrite else PUT
        return self._add(kind | PERSISTENT if persistent else kind, key, data)

    def get(self, key: str) -> Pending:
        """Waits until somebody has written the key, which may be a put before this in the pipeline."""
        return self._add(GET, key, b"")

    def delete(self, key: str) -> Pending:
        """Deletes a key and all below it."""
        return self._add(DELETE, key, b"")

    def _add(self, kind: int, key: str, data: bytes) -> Pending:
        if type(key) is not str or "\0" in key:
            text_argument(key, "key")
        pending = Pending()
        self._kinds.append(kind)
        self._keys.append(key)
        self._values.append(data)
        self._pending.append(pending)
        return pending

    def run(self) -> None:
        """Makes what was collected; the pipeline is empty then, and can be used again."""
        kinds, keys, values, pending = bytes(self._kinds), self._keys, self._values, self._pending
        self._begin()
        said, failed = self._maker.make(kinds, keys, values, self._timeout)
        if not failed:
            for waiting, value in zip(pending, said):
                waiting._value = value
            return
        first: Optional[Error] = None
        for waiting, value in zip(pending, said):
            if isinstance(value, Error):
                waiting._error = value
                first = first or value
            else:
                waiting._value = value
        if first is not None and self._check:
            raise first

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if kind is None:
            self.run()
