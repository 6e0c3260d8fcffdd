# SPDX-License-Identifier: Apache-2.0
"""kill: a signal to one rank, some, or all."""

import os
import signal

import pytest

from harness import VarlinkError, spec, wait_file, wait_for


@pytest.fixture
def job(box, daemon):
    name, _ = daemon.submit(spec(f"on:USR1:touch:{box.path('got')}.%r", f"touch:{box.path('up')}.%r",
                                 "hang", replicas=4))
    for rank in range(4):
        wait_file(box.path(f"up.{rank}"))
    daemon.wait(name, until="running")
    return name


def got(box):
    return sorted(int(p.suffix[1:]) for p in box.dir.glob("got.?"))


def test_a_signal_to_one_rank(box, daemon, job):
    assert daemon.call("Kill", job=job, signal="USR1", ranks="2")["signalled"] == 1
    wait_file(box.path("got.2"))
    assert got(box) == [2] and daemon.status(job)["state"] == "running"


def test_a_signal_to_a_set_and_to_all(box, daemon, job):
    assert daemon.call("Kill", job=job, signal="SIGUSR1", ranks="0,2-3")["signalled"] == 3
    for rank in (0, 2, 3):
        wait_file(box.path(f"got.{rank}"))
    assert got(box) == [0, 2, 3]
    assert daemon.call("Kill", job=job, signal=str(int(signal.SIGUSR1)))["signalled"] == 4
    wait_file(box.path("got.1"))


def test_killing_a_rank_fails_the_group(daemon, job):
    daemon.call("Kill", job=job, signal="KILL", ranks="3")
    ended = daemon.wait(job)
    assert ended["state"] == "failed" and ended["verdict"]["exit_status"] == 137
    assert ended["verdict"]["root_cause"]["rank"] == 3


def test_signals_that_cannot_be_sent_are_refused(daemon, job):
    for kwargs, error in ((dict(signal="NOSUCH"), "InvalidArgument"), (dict(signal="99"), "InvalidArgument"),
                          (dict(signal="USR1", ranks="1-"), "InvalidArgument"),
                          (dict(signal="USR1", ranks="a"), "InvalidArgument")):
        with pytest.raises(VarlinkError) as e:
            daemon.call("Kill", job=job, **kwargs)
        assert e.value.name == error, kwargs


def test_ranks_that_do_not_exist(daemon, job):
    with pytest.raises(VarlinkError) as e:
        daemon.call("Kill", job=job, signal="USR1", ranks="2,7-8")
    assert (e.value.name, e.value.parameters["worker"]) == ("NotFound", "7")


def test_a_job_that_ended(daemon):
    ended = daemon.run(spec())
    with pytest.raises(VarlinkError) as e:
        daemon.call("Kill", job=ended["run"], signal="USR1")
    assert e.value.name == "FailedPrecondition"


def test_by_command_line(box, daemon, job):
    assert box.ctl("kill", "-s", "USR1", f"{job}/1,3").rc == 0
    wait_file(box.path("got.1"))
    wait_file(box.path("got.3"))
    assert got(box) == [1, 3]
    result = box.ctl("kill", "-s", "NOSUCH", job)
    assert result.rc in (1, 2) and "NOSUCH" in result.err, result


def test_a_worker_without_a_process_cannot_be_signalled(box, daemon, job):
    assert daemon.call("StopWorkers", job=job, workers="0-1")["stopped"] == 2
    for args, name in ((f"{job}/worker:0",), f"{job}/worker:0"), (("--rank=0-1", job), f"{job}/0-1"):
        result = box.ctl("kill", "-s", "USR1", *args)
        assert (result.rc, result.out) == (1, ""), result
        assert result.err == f"elasticctl: {name} has no process that could get SIGUSR1\n", result
    result = box.ctl("kill", "--json", f"{job}/0")
    assert result.rc == 1 and result.json == {"signalled": 0}, result
    # Whoever else is meant gets it.
    result = box.ctl("kill", "-s", "USR1", f"{job}/1-2")
    assert (result.rc, result.out) == (0, f"sent SIGUSR1 to 1 worker of {job}\n"), result
    wait_file(box.path("got.2"))


def test_stop_and_continue(daemon, job):
    pid = daemon.status(job)["workers"][0]["pid"]
    daemon.call("Kill", job=job, signal="STOP", ranks="0")
    wait_for(lambda: open(f"/proc/{pid}/stat").read().split()[2] == "T", what="the stop")
    daemon.call("Kill", job=job, signal="CONT", ranks="0")
    assert daemon.status(job)["state"] == "running"
