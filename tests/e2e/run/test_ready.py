# SPDX-License-Identifier: Apache-2.0
"""Readiness: in each attempt anew, and never before all workers were started."""

import json
import socket
import sys
import time

from harness import spec, wait_file


def of_attempt(daemon, run, attempt):
    return [e for e in daemon.events(run) if e["event"] == "ready" and e["attempt"] == attempt]


def test_a_file_of_an_earlier_attempt_does_not_count(box, daemon):
    up, gate = box.path("up"), box.path("gate")
    name, run = daemon.submit(spec(
        f"if-attempt:0:touch:{up}", f"touch:{box.path('runs')}.%a", f"wait-file:{gate}.%a", f"touch:{up}",
        "hang", name="j", ready={"file": str(up)}))
    assert daemon.wait(name, until="ready")["attempt"] == 0
    daemon.call("Restart", job=name)
    assert daemon.until_attempt(name, 1)["ready"] is False
    wait_file(box.path("runs.1"))
    box.path("gate.1").touch()
    assert daemon.wait(name, until="ready")["attempt"] == 1
    event, = of_attempt(daemon, run, 1)
    assert event["time_us"] * 1000 >= box.path("gate.1").stat().st_mtime_ns
    assert event["text"] == f"{up} was written"
    daemon.call("Stop", job=name)
    assert "ready" not in daemon.wait(name)


SERVE = """
import os, socket, sys, time
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
s = socket.create_server(("127.0.0.1", int(sys.argv[1])), reuse_port=True)
time.sleep(1e6)
"""


def test_the_port_of_a_worker_is_waited_for(box, daemon):
    gate = box.path("gate")
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        port = other.getsockname()[1]
        job = {"name": "j", "ready": {"port": port},
               "roles": [{"command": [sys.executable, "-c", SERVE, str(port), str(gate)]}]}
        name, run = daemon.submit(job)
        text = daemon.wait_event(run, "port-taken")["text"]
        assert text.startswith(f"another program listens at port {port}")
        assert daemon.wait(name, until="running")["ready"] is False
        gate.touch()
        assert daemon.wait(name, until="ready")["state"] == "running"
    assert of_attempt(daemon, run, 0)[0]["text"] == f"port {port} is open"


def test_without_the_section_a_job_that_runs_is_ready(box, daemon):
    name, run = daemon.submit(spec("hang", name="j"))
    assert daemon.wait(name, until="ready")["ready"] is True
    assert not of_attempt(daemon, run, 0)
    assert "expected running, ready or ended" in box.ctl("wait", "--until=set", "j").err


def test_start_waits_until_the_job_is_ready(box, daemon):
    """It is ready when a file is there; it ends before; or the time for that is over, and the job goes on."""
    def job(*steps, **keys):
        box.path("job.json").write_text(json.dumps(spec(*steps, name="j", **keys)))
        return ["start", "--wait-ready", f"--spec={box.path('job.json')}"]

    up, gate = box.path("up"), box.path("gate")
    start = box.ctl_start(*job(f"touch:{box.path('run')}", f"wait-file:{gate}", f"touch:{up}", "hang",
                               ready={"file": str(up)}))
    wait_file(box.path("run"))
    start.wait_out("started j")
    assert start.popen.poll() is None
    gate.touch()
    result = start.wait()
    assert result.rc == 0 and result.out.endswith("\nj is ready\n"), result
    assert daemon.status("j")["ready"] is True
    assert box.ctl("stop", "j").rc == 0
    for end, text in (("exit:0", "succeeded"), ("exit:3", "failed with exit status 3")):
        result = box.ctl(*job(end, ready={"barrier": "b"}))
        assert result.rc == 1 and f"j is not ready: it {text}" in result.err, result
    # The time counts from the start, also while workers do not run yet: start alone waits 5 s for them.
    began = time.monotonic()
    result = box.ctl(*job("hang", replicas=2, role={"start_delay": "1h"},
                          ready={"barrier": "b", "timeout": "50ms"}))
    assert result.rc == 124 and "j is not ready after 50ms, and goes on" in result.err, result
    assert time.monotonic() - began < 5, "the limit began only after these 5 s"
    daemon.watch("j", lambda job, _: job["state"] == "starting")
    assert box.ctl("stop", "j").rc == 0
    result = box.ctl(*job("hang", ready={"barrier": "b", "timeout": "50ms"}))
    assert result.rc == 124 and "j is not ready after 50ms, and goes on" in result.err, result
    assert daemon.wait("j", until="running")["state"] == "running"
    assert box.ctl(*job("hang"), "--follow").rc == 125
