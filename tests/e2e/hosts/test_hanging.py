# SPDX-License-Identifier: Apache-2.0
"""A worker that hangs on one host: the state of the workers of all hosts is saved before any is ended."""

import os
import pathlib
import signal

import pytest

from beating import job_of, worker
from shared_hosts import HostsGroup


def hanging(box, hosts, **heartbeat):
    """All workers beat until rank 1 does no more."""
    steps = worker("beat 3", f"if-rank 1 await {box.path('hang')}", "if-rank 1 hang", "beat-on")
    return HostsGroup(box, job_of(steps, replicas=hosts, restart={"max": 0},
                                  heartbeat={"period": "100ms", "timeout": "1s", "failures": 2, **heartbeat}))


def saved(daemon, job):
    """The directories with the state of this host's workers."""
    return sorted(pathlib.Path(daemon.status(job)["log_dir"]).glob("attempt_0/*/hang/why.txt"))


@pytest.mark.ci
def test_the_workers_of_all_hosts_are_saved_before_they_are_ended(box):
    group = hanging(box, 3)
    daemons = group.daemon.daemons
    box.path("hang").touch()
    for d in daemons:
        assert d.wait(group.name)["state"] == "failed"
    for d in daemons:
        (why,) = saved(d, group.name)
        assert "worker:1: " in why.read_text() and "beat" in why.read_text()
        assert why.parent.joinpath("stack.txt").exists() or len(list(why.parent.iterdir())) > 1
    assert daemons[0].wait(group.name)["verdict"]["root_cause"]["index"] == 1


def test_a_host_that_does_not_save_in_time_is_named(box):
    group = hanging(box, 3, dump_timeout="300ms")
    lead, other, silent = group.daemon.daemons
    agent = silent.agent_pid(group.name)
    box.path("hang").touch()
    other.wait_event(group.name, "heartbeat-missed")  # the first one: all are dumped at the second
    os.kill(agent, signal.SIGSTOP)
    try:
        event = lead.wait_event(group.name, "host-not-dumped")
    finally:
        os.kill(agent, signal.SIGCONT)
    assert "has not dumped its workers in time" in event["text"]
    assert other.wait(group.name)["state"] == "failed"
