# SPDX-License-Identifier: Apache-2.0
"""rendezvous.quarantine: a host that is at fault too often is kept out while others are enough."""

import signal

import pytest

from etcd_group import EtcdGroup
from group import Group
from harness import wait_for
from test_leave import Daemons

RESTART = {"max": 20}


def fail(group, round_, host, *then):
    """A worker of that host fails; returns the next round, which has just those hosts."""
    group.kill_worker(round_.workers[host], signal.SIGKILL)
    return group.wait_round(*then, after=round_)


def test_a_host_whose_workers_fail_is_kept_out_until_it_is_let_back(box):
    group = Daemons(box, 3, "2:3", restart=RESTART, last_call="60s")
    first = group.submit(0, 1, 2).wait_round(0, 1, 2)
    second = fail(group, first, 2, 0, 1, 2)
    third = fail(group, second, 2, 0, 1, 2)
    fourth = fail(group, third, 2, 0, 1)
    assert {w.restarts for w in fourth.workers.values()} == {3}
    event = group.daemons[0].wait_event("g", "host-quarantined")
    assert event["text"] == ("host node2 is in quarantine for 1h: its worker failed, the last of 3 times "
                             "within 1h")
    hosts = {h["host"]: h for h in group.daemons[0].status("g")["hosts"]}
    assert hosts["node2"]["quarantine_us"] == pytest.approx(event["data"]["until_us"], abs=1000000)
    assert hosts["node2"]["state"] == "waiting" and "quarantine_us" not in hosts["node1"]
    shown = group.ctl(0, "status", "g").out
    assert "node2: waiting, in quarantine until " in shown, shown

    other = group.ctl(1, "drain", "--undo", "g", "node1")
    assert other.rc == 1 and "host node1 is not in quarantine" in other.err, other
    undone = group.ctl(1, "drain", "--undo", "g", "node2")
    assert undone.rc == 0 and "node2 is let back into the group of g" in undone.out, undone
    fifth = group.wait_round(0, 1, 2, after=fourth)
    assert {w.restarts for w in fifth.workers.values()} == {3}
    assert "let back on request of user " in group.daemons[0].wait_event("g", "host-let-back")["text"]
    # It begins with no fault.
    fail(group, fifth, 2, 0, 1, 2)
    group.end(0, 1, 2)


def test_a_host_that_is_needed_is_not_kept_out(box):
    group = Group(box, 3, "2", restart=RESTART, quarantine="1/1h")
    group.start(0, 1)
    second = fail(group, group.wait_round(0, 1), 1, 0, 1)
    # Another one takes its place at the next failure.
    group.start(2)
    group.wait_event("node2 has joined")
    fail(group, second, 0, 0, 2)
    group.stop()


def test_a_host_that_is_lost_is_kept_out_when_it_is_back(box):
    group = Group(box, 3, "2:3", restart=RESTART, quarantine="2/1h", last_call="60s")
    round_ = group.start().wait_round(0, 1, 2)
    for hosts in (0, 1, 2), (0, 1):
        group.kill_agent(2)
        alone = group.wait_round(0, 1, after=round_)
        group.start(2)
        if len(hosts) == 3:
            round_ = group.wait_round(*hosts, after=alone)
    # Workers of the others, which end for that, are not to blame.
    group.wait_event("host node2 is in quarantine")
    again = fail(group, alone, 1, 0, 1)
    assert again.hosts() == {0, 1}
    group.stop()


def test_quarantine_off_keeps_no_host_out(box):
    group = Group(box, 3, "2:3", restart=RESTART, quarantine="off", last_call="60s")
    round_ = group.start().wait_round(0, 1, 2)
    for _ in range(4):
        round_ = fail(group, round_, 2, 0, 1, 2)
    group.stop()


def test_the_next_head_keeps_a_host_out(box):
    group = EtcdGroup(box, 4, "2:4", restart=RESTART, quarantine="1/1h", last_call="60s")
    first = group.start_led().wait_round(0, 1, 2, 3)
    second = fail(group, first, 2, 0, 1, 3)
    assert [h["host"] for h in group.etcd.keys()["state"]["quarantine"]] == ["node2"]
    group.kill_agent(0)
    third = group.wait_round(1, 3, after=second)
    wait_for(lambda: {h["host"] for h in group.etcd.keys()["state"]["quarantine"]} == {"node0", "node2"},
             what="the lost head's quarantine")
    group.succeed(third)


def test_a_host_that_is_not_healthy_gives_its_seat_to_a_spare_and_comes_back(box):
    group = Group(box, 3, "2", restart=RESTART, last_call="60s")
    group.document["resources"] = {"health": {
        "command": ["sh", "-c", f"test ! -e {box.path('sick')}.$(uname -n)"],
        "failures": 1, "cooldown": "50ms"}}
    group.start(0, 1)
    first = group.wait_round(0, 1)
    group.start(2)
    box.path("sick.node1").touch()
    second = fail(group, first, 0, 0, 2)
    box.path("sick.node1").unlink()
    box.path("sick.node2").touch()
    third = fail(group, second, 0, 0, 1)
    assert {w.restarts for w in third.workers.values()} == {2}, "what is unwell counts as no restart"
    text = "".join(p.read_text() for p in box.path("logs").glob("g.node1_*/events.jsonl"))
    assert '"unhealthy"' in text and "resources.health: it exited with 1" in text
    group.stop()
