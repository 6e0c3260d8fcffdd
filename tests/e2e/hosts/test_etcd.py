# SPDX-License-Identifier: Apache-2.0
"""A group that etcd elects the head of survives the loss of any host, and of etcd itself for a while.
No worker lives twice."""

import contextlib
import json
import os
import shutil
import signal
import sys
import time

import pytest

from etcd_group import LEASE_MS, EtcdGroup
from harness import alive, wait_for, wait_text
from python_package import ENV, needs_library, write_script


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
        with contextlib.suppress(ProcessLookupError):  # the kernel was first
            os.kill(pid, signal.SIGKILL)
    second = group.wait_round(1, 2, after=first)
    group.runs[0].wait()
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


def test_nobody_waits_for_a_lease_when_the_guard_of_the_head_can_tell(box):
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
    """As where a scheduler ends a job. The next group of that name waits for nobody."""
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
    # Nobody gets in.
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
    wait_text(next(box.path("logs").glob("g.node0_*/events.jsonl")), "host node3 has joined")
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


def test_a_group_of_which_nobody_is_left_is_followed_by_another(box):
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


# What stands in etcd


KEEPER = """
import os, sys, time
import elasticd

def value(key):
    try:
        return kv.get(key, timeout=0)
    except elasticd.NotFound:
        return None

done, told = sys.argv[1:]
kv = elasticd.init().kv
step = value("step")
if step is None and os.environ["RANK"] == "0":
    kv.put("big/one", os.urandom(1 << 20), persistent=True)
    kv.put("gone", b"x", persistent=True)
    kv.delete("gone")
    kv.put("step", b"7", persistent=True)
elif step is not None:
    open(told, "a").write(f"{step.decode()} {len(value('big/one'))} {value('gone')}\\n")
while not os.path.exists(done):
    time.sleep(0.05)
"""


@needs_library
def test_persistent_keys_outlive_the_host_that_leads(box):
    group = EtcdGroup(box, 3, "2:3")
    done, told = box.path("done"), box.path("told")
    command = [sys.executable, str(write_script(box, KEEPER)), str(done), str(told)]
    group.document["roles"] = [{"replicas": 1, "env": ENV, "command": command}]
    group.start_led(0)
    wait_for(lambda: set(group.etcd.keys(values=False)) == {"lead", "run", "state", "kv/big/one", "kv/step"},
             what="etcd to have the persistent keys")
    group.net.unplug(0)
    wait_for(lambda: told.exists() and len(told.read_text().splitlines()) == 2,
             what="the next round to read them")
    assert set(told.read_text().splitlines()) == {"7 1048576 None"}
    group.net.heal(0)
    done.touch()
    assert [run.wait().rc for run in group.runs if run] == [0, 0, 0]
    assert set(group.etcd.keys()) == {"end"}


@needs_library
def test_nothing_stays_of_a_group_that_ends_while_it_writes(box):
    """A key is on its way to etcd when the last host leaves: the verdict stands there, and nothing else."""
    group = EtcdGroup(box, 2, "2")
    url, relay = group.etcd.relay()
    put = "import os, elasticd; elasticd.init().kv.put(os.environ['RANK'], b'1', persistent=True)"
    command = [sys.executable, "-c", put]
    group.document["roles"] = [{"replicas": 1, "env": ENV, "command": command}]
    relay.keep_from("kv/")
    group.start(0, endpoints=url)
    group.wait_leads(0)
    group.start(1)
    relay.wait_kept()
    assert group.runs[1].wait().rc == 0
    relay.let_go()
    assert group.runs[0].wait().rc == 0
    assert group.etcd.keys()["end"]["result"] == "succeeded"
    assert set(group.etcd.keys()) == {"end"}


def at_rest(group, seconds):
    """What etcd has been asked for that long, by kind."""
    before = group.etcd.requests()
    time.sleep(seconds)
    return {kind: n - before.get(kind, 0) for kind, n in group.etcd.requests().items()
            if n != before.get(kind, 0)}


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "broken"])
def test_a_group_at_rest_sends_keep_alives_and_nothing_else(box, breaks):
    group = EtcdGroup(box, 8, "8", child=False)
    url, relay = group.etcd.relay()
    group.document["rendezvous"]["endpoints"] = url
    first = group.start_led(0).wait_round(*range(8))
    assert sum(group.etcd.requests().values()) <= 4 * 8 + 10
    if breaks:  # hosts ask who leads, and their links are made again before they know
        relay.keep()
        for i in range(1, 8):
            group.net.break_connections(i, 0)
        time.sleep(LEASE_MS / 4000)
        relay.let_go()
        for i in range(1, 8):
            group.runs[i].wait_err("etcd answers again")
        assert first.runs_on(range(8))
        time.sleep(LEASE_MS / 1000)
    changed = at_rest(group, LEASE_MS / 1000)
    # One message for the lease of the lead and one for that of the group, five times in each lease.
    assert set(changed) == {"LeaseKeepAlive"} and changed["LeaseKeepAlive"] <= 2 * 7, changed
    assert [r.rc for r in group.succeed(first)] == [0] * 8


