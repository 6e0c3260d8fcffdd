# SPDX-License-Identifier: Apache-2.0
"""Idle means idle: no system call at all."""

import signal

import pytest

from harness import PUPPET, SANITIZED, cmdline, descendants, spec, wait_file
from silence import call_before_silence


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
        workers = {t["pid"] for t in job["workers"]}
        pids |= {p for p in descendants(daemon.pid) if "elastic-agent" in cmdline(p)} - workers
    assert len(pids) >= 7, "elasticd, three guards, three agents"
    daemon.call("Ping")
    made = call_before_silence(box, pids)
    follower.close()
    assert not made, made


@pytest.mark.skipif(SANITIZED, reason="sanitizers' own threads make calls")
def test_an_idle_run_makes_no_system_call(box):
    run = box.run_start("--nproc-per-node=4", "-t", "3", PUPPET, "print:x", f"touch:{box.path('up')}.%r",
                        "hang")
    for rank in range(4):
        wait_file(box.path(f"up.{rank}"))
    pids = [run.pid] + [p for p in descendants(run.pid) if "puppet" not in cmdline(p)]
    made = call_before_silence(box, pids)
    assert not made, made
    run.signal(signal.SIGTERM)
    run.wait()
