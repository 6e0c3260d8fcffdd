# SPDX-License-Identifier: Apache-2.0
"""A group goes on while the etcd that elects its head is away, or does not hear it."""

import json
import shutil
import signal
import time

import pytest

from etcd_group import LEASE_MS, EtcdGroup
from harness import wait_for


@pytest.fixture
def group(box):
    return EtcdGroup(box, 3, "2:3")


def kill_and_wait(group, last, i):
    """A worker of host i fails; returns the round after."""
    group.kill_worker(last.workers[i], signal.SIGUSR2)
    return group.wait_round(*last.workers, after=last)


def wait_unconfirmed(group):
    """etcd has not confirmed for a lease that the head leads."""
    time.sleep(1.2 * LEASE_MS / 1000)


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_workers_go_on_and_start_again_while_etcd_is_away(box, how):
    group = EtcdGroup(box, 4, "2:4", restart={"max": 2, "backoff": "0"})
    group.start(0)
    group.wait_leads(0)
    first = group.start(1, 2).wait_round(0, 1, 2)
    group.etcd.kill() if how == "killed" else group.etcd.pause()
    group.runs[0].wait_err("etcd: ")
    second = kill_and_wait(group, first, 1)
    wait_unconfirmed(group)
    third = kill_and_wait(group, second, 2)
    # No host gets in.
    group.start(3)
    group.runs[3].wait_err("etcd: ")
    assert third.runs_on((0, 1, 2))
    group.etcd.start() if how == "killed" else group.etcd.go_on()
    fourth = group.wait_round(0, 1, 2, 3, after=third)
    group.runs[0].wait_err("etcd answers again")
    assert group.leader() == 0
    assert [r.rc for r in group.succeed(fourth)] == [0, 0, 0, 0]


