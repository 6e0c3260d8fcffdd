# SPDX-License-Identifier: Apache-2.0
"""stop, restart, add and dump of single workers, and a wait that ends the run."""

import contextlib
import os
import re
import signal

import pytest

from harness import (PUPPET, VarlinkError, alive, processes_of_run, puppet, spec, wait_file,
                     wait_for, wait_gone)


def up(box, daemon, *steps, replicas=3, **top):
    """A job named j that runs; its Job object."""
    daemon.submit(spec(*steps, f"touch:{box.path('up')}.%a.%r", "hang", replicas=replicas, name="j", **top))
    for rank in range(replicas):
        wait_file(box.path(f"up.0.{rank}"))
    return daemon.wait("j", until="running")


def pids(job):
    return [t.get("pid") for t in job["workers"]]


def row(box, name):
    """What the table of status says of one worker."""
    out = box.ctl("status", "j").out
    return next(line for line in out.splitlines() if re.search(rf"\b{name}\b", line))


def test_stop_ends_one_worker_on_purpose(box, daemon):
    before = pids(up(box, daemon))
    result = box.ctl("stop", "j/worker:1")
    assert result.rc == 0 and result.out.startswith("stopped 1 worker of j"), result
    assert not alive(before[1])
    job = daemon.status("j", live=True)
    assert (job["state"], job["attempt"], job["restarts"]) == ("running", 0, 0)
    assert [t["state"] for t in job["workers"]] == ["running", "stopped", "running"]
    assert job["workers"][1]["on_purpose"] and pids(job)[0::2] == before[0::2]
    assert "stopped, on purpose" in row(box, "worker:1")
    assert box.ctl("stop", "j/0,2").out.startswith("stopped 2 workers")


def test_restart_starts_one_worker_again(box, daemon):
    before = pids(up(box, daemon, f"mark:{box.path('began')}"))
    result = box.ctl("restart", "j/worker:1")
    assert result.rc == 0 and result.out.startswith("restarted 1 worker of j"), result
    wait_for(lambda: len(box.path("began").read_text().splitlines()) == 4, box.dir, what="its start")
    job = daemon.watch("j", lambda job, _: job["workers"][1]["state"] == "running"
                       and job["workers"][1]["pid"] != before[1])
    assert (job["state"], job["attempt"]) == ("running", 0)
    assert pids(job)[0::2] == before[0::2] and job["workers"][1]["restarts"] == 1


def test_restart_counts_what_it_starts(box, daemon):
    up(box, daemon)
    assert box.ctl("stop", "j/worker:1").rc == 0
    result = box.ctl("restart", "j/worker:0-1")
    assert result.rc == 0 and result.out.startswith("restarted 2 workers of j"), result
    assert box.ctl("stop", "j/worker:1").rc == 0
    result = box.ctl("restart", "j/worker:1")
    assert result.rc == 0 and result.out.startswith("restarted 1 worker of j"), result


def test_json_is_the_job_afterwards(box, daemon):
    up(box, daemon)
    (job,) = box.ctl("stop", "--json", "j/worker:2").json
    assert job["name"] == "j" and job["workers"][2]["state"] == "stopped"


def test_add_starts_what_was_stopped(box, daemon):
    before = pids(up(box, daemon))
    assert box.ctl("stop", "j/worker:1").rc == 0
    result = box.ctl("add", "j/worker:1")
    assert (result.rc, result.out) == (0, "started worker:1 of j, rank 1\n"), result
    job = daemon.watch("j", lambda job, _: job["workers"][1]["state"] == "running")
    assert pids(job)[1] not in (None, before[1]) and pids(job)[0::2] == before[0::2]
    assert not job["workers"][1].get("on_purpose")


def test_add_starts_more_than_was_specified(box, daemon):
    up(box, daemon, replicas=2)
    assert box.ctl("add", "j/worker").out == "started worker:2 of j, rank 2\n"
    wait_file(box.path("up.0.2"))
    other = box.ctl("add", "--json", "j/worker", "--", PUPPET, f"args:{box.path('args')}", "hang")
    assert other.json == {"worker": "worker:3", "rank": 3}, other
    wait_file(box.path("args"))
    job = daemon.status("j", live=True)
    assert [t.get("extra", False) for t in job["workers"]] == [False, False, True, True]
    assert "worker:3 (extra)" in row(box, "worker:3")


def test_workers_that_cannot_be_added_are_refused(box, daemon):
    up(box, daemon, replicas=1)
    for target, rc, text in (("j/worker:0", 1, "running"), ("j/nobody", 1, "nobody"), ("j", 2, "JOB/ROLE"),
                             ("j/0", 2, "JOB/ROLE"), ("none/worker", 1, "none")):
        result = box.ctl("add", target)
        assert result.rc == rc and text in result.err, result
    daemon.call("Stop", job="j")
    daemon.wait("j")
    result = box.ctl("add", "j/worker:0")
    assert result.rc == 1 and "not active" in result.err, result


