# SPDX-License-Identifier: Apache-2.0
"""The worker's side of the board (common/board.h), by plain memory accesses from Python.

A call through ctypes costs two to three times as much as these. The library checks the same file when
it opens the handle; here only the layout that this module knows is made sure of.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from typing import NamedTuple

from ._errors import FailedPrecondition, InvalidArgument

_MAGIC = 0x316472616F626C65
_VERSION = 1
_HEADER = struct.Struct("=QIIII")  # magic, version, slots, header_bytes, slot_bytes

# Words of 8 bytes: of the header, and of a slot.
NOTICE, STOPPING = 4, 5
TOKEN, BEATS, STEP, STEPS = 0, 1, 2, 3


class Board(NamedTuple):
    """Both are views of signed words; the map lives as long as they do."""

    header: memoryview
    slot: memoryview
    token: int


def private_board() -> Board:
    """For who has no agent to look at it."""
    return Board(memoryview(bytearray(64)).cast("q"), memoryview(bytearray(64)).cast("q"), 0)


def open_board() -> Board:
    """The board of this process's task."""
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
    # As a signed word, like all others.
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


def _map(path: str) -> mmap.mmap:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # from a container the path may lead nowhere; the file beside it has the same
        try:
            fd = os.open(path + ".file", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            fd = -1
        if fd < 0:
            raise
    try:
        if sys.version_info >= (3, 13):
            return mmap.mmap(fd, 0, trackfd=False)
        return mmap.mmap(fd, 0)
    finally:
        os.close(fd)
