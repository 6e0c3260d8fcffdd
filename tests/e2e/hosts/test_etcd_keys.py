# SPDX-License-Identifier: Apache-2.0
"""The keys of a group in etcd, and values there that it has not written."""

import json
import os
import signal
import sys
import time

import pytest

from etcd_group import LEASE_MS, EtcdGroup
from harness import wait_for
from python_package import ENV, needs_library, write_script


@pytest.fixture
def group(box):
    return EtcdGroup(box, 3, "2:3")


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
    group = EtcdGroup(box, 3, "2:3", last_call="60s")
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
    """The requests that etcd gets in that time or in a little more, by kind; and how long it was."""
    begun, before = time.monotonic(), group.etcd.requests()
    time.sleep(seconds)
    after = group.etcd.requests()
    return ({kind: n - before.get(kind, 0) for kind, n in after.items() if n != before.get(kind, 0)},
            time.monotonic() - begun)


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
        for i in range(1, 8):
            group.runs[i].wait_err("etcd: ")
        relay.let_go()
        for i in range(1, 8):
            group.runs[i].wait_err("etcd answers again")
        assert first.runs_on(range(8))
        time.sleep(LEASE_MS / 1000)
    changed, seconds = at_rest(group, LEASE_MS / 1000)
    # One message for the lease of the lead and one for that of the group, five times in each lease.
    most = 2 * (5 * seconds / (LEASE_MS / 1000) + 2)
    assert set(changed) == {"LeaseKeepAlive"} and changed["LeaseKeepAlive"] <= most, (changed, seconds)
    assert [r.rc for r in group.succeed(first)] == [0] * 8


# Bad input


def test_a_host_with_other_settings_is_refused_with_their_names(group):
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


def test_hosts_wait_for_etcd_then_name_it(box):
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


def test_a_group_that_was_killed_as_a_whole_can_be_removed_from_etcd_and_begin_again(group):
    first = group.start().wait_round(0, 1, 2)
    group.kill_hosts(0, 1, 2)
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
