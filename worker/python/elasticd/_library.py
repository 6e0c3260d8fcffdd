# SPDX-License-Identifier: Apache-2.0
"""libelasticd by ctypes: where it is, what its functions take, and the handles that it gives.

Handles are owned by reference: a call keeps a reference to the handle that it uses, so no handle is freed
while a call of another thread still uses it. This module knows nothing of jobs.
"""

from __future__ import annotations

import ctypes
import operator
import os
import pathlib
import struct
import threading
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Callable, Iterable, Optional

from . import _queue_types as queue_types
from ._errors import InvalidArgument, error_of

SONAME = "libelasticd.so.0"
INTERRUPTED = 100
SIZES = [c_size_t.from_param(n) for n in range(256)]  # for functions without argtypes


class CEntry(ctypes.Structure):
    _fields_ = [("key", c_char_p), ("value", c_void_p), ("len", c_size_t), ("revision", c_int64)]


class COp(ctypes.Structure):
    _fields_ = [("kind", c_int), ("flags", c_int), ("key", c_char_p), ("value", c_char_p), ("len", c_size_t),
                ("done", c_bool), ("status", c_int), ("ret_value", c_void_p), ("ret_len", c_size_t),
                ("ret_deleted", c_int64), ("text", c_char_p)]


# The same, read as a whole, which is several times faster than field by field.
OP = struct.Struct("@iiPPN?iPNqP")


