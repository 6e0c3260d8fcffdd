# SPDX-License-Identifier: Apache-2.0
"""Hosts of a group that are cut off, stopped or killed: the others go on, and no worker lives twice."""

import contextlib
import os
import signal

import pytest

from group import Group
from harness import SLOWER, descriptors, wait_for, wait_gone
from workers import Worker, entry_bytes, environment


@pytest.fixture
def group(box):
    return Group(box, 3, "2:3", last_call="60s")


@pytest.mark.parametrize("how", [
    pytest.param(lambda net, i: net.cut(i), id="both"),
    pytest.param(lambda net, i: net.cut(i, hears=False), id="unheard"),
    pytest.param(lambda net, i: net.cut(i, sends=False), id="deaf"),
    pytest.param(lambda net, i: net.unplug(i), id="unplugged"),
])
def test_the_others_go_on_without_a_host_that_is_cut_off_until_it_is_back(group, how):
    first = group.start().wait_round(0, 1, 2)
    how(group.net, 2)
    second = group.wait_round(0, 1, after=first)
    group.runs[0].wait_err("host node2 was lost")
    group.runs[2].wait_err("the lease of this host is over")
    group.net.heal(2)
    group.wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.stop()] == [143, 143, 143]


def test_links_that_are_lost_leave_no_descriptor(group):
    group.document["rendezvous"]["quarantine"] = "off"

    def cut_and_heal(before):
        group.net.unplug(2)
        alone = group.wait_round(0, 1, after=before)
        group.net.heal(2)
        return group.wait_round(0, 1, 2, after=alone)

    def counts():
        return [len(descriptors(group.agent(i))) for i in range(3)]

    last = cut_and_heal(group.start().wait_round(0, 1, 2))
    first = counts()
    for _ in range(3):
        last = cut_and_heal(last)
    # At first one that was on its way out may have been counted, too.
    wait_for(lambda: all(n <= was for n, was in zip(counts(), first)),
             what=f"the descriptors to be {first} again, now {counts()}")
    group.stop()


def test_a_head_that_is_cut_off_goes_on_alone_where_one_host_is_enough(box):
    group = Group(box, 3, "1:3")
    first = group.start().wait_round(0, 1, 2)
    group.net.cut(0)
    second = group.wait_round(0, after=first)
    for i in (1, 2):
        group.runs[i].wait_err("the lease of this host is over")
    group.net.heal(0)
    group.wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.stop()] == [143] * 3


def test_two_hosts_of_which_none_leads_run_nothing_without_the_head(group):
    first = group.start().wait_round(0, 1, 2)
    group.net.cut(0)
    for worker in first.workers.values():
        group.wait_end_of(worker)
    group.net.heal(0)
    group.wait_round(0, 1, 2, after=first)
    assert [r.rc for r in group.stop()] == [143] * 3


def test_a_group_can_be_stopped_while_a_host_is_cut_off(box):
    group = Group(box, 3, "2:3", join_timeout="4s")
    first = group.start().wait_round(0, 1, 2)
    group.net.cut(2)
    group.runs[0].signal(signal.SIGTERM)
    assert [group.runs[i].wait().rc for i in (0, 1)] == [143, 143]
    group.wait_end_of(first.workers[2])
    result = group.runs[2].wait()
    assert result.rc == 125 and "the head's host node0 was lost" in result.err, result


def test_a_host_that_comes_back_while_the_group_ends_ends_like_the_others(box):
    group = Group(box, 3, "2:3")
    # Workers do not end when they are to stop.
    lingers = {"signal": "CONT", "forward": [], "timeout": "60s"}
    first = group.start(change={"stop": lingers}).wait_round(0, 1, 2)
    group.runs[0].signal(signal.SIGTERM)
    group.net.cut(2)
    group.wait_end_of(first.workers[2])
    group.wait_event("host node2 was lost")
    group.net.heal(2)
    group.wait_event("host node2 has joined", count=2)
    for host in (0, 1):
        group.kill_worker(first.workers[host], signal.SIGKILL)
    results = [run.wait() for run in group.runs]
    assert [r.rc for r in results] == [143] * 3, results
    assert all("stopped (exit status 143): got SIGTERM" in r.err for r in results), results


def test_a_short_cut_changes_nothing_and_what_ended_meanwhile_is_told_after_it(box):
    """With success on each host the group ends, so that one report counts exactly once."""
    group = Group(box, 3, "2:3", lease_ms=8000 * SLOWER, last_call="60s")
    only = group.start().wait_round(0, 1, 2)
    group.kill_worker(only.workers[0], signal.SIGUSR1)
    group.net.cut(2)
    group.kill_worker(only.workers[2], signal.SIGUSR1)
    group.wait_end_of(only.workers[2])
    group.kill_worker(only.workers[1], signal.SIGUSR1)
    group.wait_end_of(only.workers[1])
    assert [run.popen.poll() for run in group.runs] == [None] * 3
    group.net.heal(2)
    assert [run.wait().rc for run in group.runs] == [0, 0, 0]
    assert len(group.rounds()) == 1 and len(group.lines("end")) == 3
    assert not [run.err for run in group.runs if "was lost" in run.err]


def test_a_failure_during_a_short_cut_is_counted_once(box):
    group = Group(box, 3, "2:3", lease_ms=8000 * SLOWER, restart={"max": 3}, last_call="60s")
    first = group.start().wait_round(0, 1, 2)
    group.net.cut(2)
    group.kill_worker(first.workers[2], signal.SIGUSR2)
    group.wait_end_of(first.workers[2])
    assert group.rounds()[-1].number == first.number
    group.net.heal(2)
    second = group.wait_round(0, 1, 2, after=first)
    assert {w.restarts for w in second.workers.values()} == {1}
    assert {w.attempt for w in second.workers.values()} == {1}
    group.stop()