def test_a_head_that_etcd_has_forgotten_leads_on(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    before = group.etcd.keys()
    group.etcd.kill()
    shutil.rmtree(group.etcd.data)  # another cluster, which knows nothing
    group.etcd.start()
    wait_for(lambda: group.etcd.keys() == before, what="etcd to have the group's keys again")
    assert first.runs_on((0, 1, 2))
    assert [r.rc for r in group.succeed(first)] == [0, 0, 0]


def test_a_head_whose_keys_are_removed_leads_on_beside_hosts_that_begin_meanwhile(box):
    group = EtcdGroup(box, 6, "3")
    group.start(0)
    group.wait_leads(0)
    first = group.start(1, 2).wait_round(0, 1, 2)
    before = group.etcd.keys()
    group.etcd.delete_all()
    group.start(3, 4, 5)
    wait_for(lambda: group.etcd.keys() == before, what="etcd to have the group's keys again")
    for host in (3, 4, 5):
        group.wait_event(f"host node{host} has joined")
    assert first.runs_on((0, 1, 2))
    assert [r.rc for r in group.succeed(first)] == [0] * 6


def test_a_head_beside_which_another_one_leads_ends_its_workers_at_once(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.etcd.put("lead", json.dumps(group.etcd.keys()["lead"] | {"agent": "another", "term": 2}))
    group.runs[0].wait_err("this host leads the group no more: another host leads")
    for worker in first.workers.values():
        group.wait_end_of(worker)
    group.etcd.delete_all()
    second = group.wait_round(0, 1, 2, after=first)
    assert [r.rc for r in group.succeed(second)] == [0, 0, 0]


def test_others_keep_the_lead_alive_for_a_head_that_etcd_does_not_hear(group):
    group.document["restart"] = {"max": 1, "backoff": "0"}
    first = group.start_led(0).wait_round(0, 1, 2)
    group.net.cut_way(0, group.count)
    wait_unconfirmed(group)
    second = kill_and_wait(group, first, 1)
    group.net.unplug(2)
    third = group.wait_round(0, 1, after=second)
    assert group.leader() == 0
    group.net.heal(2)
    group.net.heal_way(0, group.count)
    group.runs[0].wait_err("etcd answers again")
    fourth = group.wait_round(0, 1, 2, after=third)
    assert [r.rc for r in group.succeed(fourth)] == [0, 0, 0]


@pytest.mark.parametrize("to", ["both", "unheard", "deaf"])
def test_a_head_without_etcd_leads_no_more_when_it_loses_a_host(group, to):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.etcd.pause()
    wait_unconfirmed(group)
    assert first.runs_on((0, 1, 2))
    for j in range(group.count):
        if j != 2 and to != "deaf":
            group.net.cut_way(2, j)
        if j != 2 and to != "unheard":
            group.net.cut_way(j, 2)
    group.runs[0].wait_err("this host leads the group no more")
    for worker in first.workers.values():
        group.wait_end_of(worker)
    group.etcd.go_on()
    second = group.wait_round(0, 1, after=first)
    group.net.heal(2)
    third = group.wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.succeed(third)] == [0, 0, 0]


def test_a_host_that_etcd_cannot_be_told_of_waits_until_it_can(box):
    group = EtcdGroup(box, 4, "2:4", join_delay=f"{LEASE_MS // 2}ms")
    group.start(0)
    group.wait_leads(0)
    first = group.start(1, 2).wait_round(0, 1, 2)
    group.start(3)
    group.wait_event("host node3 has joined")
    group.etcd.pause()
    second = group.wait_round(0, 1, 2, after=first)
    group.runs[0].wait_err("host node3 does not get in while etcd is away")
    group.etcd.go_on()
    third = group.wait_round(0, 1, 2, 3, after=second)
    assert [r.rc for r in group.succeed(third)] == [0, 0, 0, 0]


def test_a_group_goes_on_while_etcd_is_full_and_lets_others_in_later(box):
    group = EtcdGroup(box, 4, "2:4", restart={"max": 1, "backoff": "0"})
    group.etcd.kill()
    group.etcd.start("--quota-backend-bytes=300000")
    group.start(0)
    group.wait_leads(0)
    first = group.start(1, 2).wait_round(0, 1, 2)
    group.etcd.fill()
    second = kill_and_wait(group, first, 1)
    group.runs[0].wait_err("etcd: ")
    group.start(3)
    time.sleep(LEASE_MS / 1000)
    assert second.runs_on((0, 1, 2))
    group.etcd.empty()
    third = group.wait_round(0, 1, 2, 3, after=second)
    assert [r.rc for r in group.succeed(third)] == [0, 0, 0, 0]


def test_a_group_without_etcd_ends_its_workers_after_store_loss(box):
    group = EtcdGroup(box, 3, "2:3", store_loss=f"{2 * LEASE_MS}ms")
    first = group.start_led(0).wait_round(0, 1, 2)
    group.etcd.kill()
    group.runs[0].wait_err("this host leads the group no more")
    for worker in first.workers.values():
        group.wait_end_of(worker)
    group.etcd.start()
    second = group.wait_round(0, 1, 2, after=first)
    assert [r.rc for r in group.succeed(second)] == [0, 0, 0]


def test_a_group_whose_hosts_are_all_gone_is_followed_by_another(box):
    group = EtcdGroup(box, 4, "2:2", store_loss=f"{2 * LEASE_MS}ms")
    group.start(0)
    group.wait_leads(0)
    first = group.start(1).wait_round(0, 1)
    for i in (0, 1):
        group.net.unplug(i)
    group.start(2, 3)
    second = group.wait_round(2, 3, after=first)
    for run in group.runs[:2]:
        run.signal(signal.SIGTERM)
        run.wait()
    for i in (0, 1):
        group.net.heal(i)
        group.runs[i] = None
    assert [r.rc for r in group.succeed(second)] == [0, 0]


def test_hosts_that_leave_while_etcd_is_away_end_and_the_next_group_begins(box):
    group = EtcdGroup(box, 3, "2:3", store_loss=f"{LEASE_MS}ms")
    first = group.start_led(0).wait_round(0, 1, 2)
    group.etcd.pause()
    for run in group.runs[:3]:
        run.signal(signal.SIGTERM)
    group.wait_end_of(first.workers[1])
    group.runs[1].signal(signal.SIGTERM)
    assert [run.wait().rc for run in group.runs[:3]] == [143, 143, 143]
    group.etcd.go_on()
    assert "state" in group.etcd.keys()
    second = group.start().wait_round(0, 1, 2, after=first)
    assert [r.rc for r in group.succeed(second)] == [0, 0, 0]
