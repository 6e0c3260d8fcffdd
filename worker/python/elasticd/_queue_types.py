# SPDX-License-Identifier: Apache-2.0
"""What the library's work queue takes and gives, as ctypes and, where there are many, as struct has it."""

from __future__ import annotations

import ctypes
import struct
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any


class CBytes(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("len", c_size_t), ("format", c_char_p)]


class CFailure(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", c_char_p), ("details", c_char_p), ("retryable", c_int),
                ("blame", c_char_p)]


class CNewTask(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t), ("format", c_void_p), ("resources", c_void_p),
                ("n_resources", c_size_t), ("limit_ms", c_int64), ("alone", c_int)]


class COutcome(ctypes.Structure):
    _fields_ = [("task", c_int64), ("state", c_int), ("value", c_void_p), ("len", c_size_t),
                ("format", c_void_p), ("code", c_int), ("message", c_void_p), ("details", c_void_p),
                ("worker", c_void_p), ("tries", c_int)]


class CItem(ctypes.Structure):
    _fields_ = [("kind", c_int), ("lease", c_int64), ("task", c_int64), ("name", c_void_p),
                ("payload", c_void_p), ("len", c_size_t), ("format", c_void_p), ("resources", c_void_p),
                ("n_resources", c_size_t), ("limit_ms", c_int64), ("index", c_int),
                ("incarnation", c_int), ("attempt", c_int)]


class CAnswer(ctypes.Structure):
    _fields_ = [("worker", c_char_p), ("value", c_void_p), ("len", c_size_t), ("format", c_char_p),
                ("code", c_int), ("message", c_char_p), ("details", c_char_p)]


class CStats(ctypes.Structure):
    _fields_ = [(name, c_int64) for name in ("queued", "running", "succeeded", "failed", "cancelled",
                                             "put_back", "bytes", "waiting", "workers", "free")]
    _fields_ += [("closed", c_int)]


# The same as above, read and written as a whole: that is several times faster than field by field.
NEW_TASK = struct.Struct("@PNPPNqi0q")
OUTCOME = struct.Struct("@qiPNPiPPPi0q")
ITEM = struct.Struct("@iqqPPNPPNqiii0q")

TASK, BUILD, CALL, INIT = range(4)  # kinds of items
QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED = range(5)  # states of tasks
ANY = 1

_names = POINTER(c_char_p)
_numbers = POINTER(c_int64)
_size_out = POINTER(c_size_t)
_out = POINTER(c_void_p)

ARGUMENTS: dict[str, list[Any]] = {
    "connect": [c_char_p, c_char_p, _out],
    "queue_open": [c_void_p, c_char_p, _out],
    "queue_close": [c_void_p],
    "queue_name": [c_void_p],
    "submit": [c_void_p, c_void_p, c_size_t, c_int, _numbers, _size_out],
    "join": [c_void_p, c_int],
    "done": [c_void_p, POINTER(c_int)],
    "cancel_tasks": [c_void_p, _numbers, c_size_t, c_char_p, c_int, _size_out],
    "error_task": [],
    "error_exit_code": [],
    "error_details": [],
    "error_worker": [],
    "fetch": [c_void_p, _numbers, c_size_t, c_int, c_int, _out, _size_out],
    "outcomes_free": [c_void_p, c_size_t],
    "release": [c_void_p, _numbers, c_size_t],
    "queue_stats": [c_void_p, c_void_p, POINTER(CStats)],
    "close_queues": [c_void_p],
    "resource_create": [c_void_p, c_char_p, POINTER(CBytes)],
    "resource_drop": [c_void_p, c_char_p],
    "call": [c_void_p, _names, c_size_t, POINTER(CBytes), c_int, c_int, POINTER(POINTER(CAnswer)),
             _size_out],
    "answers_free": [POINTER(CAnswer), c_size_t],
    "work_open": [c_void_p, _out],
    "work_close": [c_void_p],
    "work_next": [c_void_p, c_int, _out],
    "work_finish": [c_void_p, POINTER(CBytes)],
    "work_fail": [c_void_p, POINTER(CFailure)],
    "work_put_back": [c_void_p],
    "work_finish_next": [c_void_p, POINTER(CBytes), c_int, _out],
    "work_fail_next": [c_void_p, POINTER(CFailure), c_int, _out],
    "work_cancelled": [c_void_p],
}
TEXT = {"queue_name", "error_details", "error_worker"}
NUMBER = {"error_task"}  # a c_int64
VOID = {"queue_close", "outcomes_free", "answers_free", "work_close"}
