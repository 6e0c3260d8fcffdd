# SPDX-License-Identifier: Apache-2.0
"""Waits until processes make no system call."""

import select
import signal
import time

from harness import PATIENCE, alive, traced

SECONDS = 3  # of silence


def call_before_silence(box, pids):
    """Waits until these processes make no system call for so many seconds, as strace sees them; returns
    None then, or the last calls where that does not come. What was started a moment ago needs a while to
    come to rest (a partial line's quiet time, a wait that strace itself has interrupted), and how long
    depends on the machine; what polls never does."""
    out = box.path("strace.out")
    trace = traced(box, pids, "-f", "-ttt")
    deadline = time.monotonic() + PATIENCE
    size, since = -1, 0
    while time.monotonic() < since + SECONDS and time.monotonic() < deadline or size < 0:
        if out.stat().st_size != size:
            size, since = out.stat().st_size, time.monotonic()
        select.select([], [], [], 0.1)
    quiet = time.monotonic() >= since + SECONDS
    assert all(alive(pid) for pid in [*pids, trace.pid])
    trace.signal(signal.SIGINT)
    trace.wait()
    return None if quiet else out.read_text().splitlines()[-20:]
