# SPDX-License-Identifier: Apache-2.0
"""wait: nobody has to look again and again."""

import pytest

from harness import VarlinkError, spec, wait_file
from workers import script


def test_wait_returns_at_the_end_and_at_once_after_it(box, daemon):
    name, run = daemon.submit(spec(f"wait-file:{box.path('go')}", "exit:5"))
    wait = box.ctl_start("wait", name)
    daemon.wait(name, until="running")
    assert wait.popen.poll() is None
    box.path("go").touch()
    assert wait.wait().rc == 5
    assert box.ctl("wait", run).rc == 5


def test_wait_until_running(box, daemon):
    name, _ = daemon.submit(spec("hang", replicas=3))
    job = daemon.wait(name, until="running")
    assert job["state"] == "running" and all(t["pid"] for t in job["workers"])
    assert box.ctl("wait", "--until=running", name).rc == 0


def test_wait_until_running_returns_when_it_never_does(daemon):
    name, _ = daemon.submit({"roles": [{"command": ["/no/such/program"]}]})
    job = daemon.wait(name, until="running")
    assert job["state"] == "failed"


def test_wait_times_out_not_before_its_time(daemon):
    import time
    name, _ = daemon.submit(spec("hang"))
    begun = time.monotonic()
    with pytest.raises(VarlinkError) as e:
        daemon.call("Wait", job=name, timeout_ms=200)
    assert e.value.name == "DeadlineExceeded"
    assert 0.19 <= time.monotonic() - begun
    with pytest.raises(VarlinkError):
        daemon.call("Wait", job=name, timeout_ms=0)


def test_wait_lasts_over_restarts(box, daemon):
    name, _ = daemon.submit(spec("if-attempt:3:exit:0", "exit:1", restart={"max": 3}))
    job = daemon.wait(name)
    assert (job["state"], job["attempt"]) == ("succeeded", 3)


def test_many_waiters_are_all_answered(box, daemon):
    name, _ = daemon.submit(spec(f"wait-file:{box.path('go')}"))
    waiters = [daemon.connect() for _ in range(200)]
    for v in waiters:
        v.send("Wait", job=name)
    box.path("go").touch()
    assert {v.reply()["job"]["state"] for v in waiters} == {"succeeded"}
    for v in waiters:
        v.close()


def test_the_verdict_is_there_when_wait_returns(box, daemon):
    """Everything of a run is on disk before anybody is told that it ended."""
    import json
    for _ in range(10):
        job = daemon.run(spec("print:x", "exit:3", logs={"redirects": 3}))
        assert json.loads((daemon.record(job["run"]) / "verdict.json").read_text())["exit_status"] == 3
        assert daemon.log(job, 0, 0).read_bytes() == b"x\n"


def test_an_error_that_a_program_reported_is_in_the_verdict_of_a_wait_that_kills(box, daemon):
    name, _ = daemon.submit({"roles": [{"replicas": 2, "command": script(
        "if os.environ['RANK'] == '0':\n"
        "    me().call('ReportError', code='Internal', message='the cable is out')\n"
        f"open({str(box.path('up'))!r} + os.environ['RANK'], 'w').close()\n"
        "time.sleep(100000)")}]})
    for rank in (0, 1):
        wait_file(box.path(f"up{rank}"))
    wait = box.ctl("wait", "--timeout=1ms", "--kill", name)
    job = daemon.wait(name)
    assert job["verdict"]["result"] == "failed" and job["verdict"]["root_cause"]["rank"] == 0
    assert wait.rc == job["verdict"]["exit_status"] != 124
    for part in ("the cable is out", "timed out after 0.001 s"):
        assert part in job["verdict"]["message"], job["verdict"]
        assert part in job["reason"]
