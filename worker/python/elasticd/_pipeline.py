# SPDX-License-Identifier: Apache-2.0
"""Several calls of the key-value store in one write."""

from __future__ import annotations

import ctypes
import sys
from array import array
from ctypes import c_char_p, c_size_t, c_void_p, string_at
from itertools import accumulate
from types import TracebackType
from typing import Any, List, Optional, Type, Union

from ._core import DEFAULT_TIMEOUT, Bytes, Core, Deadline, bytes_of
from ._errors import Error, FailedPrecondition, error_of
from ._library import INTERRUPTED, OP, SIZES, text_argument

PUT, GET, DELETE = 1, 2, 3
OVERWRITE, PERSISTENT = 16, 32  # with PUT

_WORDS = OP.size // 8 if ctypes.sizeof(c_void_p) == 8 else 0  # of each call
_FLAGS = 16  # a call is one number: its operation, plus 16 times its flags


class Maker:
    """Makes calls in one write."""

    def __init__(self, core: Core) -> None:
        self.core, self._call = core, core.library.pipeline_plain

    def make(self, kinds: bytes, keys: List[str], values: Optional[List[bytes]],
             timeout: Optional[float]) -> tuple[List[Any], bool]:
        """The result of each: the value of a get, how many keys a delete found, None, or its Error; and
        whether there is an Error."""
        n = len(keys)
        if not n:
            return [], False
        deadline = Deadline(timeout)
        try:
            text = "\0".join(keys).encode()
            names = text.split(b"\0")
        except (TypeError, UnicodeEncodeError):
            names = []
        if len(names) != n:
            names = [text_argument(key, "key") for key in keys]
            text = b"\0".join(names)
        data = b"".join(values or ())
        ops, handle = _packed(kinds, names, text, values, data), self.core.handle()
        address, size = c_void_p(ops.buffer_info()[0]), SIZES[n] if n < 256 else c_size_t(n)
        try:
            status = INTERRUPTED
            while status == INTERRUPTED:
                status = self._call(handle, address, size, deadline.left_ms())
            return _results(ops), status != 0
        except BaseException:  # of a signal's handler
            self.core.library.give_up(handle)
            raise
        finally:
            self.core.library.ops_clear(address, n)


def _packed(kinds: bytes, names: List[bytes], text: bytes, values: Optional[List[bytes]],
            data: bytes) -> array[int]:
    """Calls as the library takes them. text and data are all keys and all values, one after the other."""
    n = len(names)
    keys = accumulate([len(name) + 1 for name in names[:-1]], initial=_address(text))
    lengths = [len(value) for value in values] if values is not None else [0] * n
    places = accumulate(lengths[:-1], initial=_address(data))
    if not _WORDS or sys.byteorder != "little":
        return array("B", b"".join([
            OP.pack(kind % _FLAGS, kind // _FLAGS, key, place, length, 0, 0, 0, 0, 0, 0)
            for kind, key, place, length in zip(kinds, keys, places, lengths)]))
    # All calls at once: a word of each at a time.
    words = array("Q", bytes(OP.size * n))
    words[0::_WORDS] = array("Q", [kind % _FLAGS | kind // _FLAGS << 32 for kind in kinds])
    words[1::_WORDS] = array("Q", keys)
    words[2::_WORDS] = array("Q", places)
    words[3::_WORDS] = array("Q", lengths)
    return words


def _address(text: bytes) -> int:
    return c_void_p.from_buffer(c_char_p(text)).value or 0


def _results(ops: array[int]) -> List[Any]:
    """The result of each."""
    return [error_of(status, (string_at(text) if text else b"").decode(errors="replace"), "") if status
            else string_at(value, length) if op == GET else deleted if op == DELETE else None
            for op, _, _, _, _, _, status, value, length, deleted, text in OP.iter_unpack(ops)]


class Pending:
    """The result of one call of a pipeline, once the pipeline was made."""

    __slots__ = ("_error", "_value")

    _error: Error
    _value: Any

    @property
    def error(self) -> Optional[Error]:
        """The error of the call; None where it has succeeded."""
        try:
            return self._error
        except AttributeError:
            pass
        if hasattr(self, "_value"):
            return None
        return FailedPrecondition("the pipeline was not made")

    def result(self) -> Any:
        """The value of a get, how many keys a delete found, None for a put; raises the error of the call."""
        try:
            return self._value
        except AttributeError:
            pass
        error = self.error
        assert error is not None
        raise error


class Pipeline:
    """Collects calls, and makes them in one write, in their order, when the with statement ends, or at run().
    Calls of other workers may come between them. Where the with statement ends with an exception, no call is
    made.

    Each call has a result or an error of its own. run() raises the first error, unless check is False; the
    calls after it are made all the same. timeout (seconds; None: no limit) is for all gets together.
    """

    def __init__(self, maker: Maker, timeout: Optional[float] = DEFAULT_TIMEOUT, check: bool = True) -> None:
        Deadline(timeout)  # refuses nonsense at once
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
        """Writes a key. AlreadyExists where the key is there and overwrite is not set."""
        data = value if type(value) is bytes else bytes_of(value)
        kind = PUT | OVERWRITE if overwrite else PUT
        return self._add(kind | PERSISTENT if persistent else kind, key, data)

    def get(self, key: str) -> Pending:
        """Waits until a worker has written the key; an earlier put of this pipeline counts, too."""
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
        """Makes the calls; the pipeline is empty then, and can be used again."""
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
