# SPDX-License-Identifier: Apache-2.0
"""Streams: changes of keys, and events of the group.

A stream is an iterator and a context manager. One thread at a time reads it; any thread may close() it, which
ends the reader's loop. The next change or event may never come, so a read has no time limit unless the
program sets one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import threading
from ctypes import byref, c_void_p
from typing import Any, Callable, Generic, Iterator, NamedTuple, Optional, TypeVar, Union

from ._core import Core, Deadline
from ._errors import Cancelled, DeadlineExceeded, Status
from ._library import INTERRUPTED, CEntry, CError, CEvent, Owned, text_argument, text_of, uninterrupted

_T = TypeVar("_T")
_LOOK_MS = 100


class Change(NamedTuple):
    """A change of a key; value is None where the key was deleted."""

    key: str
    value: Optional[bytes]
    revision: int

    @property
    def deleted(self) -> bool:
        return self.value is None


class GroupError(NamedTuple):
    """An error that a worker reported, or that the agent found. reported: by the worker itself."""

    code: Status
    message: str
    worker: str
    reported: bool


class Event(NamedTuple):
    """Something that happened in the group: "error", "joined", "gone", "stopping", "notice" (of preemption),
    or "lost" where events were missed."""

    event: str
    worker: Optional[str]
    text: str
    error: Optional[GroupError]


def group_error(e: CError) -> GroupError:
    code = Status(e.code) if e.code in Status._value2member_map_ else Status.UNKNOWN
    return GroupError(code, text_of(e.message), text_of(e.worker), bool(e.reported))


class Stream(Generic[_T]):
    """The base of watches and events."""

    _kind: str
    _struct: Any

    def __init__(self, core: Core, *arguments: Any) -> None:
        self._core, self._library = core, core.library
        self._next = getattr(self._library, self._kind + "_next")
        handle, stream = core.handle(), c_void_p()
        open_stream = getattr(self._library, self._kind + "_open")
        self._library.check(uninterrupted(lambda: int(open_stream(handle, *arguments, byref(stream)))))
        close = getattr(self._library, self._kind + "_close")
        self._stream: Optional[Owned] = Owned.of(stream, close, handle)
        self._renew()
        core.streams.add(self)

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._wake = Wake()

    def close(self) -> None:
        self._stream = None
        if self._pid == os.getpid():  # in a child it would wake the parent's readers
            self._wake.set()

    @property
    def closed(self) -> bool:
        return self._stream is None or self._core.closed

    def fileno(self) -> int:
        """For select(): readable when next(0) may return something."""
        stream = self._stream
        fd: int = getattr(self._library, self._kind + "_fd")(stream) if stream is not None else -1
        if fd < 0:
            raise ValueError("this stream has no descriptor")
        return fd

    def next(self, timeout: Union[Deadline, Optional[float]] = None) -> Optional[_T]:
        """The next change or event; None after timeout seconds. Without a timeout it waits without limit."""
        try:
            return self._read(timeout if isinstance(timeout, Deadline) else Deadline(timeout))
        except DeadlineExceeded:
            return None

    def _read(self, deadline: Deadline) -> _T:
        if self._pid != os.getpid():  # a child of fork(), where no other thread holds the lock
            self._renew()
        with self._lock:
            stream = self._stream
            if stream is None:
                raise Cancelled("the stream is closed")
            item = ctypes.POINTER(self._struct)()
            try:
                self._library.check(self._await(stream, deadline, item))
            except Cancelled:
                if self.closed:
                    raise Cancelled("the stream was closed") from None
                raise
        try:
            return self._convert(item.contents)
        finally:
            self._free(item)

    def _await(self, stream: Owned, deadline: Deadline, item: Any) -> int:
        """Waits for the descriptor and for close(). Where there is no descriptor, as in a child of fork() at
        first, the library waits instead, in short turns between which this checks for close()."""
        descriptor = getattr(self._library, self._kind + "_fd")
        waits_here = descriptor(stream) >= 0
        while True:
            left = deadline.left_ms()
            ms = 0 if waits_here else left if 0 <= left < _LOOK_MS else _LOOK_MS
            status: int = self._next(stream, ms, byref(item))
            if status == INTERRUPTED:
                continue
            if status != Status.DEADLINE_EXCEEDED or not deadline.waits:
                return status
            fd = descriptor(stream)  # it changes when a child of fork() opens its own
            if fd < 0:
                if self.closed:
                    return int(Status.CANCELLED)
                if ms == left:
                    return status
                continue
            if not self._wake.wait(fd, left):
                return int(self._next(stream, 0, byref(item)))
            if self.closed:
                return int(Status.CANCELLED)

    def _convert(self, item: Any) -> _T:
        raise NotImplementedError

    def _free(self, item: Any) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[_T]:
        while True:
            try:
                item = self._read(Deadline(None))
            except Cancelled:
                if self.closed:
                    return
                raise
            yield item

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_Self = TypeVar("_Self", bound=Stream[Any])


class Wake:
    """Ends another thread's wait for a descriptor."""

    def __init__(self) -> None:
        self._pipe: Optional[tuple[int, int]] = None
        self._set = False
        self._lock = threading.Lock()

    def set(self) -> None:
        with self._lock:
            self._set = True
            if self._pipe:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._pipe[1], b"x")

    def wait(self, fd: int, timeout_ms: int) -> bool:
        """Waits until fd is readable, or set() was called; False when the time is over."""
        with self._lock:
            if self._set:
                return True
            if self._pipe is None:
                self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            mine = self._pipe[0]
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(mine, select.POLLIN)
        return bool(poll.poll(None if timeout_ms < 0 else timeout_ms))

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:
        for fd in self._pipe or ():
            _close(fd)


class Watch(Stream[Change]):
    """The changes of a key and of all below it. OutOfRange: changes were lost; list the keys, and open
    another watch."""

    _kind, _struct = "watch", CEntry

    def __init__(self, core: Core, key: str, since: int) -> None:
        super().__init__(core, text_argument(key, "key"), since)

    def _convert(self, item: CEntry) -> Change:
        value = ctypes.string_at(item.value, item.len) if item.value else None
        return Change(text_of(item.key), value, item.revision)

    def _free(self, item: Any) -> None:
        self._library.entries_free(item, 1)


class Events(Stream[Event]):
    """The events of the group from now on."""

    _kind, _struct = "events", CEvent

    def _convert(self, item: CEvent) -> Event:
        error = group_error(item.error.contents) if item.error else None
        worker = text_of(item.worker) if item.worker else None
        return Event(text_of(item.event), worker, text_of(item.text), error)

    def _free(self, item: Any) -> None:
        self._library.event_free(item)
