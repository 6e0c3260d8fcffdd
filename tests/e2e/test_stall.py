# SPDX-License-Identifier: Apache-2.0
"""Whatever one user does to its own processes, elasticd answers everybody else."""

import os
import signal
import sys
import time

from harness import SLOWER, spec, stat_of

# Its environment cannot be read by anybody, as long as it lives.
HIDE = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.getenv.restype = ctypes.c_void_p
page = os.sysconf("SC_PAGESIZE")
address = libc.getenv(b"FILLER") // page * page + page
assert libc.mprotect(ctypes.c_void_p(address), page, 0) == 0, ctypes.get_errno()
print("hidden", flush=True)
signal.pause()
"""


def kill_agent_and_guard(job):
    """So that elasticd has to find what is left."""
    proper = job["agent_pid"]
    guard = stat_of(proper)[1]
    os.kill(guard, signal.SIGSTOP)
    os.kill(proper, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)


def test_processes_that_hide_and_agents_that_die_do_not_delay_a_list(box, daemon):
    hidden = box.start(sys.executable, "-c", HIDE, env={"FILLER": "x" * 40000})
    hidden.wait_out("hidden")
    runs = [daemon.submit(spec("hang", name=f"victim{i}"))[1] for i in range(8)]
    jobs = [daemon.wait(run, until="running") for run in runs]
    other, _ = daemon.submit(spec("hang", name="other"))
    daemon.wait(other, until="running")
    for job in jobs:
        kill_agent_and_guard(job)
    longest, listed = 0.0, None
    while listed is None or len(listed) > 1:
        begun = time.monotonic()
        listed = [j["name"] for j in daemon.call("List")["jobs"]]
        longest = max(longest, time.monotonic() - begun)
    # One look for what is left of one of these jobs takes longer; there are eight.
    assert longest < 0.9 * SLOWER, f"a list took {longest} s"
    assert listed == [other]
    assert [daemon.wait(run)["verdict"]["result"] for run in runs] == ["agent_lost"] * 8
    hidden.signal(signal.SIGKILL)
    hidden.wait()
