# SPDX-License-Identifier: Apache-2.0
"""The key-value store that the workers of a group share."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int64, c_size_t, c_void_p
from time import monotonic
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

from ._core import DEFAULT_TIMEOUT, Bytes, Core, Deadline, bytes_of
from ._errors import DeadlineExceeded, Error, NotFound
from ._library import INTERRUPTED, SIZES, CEntry, names_argument, number_argument, text_argument, text_of
from ._pipeline import GET, OVERWRITE, PERSISTENT, PUT, Maker, Pipeline
from ._streams import Change, Watch

_OVERWRITE, _PERSISTENT, _NOWAIT = 1, 2, 4
_ERRORS = "surrogatepass"
_T = TypeVar("_T")
_Out = Tuple[c_char_p, Any, c_size_t, Any]


def _out() -> _Out:
    """Memory for a value and its length, and references to both for the library."""
    value, size = c_char_p(), c_size_t()
    return value, byref(value), size, byref(size)


class Entry(NamedTuple):
    """One key. revision is the store's when the key was last written."""

    key: str
    value: bytes
    revision: int


class KV:
    """Keys are paths ("//a//b/" is "a/b"), values are bytes (a str is stored as UTF-8).

    A value is gone with the attempt in which it was stored, unless it is persistent. kv[key] reads,
    kv[key] = value overwrites, del kv[key] deletes the key and all below it.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._put, self._get = core.library.put_plain, core.library.get_plain
        self._maker = Maker(core)
        self._free_outs: list[_Out] = []

    def put(self, key: str, value: Union[Bytes, str], *, overwrite: bool = False,
            persistent: bool = False, wait: bool = True) -> None:
        """Writes a key. AlreadyExists where the key is there and overwrite is not set.

        With wait=False, which needs overwrite, the write is handed over, and put() need not wait for its
        answer; the write is done even if the process ends at once. Every later call through the job happens
        after it, and get() of the key has this value. The first error of such writes is raised by flush(), by
        the next put() with wait=False, which has then done nothing, or by the job's close().
        """
        handle = self._core._handle or self._core.handle()
        name = (key.encode("utf-8", _ERRORS) if type(key) is str and "\0" not in key
                else text_argument(key, "key"))
        data = value if type(value) is bytes else bytes_of(value)
        size = len(data)
        length = SIZES[size] if size < 256 else c_size_t(size)
        flags = _OVERWRITE if overwrite else 0
        if persistent:
            flags |= _PERSISTENT
        if not wait:
            flags |= _NOWAIT
        try:
            status = self._put(handle, name, data, length, flags)
            while status == INTERRUPTED:
                status = self._put(handle, name, data, length, flags)
        except BaseException:  # of a signal's handler
            self._core.library.give_up(handle)
            raise
        if status:
            self._core.library.check(status)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits until everything that was put with wait=False is done, and raises its first error. It waits
        only for the agent, so there is no limit unless timeout sets one. Unavailable: the agent is gone, or
        was silent for a minute, and some writes may or may not have been done."""
        function, handle = self._core.library.flush, self._core.handle()
        self._core.wait(lambda ms: function(handle, ms), timeout)

    def get(self, key: str, timeout: Optional[float] = DEFAULT_TIMEOUT) -> bytes:
        """Waits until a worker has written the key. DeadlineExceeded after timeout seconds (None: no limit);
        with a timeout of 0, NotFound. Unavailable where a worker has died while a notice of preemption is up,
        and all others wait; missing names it."""
        handle = self._core._handle or self._core.handle()
        name = (key.encode("utf-8", _ERRORS) if type(key) is str and "\0" not in key
                else text_argument(key, "key"))
        if type(timeout) is float and 1 <= timeout <= 1e6:  # the same as below, several times faster
            ms = int(timeout * 1000)
        else:
            ms = Deadline(timeout).left_ms()
        began = monotonic()
        try:
            out = self._free_outs.pop()
        except IndexError:
            out = _out()
        value, to_value, size, to_size = out
        library = self._core.library
        try:
            status = self._get(handle, name, ms, to_value, to_size)
            while status == INTERRUPTED:
                left = ms if ms <= 0 else max(ms - int((monotonic() - began) * 1000), 1)
                status = self._get(handle, name, left, to_value, to_size)
        except BaseException:  # of a signal's handler
            library.give_up(handle)
            raise
        if status:
            self._core.fail(status)
        found = value.value or b""  # up to its first NUL, which is faster than by its length
        if len(found) != size.value:
            found = library.bytes_from(c_void_p.from_buffer(value), size)
        library.free(value)
        self._free_outs.append(out)
        return found

    def pipeline(self, timeout: Optional[float] = DEFAULT_TIMEOUT, *, check: bool = True) -> Pipeline:
        """Several calls in one write: with kv.pipeline() as p: p.put(...); value = p.get(...), whose result()
        is there after the with statement. timeout is for all gets together (None: no limit)."""
        return Pipeline(self._maker, timeout, check)

    def put_many(self, values: Mapping[str, Union[Bytes, str]], *, overwrite: bool = False,
                 persistent: bool = False) -> None:
        """Writes all these keys at once, which is several times faster than one after the other. Raises the
        first error when all have been tried."""
        kind = PUT | (OVERWRITE if overwrite else 0) | (PERSISTENT if persistent else 0)
        data = [value if type(value) is bytes else bytes_of(value) for value in values.values()]
        self._many(kind, list(values), data, None)

    def get_many(self, keys: Iterable[str], timeout: Optional[float] = DEFAULT_TIMEOUT) -> List[bytes]:
        """The values of all these keys, in their order, read at once; waits until all of them are written.
        timeout is for all together, and means what it means for get()."""
        return self._many(GET, names_argument(keys, "keys", "keys"), None, timeout)

    def _many(self, kind: int, keys: List[str], data: Optional[List[bytes]],
              timeout: Optional[float]) -> List[Any]:
        said, failed = self._maker.make(bytes((kind,)) * len(keys), keys, data, timeout)
        if failed:
            raise next(one for one in said if isinstance(one, Error))
        return said

    @overload
    def try_get(self, key: str) -> Optional[bytes]: ...

    @overload
    def try_get(self, key: str, default: _T) -> Union[bytes, _T]: ...

    def try_get(self, key: str, default: Optional[_T] = None) -> Union[bytes, Optional[_T]]:
        """The value that is there now, or default."""
        try:
            return self.get(key, 0)
        except NotFound:
            return default

    def list(self, key: str = "") -> list[Entry]:
        """All entries below a key, sorted, without the key itself; "" means all."""
        core = self._core
        entries, n = ctypes.POINTER(CEntry)(), c_size_t()
        core.call("list", text_argument(key, "key"), byref(entries), byref(n))
        try:
            return [Entry(text_of(e.key), ctypes.string_at(e.value, e.len) if e.value else b"", e.revision)
                    for e in entries[:n.value]]
        finally:
            core.library.entries_free(entries, n.value)

    def delete(self, key: str) -> int:
        """Deletes a key and all below it. Returns how many there were."""
        deleted = c_int64()
        self._core.call("delete", text_argument(key, "key"), byref(deleted))
        return deleted.value

    def watch(self, key: str = "", since: Optional[int] = None) -> Watch:
        """Watches a key and all below it for changes after revision since (left out: from now on). Changes
        may never come, so reading them has no time limit unless the program sets one."""
        return Watch(self._core, key, -1 if since is None else number_argument(since, "since", 0))

    def wait_change(self, key: str, since: Optional[int] = None,
                    timeout: Optional[float] = DEFAULT_TIMEOUT) -> Change:
        """Waits for the next change of a key or of one below it."""
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
