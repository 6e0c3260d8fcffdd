# SPDX-License-Identifier: Apache-2.0
"""A directory whose file system does not answer: FUSE with a server that takes each request and says
nothing. Whoever calls it sleeps so that no signal ends it, as with a network file system that is gone."""

import contextlib
import ctypes
import os
import pathlib
import select
import struct
import tempfile
import threading

import pytest

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
INIT = 26
IN_HEADER, OUT_HEADER = struct.Struct("=IIQQIIII"), struct.Struct("=IiQ")


class Hanging:
    """Not below a test's box: what looks through that after a failure would hang too."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="e2e-hang-", dir="/tmp"))
        self.path.chmod(0o1777)
        self.fuse, self.server = -1, None

    def hang(self):
        """From now on, until the end."""
        try:
            self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as e:
            pytest.skip(f"no FUSE: {e}")
        options = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0,allow_other"
        if LIBC.mount(b"hanging", os.fsencode(self.path), b"fuse", 0, options.encode()) < 0:
            pytest.skip(f"FUSE cannot be mounted: {os.strerror(ctypes.get_errno())}")
        self.ended, self.end = os.pipe2(os.O_CLOEXEC)
        self.server = threading.Thread(target=self._serve, daemon=True)
        self.server.start()

    def _serve(self):
        while self.ended not in (ready := select.select([self.fuse, self.ended], [], [])[0]):
            try:
                request = os.read(ready[0], 1 << 18)
            except BlockingIOError:  # whoever asked has gone
                continue
            _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
            if opcode == INIT:
                answer = struct.pack("=IIIIHHIIHHI7I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0, *[0] * 7)
                os.write(self.fuse, OUT_HEADER.pack(OUT_HEADER.size + len(answer), 0, unique) + answer)

    def close(self):
        """Whoever waits gets an error."""
        if self.server:
            os.close(self.end)
            self.server.join()
            LIBC.umount2(os.fsencode(self.path), MNT_DETACH)
            os.close(self.ended)
        if self.fuse >= 0:
            os.close(self.fuse)
        for found in sorted(self.path.rglob("*"), reverse=True):
            found.rmdir() if found.is_dir() and not found.is_symlink() else found.unlink()
        self.path.rmdir()


@contextlib.contextmanager
def hanging():
    d = Hanging()
    try:
        yield d
    finally:
        d.close()