# Bad input


def test_a_host_that_was_started_otherwise_is_told(group):
    group.start(0)
    group.wait_leads(0)
    group.start(1, change={"restart": {"max": 7}})
    result = group.runs[1].wait()
    assert result.rc == 1 and "restart" in result.err and "7" in result.err and "node0" in result.err, result
    group.runs[1] = None
    group.runs[0].signal(signal.SIGTERM)
    assert group.runs[0].wait().rc == 143
    assert not group.etcd.keys()


def test_a_host_that_may_not_lead_gives_up_in_time(group):
    group.start(0, lead="never", join_timeout="2s")
    result = group.runs[0].wait()
    assert result.rc == 124 and "no host leads the group tests; gave up after" in result.err, result
    group.runs[0] = None


SECRET = {"secret": 64 * "0"}


@pytest.mark.parametrize(("kept", "told"), [
    ({"run": "", "state": "[1]"}, "/elasticd/tests/run in etcd has no secret"),
    ({"lead": {"agent": "x", "address": "10.77.0.2:29400"}}, "/elasticd/tests/run in etcd has no secret"),
    ({"lead": {"agent": 7, "address": "here:port"}, "run": SECRET}, "tests/lead in etcd has no address"),
    ({"lead": {"host": "h", "address": "10.77.0.4:2379"}, "run": SECRET},
     "host h does not answer at 10.77.0.4:2379, and leads the group tests"),
    ({"run": {**SECRET, "settings": [1, {"key": []}]}}, "remove what etcd has below /elasticd/tests/"),
], ids=["texts", "no-run", "address", "stranger", "settings"])
def test_values_in_etcd_that_no_host_has_written_are_named(group, kept, told):
    for key, value in kept.items():
        group.etcd.put(key, value if isinstance(value, str) else json.dumps(value))
    result = group.start(0, join_timeout="2s").runs[0].wait()
    assert result.rc in (1, 124) and told in result.err, result
    assert len(result.err.splitlines()) <= 4, result  # each once
    group.runs[0] = None


def test_numbers_in_etcd_that_no_group_reaches_count_nothing(box):
    group = EtcdGroup(box, 2, "2", store_loss="1s")
    names = {"run": "a", "agent": "b", "boot": "c", "name": "node7", "group_rank": 1 << 40}
    group.etcd.put("run", json.dumps(SECRET))
    group.etcd.put("state", json.dumps({
        "term": (1 << 63) - 1, "round": (1 << 63) - 1, "attempt": (1 << 31) - 1, "budget": [],
        "hosts": [7, None, {"run": 5}, names, names]}))
    first = group.start().wait_round(0, 1)
    assert [w.attempt for w in first.workers.values()] == [0, 0]
    assert [r.rc for r in group.succeed(first)] == [0, 0]


def test_no_etcd_is_told_and_waited_for(box):
    group = EtcdGroup(box, 2, "2", join_timeout="3s")
    group.etcd.kill()
    results = [run.wait() for run in group.start().runs[:2]]
    assert [r.rc for r in results] == [124, 124]
    for r in results:
        assert "etcd: 10.77.0.3:2379: " in r.err
        assert "no host leads the group tests: " in r.err


# How a group has ended


def test_a_host_that_was_cut_off_at_the_end_takes_the_verdict_from_etcd(group):
    first = group.start_led(0).wait_round(0, 1, 2)
    group.net.unplug(2)
    second = group.wait_round(0, 1, after=first)
    for worker in second.workers.values():
        group.kill_worker(worker, signal.SIGUSR1)
    assert [group.runs[i].wait().rc for i in (0, 1)] == [0, 0]
    assert set(group.etcd.keys()) == {"end"}
    group.net.heal(2)
    assert group.runs[2].wait().rc == 0


def test_a_group_that_was_killed_as_a_whole_can_be_removed_from_etcd_and_begin_anew(group):
    first = group.start().wait_round(0, 1, 2)
    for i in range(3):
        for pid in group.net.nodes[i].processes():
            with contextlib.suppress(ProcessLookupError):  # the kernel was first
                os.kill(pid, signal.SIGKILL)
    for run in group.runs[:3]:
        run.wait()
    group.start()
    told = "3 hosts of the last round may still run: nothing begins for up to 10m"
    wait_for(lambda: any(told in run.err for run in group.runs[:3]), what="the host that leads to say so")
    group.etcd.delete_all()
    second = group.wait_round(0, 1, 2, after=first)
    assert [r.rc for r in group.succeed(second)] == [0, 0, 0]


def test_a_group_of_the_same_name_can_begin_at_once(group):
    first = group.start().wait_round(0, 1, 2)
    group.succeed(first)
    second = group.start().wait_round(0, 1, 2, after=first)
    assert "end" not in group.etcd.keys()
    assert [r.rc for r in group.succeed(second)] == [0, 0, 0]