def connection(worker):
    """A connection to its agent, as that worker."""
    env = environment(worker.pid)
    return Worker(env["ELASTICD_WORKER_SOCKET"], env["ELASTICD_TOKEN"])


def test_calls_of_workers_outlast_a_short_cut(box):
    group = Group(box, 3, "3", lease_ms=8000 * SLOWER)
    only = group.start().wait_round(0, 1, 2)
    a, b, c, far = [connection(only.workers[i]) for i in (0, 1, 2, 2)]
    for w in (a, b):
        w.send("Barrier", name="x")
    far.send("Get", key="later", wait=True)
    c.put("before", "")
    group.net.cut(2)
    connection(only.workers[0]).put("later", "now")
    c.send("Put", key="during", value="there")
    c.send("Barrier", name="x")
    assert a.waits() and b.waits() and far.waits()
    group.net.heal(2)
    assert entry_bytes(far.reply()["entry"]) == b"now"
    assert "revision" in c.reply()
    assert [w.reply() for w in (c, a, b)] == [{"generation": 0}] * 3
    assert connection(only.workers[1]).get("during") == b"there"
    assert len(group.rounds()) == 1
    group.stop()


def test_calls_that_wait_end_when_a_host_is_lost(group):
    first = group.start().wait_round(0, 1, 2)
    a, c = [connection(first.workers[i]) for i in (0, 2)]
    a.send("Barrier", name="x")
    c.send("Get", key="never", wait=True)
    connection(first.workers[1]).put("k", "v")
    group.net.unplug(2)
    e = a.error()
    assert e.name == "Cancelled" and "host node2 was lost" in e.message, e
    second = group.wait_round(0, 1, after=first)
    a, b = [connection(second.workers[i]) for i in (0, 1)]
    assert a.keys() == []  # another attempt
    a.send("Barrier", name="x")
    assert b.call("Barrier", name="x") == a.reply() == {"generation": 0}
    group.net.heal(2)
    group.wait_round(0, 1, 2, after=second)
    group.stop()


def test_hosts_wait_for_the_head_s_host_and_run_again_with_its_next_run(group):
    first = group.start().wait_round(0, 1, 2)
    group.kill_agent(0)
    assert group.runs[0].wait().rc == 125
    for i in (1, 2):
        group.runs[i].wait_err("the lease of this host is over")
        group.wait_end_of(first.workers[i])
    second = group.start(0).wait_round(0, 1, 2, after=first)
    assert {w.attempt for w in second.workers.values()} == {1}
    assert [r.rc for r in group.stop()] == [143] * 3


def test_without_the_head_s_host_the_others_end_with_its_name(box):
    group = Group(box, 2, "2")
    group.start(0).wait_event('"host-joined"')
    group.start(1, join_timeout="2s").wait_round(0, 1)
    group.kill_agent(0)
    result = group.runs[1].wait()
    assert result.rc == 125 and "node0" in result.err, result
    group.check()


def test_a_stopped_head_begins_again_when_it_goes_on(group):
    first = group.start().wait_round(0, 1, 2)
    group.kill_agent(0, signal.SIGSTOP)
    for worker in first.workers.values():
        group.wait_end_of(worker)
    group.kill_agent(0, signal.SIGCONT)
    group.wait_round(0, 1, 2, after=first)
    assert [r.rc for r in group.stop()] == [143] * 3


def test_a_stopped_agent_s_host_is_lost_and_joins_again_when_it_goes_on(group):
    first = group.start().wait_round(0, 1, 2)
    group.kill_agent(1, signal.SIGSTOP)
    second = group.wait_round(0, 2, after=first)
    group.kill_agent(1, signal.SIGCONT)
    group.wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.stop()] == [143] * 3


def test_a_stopped_guard_is_not_needed_while_the_agent_keeps_the_lease(group):
    first = group.start().wait_round(0, 1, 2)
    group.runs[1].signal(signal.SIGSTOP)
    group.net.cut(1)
    second = group.wait_round(0, 2, after=first)
    group.net.heal(1)
    group.wait_round(0, 1, 2, after=second)
    group.runs[1].signal(signal.SIGCONT)
    assert [r.rc for r in group.stop()] == [143] * 3


def test_the_guard_tells_the_head_at_once_that_its_agent_was_killed(box):
    """No lease is waited for: that is longer than the test may take."""
    group = Group(box, 3, "2:3", lease_ms=600000)
    first = group.start().wait_round(0, 1, 2)
    group.kill_agent(2)
    assert group.runs[2].wait().rc == 125
    second = group.wait_round(0, 1, after=first)
    group.start(2).wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.stop()] == [143] * 3


def test_workers_die_with_agent_and_guard_that_are_killed_at_once(box):
    """The kernel ends the workers, but not what they have started themselves."""
    group = Group(box, 3, "2:3", child=False)
    first = group.start().wait_round(0, 1, 2)
    agent = group.agent(2)
    os.kill(agent, signal.SIGSTOP)  # else it may end by itself for want of its guard
    os.kill(group.runs[2].pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # the kernel may have killed it with its guard
        os.kill(agent, signal.SIGKILL)
    wait_gone(first.workers[2].pid)
    second = group.wait_round(0, 1, after=first)
    group.runs[2].wait()
    group.start(2).wait_round(0, 1, 2, after=second)
    assert [r.rc for r in group.stop()] == [143] * 3
