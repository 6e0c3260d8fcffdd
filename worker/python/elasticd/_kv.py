# SPDX-License-Identifier: Apache-2.0
"""The key-value store that the tasks of a group share."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int64, c_size_t, c_void_p
from typing import (
    Any,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
    Union,
    overload,
)

from ._core import Bytes, Core, Deadline, bytes_of
from ._errors import DeadlineExceeded, Error, NotFound
from ._library import INTERRUPTED, CEntry, text_argument, text_of
from ._pipeline import GET, Call, Pipeline, made, put_call
from ._streams import Change, Watch

_OVERWRITE, _PERSISTENT = 1, 2
_SIZES = [c_size_t(n) for n in range(256)]
_T = TypeVar("_T")
_Place = Tuple[c_void_p, c_size_t, Any, Any]


def _place() -> _Place:
    """Where a read's value and its length go, and what the library is told of them."""
    value, length = c_void_p(), c_size_t()
    return value, length, byref(value), byref(length)


class Entry(NamedTuple):
    """One key. revision is the store's when the key was last written."""

    key: str
    value: bytes
    revision: int


class KV:
    """Keys are paths ("//a//b/" is "a/b"), values are bytes (a str is stored as UTF-8).

    What is stored is gone with this incarnation of the group, unless it is persistent. kv[key] reads,
    kv[key] = value writes over what was there, del kv[key] deletes the key and all below it.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._put, self._get = core.library.put_plain, core.library.get_plain
        self._bytes, self._free = core.library.bytes_from, core.library.free
        self._places: list[_Place] = []  # that no call uses now

    def put(self, key: str, value: Union[Bytes, str], *, overwrite: bool = False,
            persistent: bool = False) -> None:
        """Writes a key; AlreadyExists where it is there and overwrite is not set."""
        core = self._core
        data = value if type(value) is bytes else bytes_of(value)
        flags = (_OVERWRITE if overwrite else 0) | (_PERSISTENT if persistent else 0)
        length = len(data)
        core.run(self._put, text_argument(key, "key"), data,
                 _SIZES[length] if length < 256 else c_size_t(length), flags)

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """Waits until somebody has written the key. DeadlineExceeded after timeout seconds; with a
        timeout of 0, NotFound."""
        core, name = self._core, text_argument(key, "key")
        handle = core.handle()
        try:
            place = self._places.pop()
        except IndexError:
            place = _place()
        value, length, to_value, to_length = place
        if timeout is None or timeout == 0:
            status = self._get(handle, name, 0 if timeout == 0 else -1, to_value, to_length)
            if status and status != INTERRUPTED:
                core.fail(status)
        else:
            status = INTERRUPTED
        if status:
            core.wait(lambda ms: self._get(handle, name, ms, to_value, to_length), timeout)
        try:
            found: bytes = self._bytes(value, length)
        finally:
            self._free(value)
        self._places.append(place)
        return found

    def pipeline(self, timeout: Optional[float] = None, *, check: bool = True) -> Pipeline:
        """Several calls in one write: with kv.pipeline() as p: p.put(...); value = p.get(...), which has
        its result() behind the with statement. timeout is for all gets together."""
        return Pipeline(self._core, timeout, check)

    def put_many(self, values: Mapping[str, Union[Bytes, str]], *, overwrite: bool = False,
                 persistent: bool = False) -> None:
        """Writes all these keys at once, which is several times faster than one after the other. The first
        error is raised when all have been tried."""
        self._many([put_call(key, value, overwrite, persistent) for key, value in values.items()], None)

    def get_many(self, keys: Iterable[str], timeout: Optional[float] = None) -> List[bytes]:
        """The values of all these keys, in their order, read at once; waits until all of them are written.
        timeout is for all together, and as that of get()."""
        if isinstance(keys, str):
            raise TypeError(f"keys: expected a list of keys, got the str {keys!r}")
        return self._many([(GET, 0, text_argument(key, "key"), b"") for key in keys], timeout)

    def _many(self, calls: List[Call], timeout: Optional[float]) -> List[Any]:
        said = made(self._core, calls, timeout)
        for one in said:
            if isinstance(one, Error):
                raise one
        return said

    @overload
    def try_get(self, key: str) -> Optional[bytes]: ...

    @overload
    def try_get(self, key: str, default: _T) -> Union[bytes, _T]: ...

    def try_get(self, key: str, default: Optional[_T] = None) -> Union[bytes, Optional[_T]]:
        """What is there now, or default."""
        try:
            return self.get(key, 0)
        except NotFound:
            return default

    def list(self, key: str = "") -> list[Entry]:
        """All below a key, sorted, without the key itself; "" means all."""
        core = self._core
        entries, n = ctypes.POINTER(CEntry)(), c_size_t()
        core.call("list", text_argument(key, "key"), byref(entries), byref(n))
        try:
            return [Entry(text_of(e.key), ctypes.string_at(e.value, e.len) if e.value else b"", e.revision)
                    for e in entries[:n.value]]
        finally:
            core.library.entries_free(entries, n.value)

    def delete(self, key: str) -> int:
        """Deletes a key and all below it. How many there were."""
        deleted = c_int64()
        self._core.call("delete", text_argument(key, "key"), byref(deleted))
        return deleted.value

    def watch(self, key: str = "", since: Optional[int] = None) -> Watch:
        """The changes of a key and of all below it, after revision since (from now on when left out)."""
        return Watch(self._core, key, -1 if since is None else since)

    def wait_change(self, key: str, since: Optional[int] = None,
                    timeout: Optional[float] = None) -> Change:
        """The next change of a key or of one below it."""
        deadline = Deadline(timeout)
        with self.watch(key, since) as watch:
            change = watch.next(deadline)
        if change is None:
            raise DeadlineExceeded(f"no change of {key}")
        return change

    def __getitem__(self, key: str) -> bytes:
        return self.get(key, 0)

    def __setitem__(self, key: str, value: Union[Bytes, str]) -> None:
        self.put(key, value, overwrite=True)

    def __delitem__(self, key: str) -> None:
        if not self.delete(key):
            raise NotFound(f"no key {key}")

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.try_get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([entry.key for entry in self.list()])

    def __len__(self) -> int:
        return len(self.list())
