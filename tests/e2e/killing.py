# SPDX-License-Identifier: Apache-2.0
"""Jobs that do not want to end, and kills of their agents."""

import os
import signal

from harness import cmdline, spec, stat_of, wait_file


def kill_agent(job, whom):
    """agent_pid is the agent proper's, and its parent is the guard."""
    proper = job["agent_pid"]
    guard = stat_of(proper)[1]
    assert "elastic-agent" in cmdline(guard) and "elastic-agent" in cmdline(proper)
    kill, stop = signal.SIGKILL, signal.SIGSTOP
    # Neither comes to clean up after the other. It is not the agent that is stopped: a stopped process
    # whose session leader dies gets SIGHUP and goes on.
    steps = {"agent": [(proper, kill)], "guard": [(guard, kill)],
             "both": [(guard, stop), (proper, kill), (guard, kill)]}[whom]
    fds = {pid: os.pidfd_open(pid) for pid, _ in steps}
    for pid, signo in steps:
        signal.pidfd_send_signal(fds[pid], signo)
    for fd in fds.values():
        os.close(fd)


def up(box, daemon, *steps, replicas=3, **top):
    name, run = daemon.submit(spec("ignore:TERM", *steps, "setsid-fork:ignore:TERM+hang",
                                   f"touch:{box.path('up')}.%a.%r", "hang", replicas=replicas, **top))
    for rank in range(replicas):
        wait_file(box.path(f"up.0.{rank}"))
    return name, run, daemon.wait(name, until="running")
