# SPDX-License-Identifier: Apache-2.0
"""The structures and functions of the library's work queue."""

from __future__ import annotations

import ctypes
import struct
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any


class CBytes(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("len", c_size_t), ("format", c_char_p)]


class CFailure(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", c_char_p), ("details", c_char_p), ("retryable", c_bool),
                ("blame", c_char_p)]


class CNewTask(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t), ("format", c_void_p), ("resources", c_void_p),
                ("n_resources", c_size_t), ("limit_ms", c_int64), ("alone", c_bool)]


class COutcome(ctypes.Structure):
    _fields_ = [("task", c_int64), ("state", c_int), ("value", c_void_p), ("len", c_size_t),
                ("format", c_void_p), ("code", c_int), ("message", c_void_p), ("details", c_void_p),
                ("worker", c_void_p), ("tries", c_int)]


class CItem(ctypes.Structure):
    _fields_ = [("kind", c_int), ("lease", c_int64), ("task", c_int64), ("name", c_void_p),
                ("payload", c_void_p), ("len", c_size_t), ("format", c_void_p), ("resources", c_void_p),
                ("n_resources", c_size_t), ("limit_ms", c_int64), ("index", c_int),
                ("start", c_int), ("tries", c_int)]


class CAnswer(ctypes.Structure):
    _fields_ = [("worker", c_char_p), ("value", c_void_p), ("len", c_size_t), ("format", c_char_p),
                ("code", c_int), ("message", c_char_p), ("details", c_char_p)]


class CStats(ctypes.Structure):
    _fields_ = [(name, c_int64) for name in ("queued", "running", "succeeded", "failed", "cancelled",
                                             "put_back", "bytes", "waiting", "workers", "free")]
    _fields_ += [("closed", c_bool)]


# The same structures, read and written as a whole, which is several times faster than field by field.
NEW_TASK = struct.Struct("@PNPPNq?0q")
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
    "queue_connect": [c_char_p, c_char_p, _out],
    "queue_open": [c_void_p, c_char_p, _out],
    "queue_close": [c_void_p],
    "queue_name": [c_void_p],
    "queue_submit": [c_void_p, c_void_p, c_size_t, c_int, _numbers, _size_out],
    "queue_join": [c_void_p, c_int],
    "queue_done": [c_void_p, POINTER(c_bool)],
    "queue_cancel": [c_void_p, _numbers, c_size_t, c_char_p, c_int, _size_out],
    "queue_error_task": [],
    "queue_error_exit_code": [],
    "queue_error_details": [],
    "queue_error_worker": [],
    "queue_fetch": [c_void_p, _numbers, c_size_t, c_int, c_int, _out, _size_out],
    "queue_outcomes_free": [c_void_p, c_size_t],
    "queue_release": [c_void_p, _numbers, c_size_t],
    "queue_stats": [c_void_p, c_void_p, POINTER(CStats)],
    "queue_close_all": [c_void_p],
    "queue_resource_create": [c_void_p, c_char_p, POINTER(CBytes)],
    "queue_resource_drop": [c_void_p, c_char_p],
    "queue_call": [c_void_p, _names, c_size_t, POINTER(CBytes), c_int, c_int, POINTER(POINTER(CAnswer)),
                   _size_out],
    "queue_answers_free": [POINTER(CAnswer), c_size_t],
    "queue_work_open": [c_void_p, _out],
    "queue_work_close": [c_void_p],
    "queue_work_next": [c_void_p, c_int, _out],
    "queue_work_finish": [c_void_p, POINTER(CBytes)],
    "queue_work_fail": [c_void_p, POINTER(CFailure)],
    "queue_work_put_back": [c_void_p],
    "queue_work_finish_next": [c_void_p, POINTER(CBytes), c_int, _out],
    "queue_work_fail_next": [c_void_p, POINTER(CFailure), c_int, _out],
    "queue_work_cancelled": [c_void_p],
    "queue_work_stop": [c_void_p],
}
TEXT = {"queue_name", "queue_error_details", "queue_error_worker"}
NUMBER = {"queue_error_task"}  # a c_int64
VOID = {"queue_close", "queue_outcomes_free", "queue_answers_free", "queue_work_close", "queue_work_stop"}
