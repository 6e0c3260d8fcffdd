# SPDX-License-Identifier: Apache-2.0
"""A terminal with somebody at it: a pty, what is typed, and what is seen."""

import fcntl
import os
import select
import termios
import time

from processes import PATIENCE, Unmet


class Terminal:
    """Runs a program as the leader of a session that has a terminal of its own."""

    def __init__(self, box, *argv, **kwargs):
        self.master, slave = os.openpty()
        self.seen, self.at = b"", 0
        box.cleanups.append(self.close)
        # Standard error belongs there as well, which a Program would send to a file.
        self.program = box.start(
            "sh", "-c", 'exec "$@" 2>&1', "sh", *argv, stdin=slave, stdout=slave,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **kwargs,
        )
        os.close(slave)

    def close(self):
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def type(self, text):
        os.write(self.master, text.encode())

    def foreground(self):
        """The process group that has the terminal."""
        return os.tcgetpgrp(self.master)

    def _read(self, seconds):
        if not select.select([self.master], [], [], max(0, seconds))[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the last one has closed it
            data = b""
        self.seen += data
        return bool(data)

    def expect(self, text, timeout=None):
        """Waits until text is seen behind what was expected before."""
        needle = text.encode()
        deadline = time.monotonic() + (2 * PATIENCE if timeout is None else timeout)
        while needle not in self.seen[self.at:]:
            if not self._read(deadline - time.monotonic()):
                raise Unmet(f"{text!r} is not seen in the terminal, but {self.seen[-3000:]!r}")
        self.at = self.seen.index(needle, self.at) + len(needle)

    def wait(self):
        """Its exit status, with all that was shown until then in self.seen."""
        deadline = time.monotonic() + 2 * PATIENCE
        while self._read(deadline - time.monotonic()):
            pass
        return self.program.wait()
