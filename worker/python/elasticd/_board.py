# SPDX-License-Identifier: Apache-2.0
"""The worker's side of the board (common/base/board.h), by plain memory accesses from Python.

They cost half to a third of a call through ctypes. The library has checked the file when it opened the
handle; this module only makes sure that the layout is the one that it knows.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import stat
import struct
import sys
from typing import NamedTuple

from ._errors import FailedPrecondition, InvalidArgument

_MAGIC = 0x316472616F626C65
_VERSION = 1
_BYTES = 4096 + 8192 * 128
_HEADER = struct.Struct("=QIIII")  # magic, version, slots, header_bytes, slot_bytes

_MEMBARRIER = {"x86_64": 324, "aarch64": 283, "riscv64": 283, "ppc64le": 365, "s390x": 356}
_REGISTER_GLOBAL_EXPEDITED = 1 << 2

# Indexes of 8-byte words, in the header and in a slot.
NOTICE, STOPPING, SAVE_AT, ERROR = 4, 5, 6, 7
TOKEN, BEATS, STEP, STEPS = 0, 1, 2, 3


class Board(NamedTuple):
    """header and slot are views of signed words, which keep the mapped file."""

    header: memoryview
    slot: memoryview
    token: int


def private_board() -> Board:
    """A board of this process alone: no agent reads it, or the library has the real one."""
    return Board(memoryview(bytearray(64)).cast("q"), memoryview(bytearray(64)).cast("q"), 0)


def asking_header() -> memoryview:
    """A header that says that there is an error, so that each step asks the library."""
    header = private_board().header
    header[ERROR] = 1
    return header


def kernel_fences() -> bool:
    """Whether the kernel makes the barrier between a step and the look for a notice after it (see
    common/base/board.h). The library has asked the kernel for that; asking again has the same result."""
    number = _MEMBARRIER.get(platform.machine())
    if number is None:
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    result: int = syscall(ctypes.c_long(number), ctypes.c_long(_REGISTER_GLOBAL_EXPEDITED),
                          ctypes.c_long(0), ctypes.c_long(0))
    return result == 0


def open_board() -> Board:
    """The board of this process's worker."""
    path = os.environ.get("ELASTICD_BOARD")
    if not path:
        return private_board()
    number = _number("ELASTICD_SLOT")
    token = _number("ELASTICD_TOKEN")
    mapped = _map(path)
    magic, version, slots, header_bytes, slot_bytes = _HEADER.unpack_from(mapped)
    if magic != _MAGIC or version != _VERSION:
        raise FailedPrecondition(f"{path}: expected a board of version {_VERSION}, got {version}")
    if not 0 <= number < slots:
        raise InvalidArgument(f"ELASTICD_SLOT: expected 0..{slots - 1}, got {number}")
    begin = header_bytes + number * slot_bytes
    view = memoryview(mapped)
    slot = view[begin:begin + slot_bytes].cast("q")
    # The token as a signed word, like all others.
    return Board(view[:header_bytes].cast("q"), slot, token - (token >> 63 << 64))


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 64:
        raise InvalidArgument(f"{name}: expected a number, got {text[:64]!r}")
    return number


def _open(path: str, flags: int = 0) -> int:
    """A descriptor of a file that begins as a board does. The flags keep what else may be there from
    blocking, and from becoming the terminal of this process."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | flags)
    try:
        said = os.fstat(fd)
        if (stat.S_ISREG(said.st_mode) and said.st_size >= _BYTES
                and os.pread(fd, 8, 0) == _MAGIC.to_bytes(8, sys.byteorder)):
            return fd
    except OSError:
        pass
    os.close(fd)
    raise InvalidArgument(f"ELASTICD_BOARD: {path} is not a board")


def _map(path: str) -> mmap.mmap:
    try:
        fd = _open(path)
    except (OSError, InvalidArgument):
        # In a container the path may not exist, or name another process; the file beside it serves there.
        try:
            fd = _open(path + ".file", os.O_NOFOLLOW)
        except (OSError, InvalidArgument):
            fd = -1
        if fd < 0:
            raise
    try:
        if sys.version_info >= (3, 13):
            return mmap.mmap(fd, 0, trackfd=False)
        return mmap.mmap(fd, 0)
    finally:
        os.close(fd)
