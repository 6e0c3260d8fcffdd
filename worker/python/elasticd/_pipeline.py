# SPDX-License-Identifier: Apache-2.0
"""Several calls of the key-value store that go together."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any, Optional, Tuple, Type, Union

from ._core import Bytes, Core, Deadline, bytes_of
from ._errors import FailedPrecondition, error_of
from ._library import INTERRUPTED, COp, text_argument

_PUT, _GET, _DELETE = 1, 2, 3
_OVERWRITE, _PERSISTENT = 1, 2


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
        self._calls: list[Tuple[int, int, bytes, Optional[bytes], int]] = []
        self._pending: list[Pending] = []

    def __len__(self) -> int:
        return len(self._calls)

    def _add(self, call: Tuple[int, int, bytes, Optional[bytes], int]) -> Pending:
        pending = Pending()
        self._calls.append(call)
        self._pending.append(pending)
        return pending

    def put(self, key: str, value: Union[Bytes, str], *, overwrite: bool = False,
            persistent: bool = False) -> Pending:
        """Writes a key; AlreadyExists where it is there and overwrite is not set."""
        data = value if type(value) is bytes else bytes_of(value)
        flags = (_OVERWRITE if overwrite else 0) | (_PERSISTENT if persistent else 0)
        return self._add((_PUT, flags, text_argument(key, "key"), data, len(data)))

    def get(self, key: str) -> Pending:
        """Waits until somebody has written the key, which may be a put before this in the pipeline."""
        return self._add((_GET, 0, text_argument(key, "key"), None, 0))

    def delete(self, key: str) -> Pending:
        """Deletes a key and all below it."""
        return self._add((_DELETE, 0, text_argument(key, "key"), None, 0))

    def run(self) -> None:
        """Makes what was collected; the pipeline is empty then, and can be used again."""
        calls, pending = self._calls, self._pending
        self._calls, self._pending = [], []
        n = len(calls)
        library = self._core.library
        ops = (COp * n)(*calls)
        try:
            self._make(ops, n)
            first: Optional[BaseException] = None
            for op, waiting in zip(ops, pending):
                waiting.error = None
                if op.status:
                    waiting.error = error_of(op.status, (op.text or b"").decode(errors="replace"), "")
                    first = first or waiting.error
                elif op.op == _GET:
                    waiting._value = ctypes.string_at(op.ret_value, op.ret_len)
                elif op.op == _DELETE:
                    waiting._value = op.ret_deleted
        finally:
            library.ops_clear(ops, n)
        if first is not None and self._check:
            raise first

    def _make(self, ops: Any, n: int) -> None:
        handle, library, deadline = self._core.handle(), self._core.library, Deadline(self._timeout)
        try:
            while library.pipeline(handle, ops, n, deadline.left_ms()) == INTERRUPTED:
                pass
        except BaseException:  # of a signal's handler
            library.interruptible(handle, 1)
            raise

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if kind is None:
            self.run()
