# SPDX-License-Identifier: Apache-2.0
"""A group that etcd elects the head of survives the loss of any host. No worker lives twice."""

import json
import os
import signal
import time

import pytest

from etcd_group import LEASE_MS, EtcdGroup
from harness import alive, wait_for


@pytest.fixture
def group(box):
    return EtcdGroup(box, 3, "2:3", last_call="60s")


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
    group.kill_hosts(0)
    second = group.wait_round(1, 2, after=first)
    group.runs[0] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_the_others_go_on_when_the_agent_that_leads_is_killed(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.kill_agent(0)
    second = group.wait_round(1, 2, after=first)
    assert group.runs[0].wait().rc == 125
    group.runs[0] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_the_others_go_on_when_the_guard_of_the_host_that_leads_is_killed(box):
    group = EtcdGroup(box, 3, "2:3", child=False)
    first = group.start_led(0).wait_round(0, 1, 2)
    agent = group.agent(0)
    group.runs[0].signal(signal.SIGKILL)
    second = group.wait_round(1, 2, after=first)
    wait_for(lambda: not alive(agent), what="the agent to end")
    group.runs[0].wait()
    group.runs[0] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_the_deputy_leads_at_once_when_the_guard_of_the_head_says_that_it_died(box):
    group = EtcdGroup(box, 3, "2:3", restart={"max": 1, "backoff": "0"})
    first = group.start_led(0).wait_round(0, 1, 2)
    deputy = next(w for w in first.workers.values() if w.rank == (first.workers[0].rank + 1) % 3)
    i = int(deputy.host.removeprefix("node"))
    # It has told the head where it listens before it tells of this failure.
    wait_for(lambda: group.net.nodes[i].listens(), what="the deputy to listen")
    group.kill_worker(deputy, signal.SIGUSR2)
    second = group.wait_round(0, 1, 2, after=first)
    group.kill_agent(0)
    third = group.wait_round(1, 2, after=second)
    group.runs[i].wait_err("the agent of the host that leads has ended")
    for i in (1, 2):
        assert "the lease of this host is over" not in group.runs[i].err
    assert group.runs[0].wait().rc == 125
    group.runs[0] = None
    assert [r.rc for r in group.succeed(third)] == [0, 0]


def test_the_others_go_on_when_another_agent_is_killed(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.kill_agent(2)
    second = group.wait_round(0, 1, after=first)
    group.runs[0].wait_err("the agent of host node2 has ended")
    assert group.runs[2].wait().rc == 125
    group.runs[2] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_hosts_that_all_leave_at_once_leave_nothing_behind(group):
    """As where a scheduler ends a job. The next group of that name waits for no host."""
    first = group.start_led(0).wait_round(0, 1, 2)
    for run in group.runs[:3]:
        run.signal(signal.SIGTERM)
    assert [run.wait().rc for run in group.runs[:3]] == [143, 143, 143]
    assert not group.etcd.keys()
    second = group.start().wait_round(0, 1, 2, after=first)
    assert [r.rc for r in group.succeed(second)] == [0, 0, 0]


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


def test_a_host_that_leaves_hands_the_lead_over_as_soon_as_etcd_answers(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.etcd.pause()
    group.runs[0].signal(signal.SIGTERM)
    group.runs[0].wait_err("etcd: ")  # it has asked once
    group.etcd.go_on()
    assert group.runs[0].wait().rc == 143
    assert group.leader() != 0
    group.runs[0] = None
    second = group.wait_round(1, 2, after=first)
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_a_claim_whose_answer_comes_late_is_found_to_be_the_lead(box):
    """The others know before its own host does who leads, and wait there until that knows it, too."""
    group = EtcdGroup(box, 3, "2:3", lease_ms=2 * LEASE_MS)
    url, relay = group.etcd.relay()
    relay.keep_from("lead")
    group.start(0, endpoints=url)
    relay.wait_kept()
    group.start(1, 2)
    time.sleep(0.3 * 2 * LEASE_MS / 1000)  # they have sent beats
    relay.let_go()
    group.wait_leads(0)
    first = group.wait_round(0, 1, 2)
    assert not group.runs[1].err and not group.runs[2].err  # all by one link
    assert [r.rc for r in group.succeed(first)] == [0, 0, 0]


def test_restarts_count_on_under_the_next_head(box):
    group = EtcdGroup(box, 3, "2:3", restart={"max": 1, "backoff": "0"}, last_call="60s")
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


def test_a_time_limit_that_is_over_while_no_host_leads_ends_the_group_under_the_next_head(group):
    group.document["max_run_time"] = f"{2 * LEASE_MS}ms"
    first = group.start_led(0).wait_round(0, 1, 2)
    events = next(group.box.path("logs").glob("g.node0_*/events.jsonl")).read_text().splitlines()
    begun = json.loads(events[0])["time_us"] / 1e6
    time.sleep(max(0, begun + 1.8 * LEASE_MS / 1000 - time.time()))
    group.kill_hosts(0)
    assert [group.runs[i].wait().rc for i in (1, 2)] == [124, 124]
    assert len(group.rounds()) == 1
    group.wait_end_of(first.workers[1])
    group.check()