def test_workers_that_are_not_there(box, daemon):
    up(box, daemon, replicas=1)
    for verb in ("stop", "restart", "dump"):
        for target, text in (("j/worker:7", "worker:7"), ("j/nobody", "nobody"), ("j/9", "9")):
            result = box.ctl(verb, target)
            assert result.rc == 1 and text in result.err, result
    for verb in ("stop", "restart"):
        result = box.ctl(verb, "--no-wait", "j/worker:0")
        assert result.rc == 2 and "--no-wait is for whole jobs" in result.err, result
    assert daemon.status("j", live=True)["workers"][0]["state"] == "running"


def test_output_of_added_workers_is_kept(box, daemon):
    """A leader whose end is ignored, two workers, two of another role, and one more of each."""
    go = box.path("go")

    def role(name, n, *steps, **more):
        return {"name": name, "replicas": n, "command": puppet("print:I am %r", *steps), **more}

    daemon.submit({"name": "j", "logs": {"redirects": 3}, "leader": {"on_exit": "ignore"}, "roles": [
        role("chief", 1, leader=True), role("worker", 2, f"wait-file:{go}"),
        role("ps", 2, f"wait-file:{go}")]})
    daemon.wait("j", until="running")
    assert "(leader)" in row(box, "chief:0")
    for name in ("worker", "ps"):
        assert box.ctl("add", f"j/{name}:2").rc == 0
    go.touch()
    assert daemon.wait("j")["state"] == "succeeded"
    for name, rank in (("worker:0", 1), ("worker:1", 2), ("worker:2", 5), ("ps:0", 3), ("ps:1", 4),
                       ("ps:2", 6)):
        assert f"I am {rank}\n" in box.ctl("logs", f"j/{name}").out
    for name in ("worker:3", "ps:3"):
        assert box.ctl("logs", f"j/{name}").rc == 1


def test_wait_alone_ends_nothing(box, daemon):
    job = up(box, daemon, replicas=1)
    result = box.ctl("wait", "--timeout=0.2", "j")
    assert result.rc == 124, result
    assert daemon.status("j", live=True)["state"] == "running" and alive(pids(job)[0])


def test_wait_can_end_the_run_and_still_tells_all_of_it(box, daemon):
    job = up(box, daemon, "print:before it hangs", "ignore:TERM", replicas=2,
             logs={"redirects": 3}, stop={"timeout": "300ms"})
    result = box.ctl("wait", "--timeout=0.2", "--kill", "--json", "j")
    assert result.rc == 124, result
    ended = result.json
    assert ended["verdict"]["result"] == "timeout" and len(ended["workers"]) == 2
    for rank in (0, 1):
        assert b"before it hangs" in daemon.log(ended, 0, rank).read_bytes()
    for pid in pids(job):
        wait_gone(pid)
    assert processes_of_run(ended["run"]) == []
    assert box.ctl("wait", "--timeout=0.2", "--kill", "j").rc == 124


def test_a_wait_that_may_kill_leaves_a_run_alone_that_ends_in_time(box, daemon):
    daemon.submit(spec(f"wait-file:{box.path('go')}", "exit:5", name="j"))
    wait = box.ctl_start("wait", "--timeout=1h", "--kill", "j")
    box.path("go").touch()
    assert wait.wait().rc == 5
    result = box.ctl("wait", "--kill", "j")
    assert result.rc == 125 and "--kill needs --timeout" in result.err, result
    with pytest.raises(VarlinkError) as e:
        daemon.call("Wait", job="j", kill=True)
    assert e.value.parameters["parameter"] == "timeout_ms"


def test_an_agent_that_follows_a_lost_one_ends_the_run_too(box, daemon):
    name, _ = daemon.submit(spec("ignore:TERM", f"touch:{box.path('up')}.%a", "hang", name="j",
                                 restart={"max": 3}, stop={"timeout": "500ms"}))
    wait_file(box.path("up.0"))
    agent = os.pidfd_open(daemon.wait("j", until="running")["agent_pid"])
    with daemon.connect(240) as v:
        v.send("Wait", job=name, timeout_ms=3000, kill=True)
        # On a very slow machine the run may be over before.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(agent, signal.SIGKILL)
        assert v.reply()["job"]["verdict"]["result"] == "timeout"
    os.close(agent)


def test_dump_dumps_one_worker_or_all(box, daemon):
    job = up(box, daemon, "print:last words", replicas=2, logs={"redirects": 3})
    result = box.ctl("dump", "j/worker:1")
    assert result.rc == 0, result
    (directory,) = result.out.split()
    assert "/1/hang" in directory
    assert any(box.dir.joinpath(directory).iterdir())
    assert len(box.ctl("dump", "--json", "j").json["dirs"]) == 2
    again = daemon.status("j", live=True)
    assert again["state"] == "running" and pids(again) == pids(job)
