# SPDX-License-Identifier: Apache-2.0
"""Several calls of the key-value store that go together."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_void_p, string_at
from types import TracebackType
from typing import Any, Optional, Tuple, Type, Union

from ._core import Bytes, Core, Deadline, bytes_of
from ._errors import Error, FailedPrecondition, error_of
from ._library import INTERRUPTED, OP, text_argument

PUT, GET, DELETE = 1, 2, 3
_OVERWRITE, _PERSISTENT = 1, 2

Call = Tuple[int, int, bytes, bytes]  # what, flags, key, value


def made(core: Core, calls: list[Call], timeout: Optional[float]) -> list[Any]:
    """Makes them in one write. What each came to: the value of a get, how many keys a delete found, None,
    or its Error."""
    library, n = core.library, len(calls)
    keys = b"\0".join([key for _, _, key, _ in calls]) + b"\0"
    values = b"".join([value for _, _, _, value in calls])
    at: int = c_void_p.from_buffer(c_char_p(keys)).value or 0
    begin: int = c_void_p.from_buffer(c_char_p(values)).value or 0
    records, pack = [], OP.pack
    for op, flags, key, value in calls:
        length = len(value)
        records.append(pack(op, flags, at, begin, length, 0, 0, 0, 0, 0, 0))
        at += len(key) + 1
        begin += length
    ops = bytearray(b"".join(records))
    place = (ctypes.c_char * len(ops)).from_buffer(ops)
    try:
        _make(core, place, n, Deadline(timeout))
        return [error_of(status, (string_at(text) if text else b"").decode(errors="replace"), "") if status
                else string_at(value, length) if op == GET else deleted if op == DELETE else None
                for op, _, _, _, _, _, status, value, length, deleted, text in OP.iter_unpack(ops)]
    finally:
        library.ops_clear(place, n)


def _make(core: Core, place: Any, n: int, deadline: Deadline) -> None:
    handle, library = core.handle(), core.library
    try:
        while library.pipeline(handle, place, n, deadline.left_ms()) == INTERRUPTED:
            pass
    except BaseException:  # of a signal's handler
        library.interruptible(handle, 1)
        raise


def put_call(key: str, value: Union[Bytes, str], overwrite: bool, persistent: bool) -> Call:
    data = value if type(value) is bytes else bytes_of(value)
    flags = (_OVERWRITE if overwrite else 0) | (_PERSISTENT if persistent else 0)
    return PUT, flags, text_argument(key, "key"), data


class Pending:
    """What one call of a pipeline comes to, once that was made."""

    __slots__ = ("_value", "error")

    def __init__(self) -> None:
        self._value: Any = None
        self.error: Optional[BaseException] = FailedPrecondition("the pipeline was not made")

    def result(self) -> Any:
        """The value of a get, how many keys a delete found, None for a put; or its error is raised."""
        if self.error is not None:
            raise self.error
        return self._value


class Pipeline:
    """Calls that are collected and made in one write, in their order, when the with statement ends or at
    run(); what others do may come between them. Nothing is made where the with statement ends by an
    exception.

    Each call has its own result or error. run() raises the first error, unless check is False; the
    calls behind it are made all the same. timeout (seconds; None: no limit) is for all gets together.
    """

    def __init__(self, core: Core, timeout: Optional[float] = None, check: bool = True) -> None:
        Deadline(timeout)
        self._core, self._timeout, self._check = core, timeout, check
        self._calls: list[Call] = []
        self._pending: list[Pending] = []

    def __len__(self) -> int:
        return len(self._calls)

    def _add(self, call: Call) -> Pending:
        pending = Pending()
        self._calls.append(call)
        self._pending.append(pending)
        return pending

    def put(self, key: str, value: Union[Bytes, str], *, overwrite: bool = False,
            persistent: bool = False) -> Pending:
        """Writes a key; AlreadyExists where it is there and overwrite is not set."""
        return self._add(put_call(key, value, overwrite, persistent))

    def get(self, key: str) -> Pending:
        """Waits until somebody has written the key, which may be a put before this in the pipeline."""
        return self._add((GET, 0, text_argument(key, "key"), b""))

    def delete(self, key: str) -> Pending:
        """Deletes a key and all below it."""
        return self._add((DELETE, 0, text_argument(key, "key"), b""))

    def run(self) -> None:
        """Makes what was collected; the pipeline is empty then, and can be used again."""
        calls, pending = self._calls, self._pending
        self._calls, self._pending = [], []
        first: Optional[Error] = None
        for said, waiting in zip(made(self._core, calls, self._timeout), pending):
            if isinstance(said, Error):
                waiting.error = said
                first = first or said
            else:
                waiting.error, waiting._value = None, said
        if first is not None and self._check:
            raise first

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if kind is None:
            self.run()
