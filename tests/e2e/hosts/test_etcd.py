# SPDX-License-Identifier: Apache-2.0
"""A group that etcd elects the head of survives the loss of any host, and of etcd itself for a while. No worker
lives twice."""

import os
import signal

import pytest

from etcd_group import LEASE_MS, EtcdGroup
from harness import wait_for


@pytest.fixture
def group(box):
    return EtcdGroup(box, 3, "2:3")


def test_hosts_find_each_other_and_leave_nothing_behind(group):
    first = group.start().wait_round(0, 1, 2)
    keys = group.etcd.keys()
    assert set(keys) == {"lead", "run", "state"}
    assert sorted(h["name"] for h in keys["state"]["hosts"]) == ["node0", "node1", "node2"]
    assert len(keys["run"]["secret"]) == 64
    assert [r.rc for r in group.succeed(first)] == [0, 0, 0]
    assert group.etcd.keys()["end"]["result"] == "succeeded"


@pytest.mark.parametrize("how", [
    pytest.param(lambda net: net.cut(0), id="both"),
    pytest.param(lambda net: net.cut(0, hears=False), id="unheard"),
    pytest.param(lambda net: net.cut(0, sends=False), id="deaf"),
    pytest.param(lambda net: net.unplug(0), id="unplugged"),
])
def test_the_others_go_on_without_the_host_that_leads_until_it_is_back(group, how):
    first = group.start_led(0).wait_round(0, 1, 2)
    how(group.net)
    second = group.wait_round(1, 2, after=first)
    assert group.leader() in (1, 2)
    group.net.heal(0)
    third = group.wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.succeed(third)] == [0, 0, 0]


def test_the_others_go_on_when_all_of_the_host_that_leads_is_killed(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    for pid in group.net.nodes[0].processes():
        os.kill(pid, signal.SIGKILL)
    second = group.wait_round(1, 2, after=first)
    group.runs[0].wait()
    group.runs[0] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_the_others_go_on_when_the_agent_that_leads_is_killed(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    deputy = next(w for w in first.workers.values() if w.rank == (first.workers[0].rank + 1) % 3)
    group.kill_agent(0)
    second = group.wait_round(1, 2, after=first)
    # Its guard has told the deputy, so that nobody waited for a lease.
    group.runs[int(deputy.host.removeprefix("node"))].wait_err("the agent of the host that leads has ended")
    for i in (1, 2):
        assert "the lease of this host is over" not in group.runs[i].err
    assert group.runs[0].wait().rc == 125
    group.runs[0] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_the_others_go_on_when_another_agent_is_killed(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.kill_agent(2)
    second = group.wait_round(0, 1, after=first)
    group.runs[0].wait_err("the agent of host node2 has ended")
    assert group.runs[2].wait().rc == 125
    group.runs[2] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_an_agent_that_leads_and_is_stopped_is_followed_by_another(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    agent = group.agent(0)
    os.kill(agent, signal.SIGSTOP)
    second = group.wait_round(1, 2, after=first)
    os.kill(agent, signal.SIGCONT)
    third = group.wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.succeed(third)] == [0, 0, 0]


def test_the_host_that_leads_can_leave(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.runs[0].signal(signal.SIGTERM)
    second = group.wait_round(1, 2, after=first)
    assert group.runs[0].wait().rc == 143
    group.runs[0] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_restarts_count_on_under_the_next_head(box):
    group = EtcdGroup(box, 3, "2:3", restart={"max": 1, "backoff": "0"})
    first = group.start_led(0).wait_round(0, 1, 2)
    group.kill_worker(first.workers[2], signal.SIGUSR2)
    second = group.wait_round(0, 1, 2, after=first)
    group.net.unplug(0)
    third = group.wait_round(1, 2, after=second)
    assert [w.attempt for w in third.workers.values()] == [2, 2]
    group.kill_worker(third.workers[2], signal.SIGUSR2)
    assert [group.runs[i].wait().rc for i in (1, 2)] == [3, 3]
    group.net.heal(0)
    assert group.runs[0].wait().rc == 3
    group.check()


# Without etcd


def test_workers_go_on_and_start_again_while_etcd_is_away(group):
    group.document["restart"] = {"max": 1, "backoff": "0"}
    group.document["rendezvous"]["nodes"] = "2:4"
    first = group.start_led(0).wait_round(0, 1, 2)
    group.etcd.kill()
    group.runs[0].wait_err("etcd: ")
    group.kill_worker(first.workers[1], signal.SIGUSR2)
    second = group.wait_round(0, 1, 2, after=first)
    group.etcd.start()
    group.runs[0].wait_err("etcd answers again")
    assert group.leader() == 0
    assert [r.rc for r in group.succeed(second)] == [0, 0, 0]