class CError(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", c_char_p), ("worker", c_char_p), ("reported", c_bool)]


class CWorker(ctypes.Structure):
    _fields_ = [("worker", c_char_p), ("state", c_char_p), ("rank", c_int), ("start", c_int),
                ("healthy", c_bool), ("left", c_bool), ("error", POINTER(CError))]


class CEvent(ctypes.Structure):
    _fields_ = [("event", c_char_p), ("worker", c_char_p), ("text", c_char_p), ("error", POINTER(CError))]


class CPreemption(ctypes.Structure):
    _fields_ = [("source", ctypes.c_char * 32), ("reason", ctypes.c_char * 512), ("time_us", c_int64),
                ("deadline_us", c_int64), ("step", c_int64), ("final", c_bool), ("exit_code", c_int)]


_names = POINTER(c_char_p)
_out = POINTER(c_void_p)
_size_out = POINTER(c_size_t)

# The arguments of each function. It returns a status or an int, unless _TEXT, _FLAG or _VOID has it.
_ARGUMENTS: dict[str, list[Any]] = {
    "version": [],
    "error_text": [],
    "error_missing": [],
    "open": [_out],
    "close": [c_void_p],
    "cancel": [c_void_p],
    "give_up": [c_void_p],
    "supervised": [c_void_p],
    "job": [c_void_p],
    "run": [c_void_p],
    "role": [c_void_p],
    "index": [c_void_p],
    "rank": [c_void_p],
    "local_rank": [c_void_p],
    "world_size": [c_void_p],
    "attempt": [c_void_p],
    "start": [c_void_p],
    "step": [c_void_p, c_int64, POINTER(c_int)],
    "notice": [c_void_p],
    "saved": [c_void_p, c_int64, c_char_p],
    "preempted": [c_void_p, POINTER(CPreemption)],
    "notify": [c_void_p, c_char_p, c_int64],
    "exit_code": [c_void_p],
    "put": [c_void_p, c_char_p, c_char_p, c_size_t, c_int],
    "flush": [c_void_p, c_int],
    "get": [c_void_p, c_char_p, c_int, _out, _size_out],
    "delete": [c_void_p, c_char_p, POINTER(c_int64)],
    "list": [c_void_p, c_char_p, POINTER(POINTER(CEntry)), _size_out],
    "entries_free": [POINTER(CEntry), c_size_t],
    "pipeline": [c_void_p, c_void_p, c_size_t, c_int],
    "ops_clear": [c_void_p, c_size_t],
    "watch_open": [c_void_p, c_char_p, c_int64, _out],
    "watch_next": [c_void_p, c_int, POINTER(POINTER(CEntry))],
    "watch_fd": [c_void_p],
    "watch_close": [c_void_p],
    "barrier": [c_void_p, c_char_p, _names, c_size_t, c_int],
    "barrier_cancel": [c_void_p, c_char_p, c_char_p],
    "alive": [c_void_p, _names, c_size_t, c_int, POINTER(_names), _size_out],
    "names_free": [_names, c_size_t],
    "error_free": [POINTER(CError)],
    "states": [c_void_p, _names, c_size_t, POINTER(POINTER(CWorker)), _size_out],
    "workers_free": [POINTER(CWorker), c_size_t],
    "interruptible": [c_void_p, c_bool],
    "result": [c_void_p, c_char_p, c_size_t],
    "ready": [c_void_p],
    "report_error": [c_void_p, c_int, c_char_p],
    "wait_error": [c_void_p, c_int, POINTER(POINTER(CError))],
    "leave": [c_void_p, c_int],
    "events_open": [c_void_p, _out],
    "events_next": [c_void_p, c_int, POINTER(POINTER(CEvent))],
    "events_fd": [c_void_p],
    "event_free": [POINTER(CEvent)],
    "events_close": [c_void_p],
    "log": [c_void_p, c_char_p, c_char_p, c_char_p],
    "write_error": [c_void_p, c_char_p, c_char_p],
}
_ARGUMENTS.update(queue_types.ARGUMENTS)
_TEXT = {"version", "error_text", "error_missing", "job", "run", "role", *queue_types.TEXT}
_FLAG = {"supervised", "notice"}
_VOID = {"close", "cancel", "give_up", "interruptible", "entries_free", "ops_clear", "watch_close",
         "names_free", "error_free", "workers_free", "event_free", "events_close", *queue_types.VOID}


class Library:
    """The functions of the library, without "elasticd_" before their names."""

    def __init__(self, path: str) -> None:
        self.path = path
        loaded = ctypes.CDLL(path)
        for name, arguments in _ARGUMENTS.items():
            function = getattr(loaded, "elasticd_" + name)
            function.argtypes = arguments
            function.restype = (c_char_p if name in _TEXT else None if name in _VOID
                                else c_bool if name in _FLAG
                                else c_int64 if name in queue_types.NUMBER else c_int)
            setattr(self, name, function)
        # For the hot path: without argtypes calls are faster, but all arguments must be of C's types (an int
        # is a C int). PyDLL's functions are so short that other threads need not run meanwhile.
        self.put_plain = loaded["elasticd_put"]
        self.get_plain = loaded["elasticd_get"]
        self.pipeline_plain = loaded["elasticd_pipeline"]
        self.submit_plain = loaded["elasticd_queue_submit"]
        self.fetch_plain = loaded["elasticd_queue_fetch"]
        self.outcomes_free_plain = loaded["elasticd_queue_outcomes_free"]
        self.work_plain = tuple(loaded["elasticd_queue_work_" + name]
                                for name in ("next", "finish_next", "fail_next"))
        self.bytes_from = ctypes.PyDLL(None)["PyBytes_FromStringAndSize"]  # of an address and a length
        self.bytes_from.argtypes = (c_void_p, c_size_t)
        self.bytes_from.restype = ctypes.py_object
        self.free = ctypes.PyDLL(None)["free"]  # of a c_void_p or another pointer
        self.free.restype = None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def check(self, status: int) -> None:
        """Raises the error of a call that has just returned status, on this thread."""
        if status:
            raise error_of(status, self.error_text().decode(errors="replace"),
                           self.error_missing().decode(errors="replace"))


class Owned(c_void_p):
    """A pointer that is freed when the last reference to it is gone."""

    free: Any = None  # a function
    keeps: Any = None  # what must outlive it

    @classmethod
    def of(cls, pointer: c_void_p, free: Any, keeps: Any = None) -> Owned:
        owned = cls(pointer.value)
        owned.free, owned.keeps = free, keeps
        return owned

    def __del__(self) -> None:
        if self.value and self.free is not None:
            self.free(self)


def uninterrupted(function: Callable[[], int]) -> int:
    """Calls function until it returns for another reason than a signal; handlers run meanwhile."""
    while True:
        status = function()
        if status != INTERRUPTED:
            return status


def text_of(value: Optional[bytes]) -> str:
    return (value or b"").decode(errors="replace")


def names_argument(names: Iterable[str], what: str, of: str = "names") -> list[str]:
    """As a list. A str would be a list of its letters, so it is refused."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{what}: expected a list of {of}, got the {type(names).__name__} {names!r:.100}")
    return list(names)


def names_array(names: Optional[list[str]], what: str) -> tuple[Any, int]:
    """An argument of type const char *const *, and its length. None means all; the library refuses a list of
    none."""
    if names is None:
        return None, 0
    return (c_char_p * max(len(names), 1))(*[text_argument(n, what) for n in names]), len(names)


def text_argument(text: str, what: str) -> bytes:
    """Text for C, where a NUL would end it unnoticed."""
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected str, got {type(text).__name__}")
    if "\0" in text:
        raise InvalidArgument(f"{what}: {text!r:.200} has a NUL character")
    return utf8(text, what)


def utf8(text: str, what: str) -> bytes:
    """Encodes text; lone surrogates, which UTF-8 cannot have, are refused."""
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise InvalidArgument(f"{what}: {text[e.start:e.end]!r} at {e.start}: {e.reason}") from None


def message_argument(text: str, what: str) -> bytes:
    """As text_argument(), for text that people read: it shows a NUL as \\0."""
    return text_argument(text.replace("\0", "\\0") if isinstance(text, str) else text, what)


def number_argument(number: int, what: str, least: int = -1 << 63) -> int:
    """A number for C, which would cut a longer one unnoticed."""
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{what}: expected int, got {type(number).__name__}") from None
    if not least <= number < 1 << 63:
        raise InvalidArgument(f"{what}: expected {least} to {(1 << 63) - 1}, got {number}")
    return number


def places() -> list[str]:
    """Where the library may be, best first; the last one is for the system's search."""
    named = os.environ.get("ELASTICD_LIBRARY")
    if named:
        return [named]
    package = pathlib.Path(__file__).resolve().parent
    found = [package / SONAME]
    if len(package.parents) > 2 and (package.parents[1] / "elasticd.h").exists():
        found.append(package.parents[2] / "build" / SONAME)
    return [str(p) for p in found if p.exists()] + [SONAME]


_loaded: Optional[Library] = None
_loading = threading.Lock()
process = [0]  # how many calls of fork() are between this process and the first one


def load() -> Library:
    """The library, loaded at the first call."""
    global _loaded
    if _loaded is not None:
        return _loaded
    with _loading:
        if _loaded is None:
            problems = []
            for place in places():
                try:
                    _loaded = Library(place)
                    break
                except (OSError, AttributeError) as e:
                    problems.append(f"{place}: {e}")
            else:
                raise ImportError("elasticd finds no library that fits (set ELASTICD_LIBRARY): "
                                  + "; ".join(problems))
    return _loaded


def _after_fork() -> None:
    global _loading
    _loading = threading.Lock()
    process[0] += 1


os.register_at_fork(after_in_child=_after_fork)
