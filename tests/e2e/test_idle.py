# SPDX-License-Identifier: Apache-2.0
"""Idle means idle: no system call at all."""

import select
import signal
import subprocess
import time

import pytest

from harness import PUPPET, SANITIZED, children, cmdline, descendants, have, spec, wait_file, wait_for

SECONDS = 3


SETTLED = 0.5  # an attached process finds its wait interrupted and goes back to it


def system_calls(box, pids, seconds=SECONDS):
    """What strace sees of these processes in so many seconds: a list of lines."""
    if not have("strace"):
        pytest.skip("no strace")
    out = box.path("strace.out")
    argv = ["strace", "-f", "-ttt", "-o", str(out)]
    for pid in pids:
        argv += ["-p", str(pid)]
    trace = box.start(*argv)
    for pid in pids:
        try:
            trace.wait_err(f"Process {pid} attached")
        except AssertionError:
            if "ptrace" in trace.err.lower():
                pytest.skip(f"cannot trace: {trace.err.strip()}")
            raise
    begun = time.time() + SETTLED
    try:
        trace.popen.wait(SETTLED + seconds)
    except subprocess.TimeoutExpired:
        pass
    trace.signal(signal.SIGINT)
    trace.wait()
    return [line for line in out.read_text().splitlines()
            if float(line.split()[1]) > begun and "<detached ...>" not in line]


@pytest.mark.skipif(SANITIZED, reason="sanitizers' own threads make calls")
def test_an_idle_elasticd_and_its_agents_make_no_system_call(box, daemon):
    names = [daemon.submit(spec("print:x", f"touch:{box.path('up')}.{i}.%r", "hang", replicas=3,
                                logs={"tee": 3, "redirects": 3}, restart={"max": 3, "window": "1h",
                                                                           "window_max": 2}))[0]
             for i in range(2)]
    timed, _ = daemon.submit(spec("print:x", f"touch:{box.path('up')}.2.0", "hang",
                                  logs={"redirects": 3, "timestamps": True, "max_size": "1MiB"},
                                  max_run_time="10h"))
    for i in range(3):
        for rank in range(3 if i < 2 else 1):
            wait_file(box.path(f"up.{i}.{rank}"))
    follower = daemon.connect()
    follower.send("Events", more=True, follow=True)
    follower.send("Logs", more=True, job=names[0], follow=True)
    pids = {daemon.pid}
    for name in [*names, timed]:
        job = daemon.wait(name, until="running")
        workers = {t["pid"] for t in job["tasks"]}
        pids |= {p for p in descendants(daemon.pid) if "elastic-agent" in cmdline(p)} - workers
    assert len(pids) >= 7, "elasticd, three guards, three agents"
    daemon.call("Ping")
    settle(box)
    made = system_calls(box, pids)
    follower.close()
    assert made == [], f"{len(made)} system calls in {SECONDS} s: {made[:20]}"


def settle(box):
    """Lets what was started a moment ago (a partial line's quiet time, say) come to rest."""
    select.select([], [], [], 1.5)


@pytest.mark.skipif(SANITIZED, reason="sanitizers' own threads make calls")
def test_an_idle_run_makes_no_system_call(box):
    run = box.run_start("--nproc-per-node=4", "-t", "3", PUPPET, "print:x", f"touch:{box.path('up')}.%r",
                        "hang")
    for rank in range(4):
        wait_file(box.path(f"up.{rank}"))
    pids = [run.pid] + [p for p in descendants(run.pid) if "puppet" not in cmdline(p)]
    settle(box)
    made = system_calls(box, pids)
    assert made == [], made[:20]
    run.signal(signal.SIGTERM)
    run.wait()
