# SPDX-License-Identifier: Apache-2.0
"""leave and drain: a host leaves its group on purpose, and the others go on at once, uncounted."""

import os
import signal

import pytest

from group import Group
from harness import VarlinkError, spec, wait_for
from shared_hosts import HostsGroup


class Daemons(Group):
    """The same under an elasticd on each host, whose lease is so long that no test waits for it."""

    def __init__(self, box, count, nodes, config=None, **keys):
        super().__init__(box, count, nodes, lease_ms=60000, **keys)
        self.daemons = [box.new_daemon(name=f"d{i}", config=config and config[i]) for i in range(count)]
        for daemon, node in zip(self.daemons, self.net.nodes):
            daemon.prefix = node.command()
            daemon.start()

    def submit(self, *hosts, change=None):
        for i in hosts:
            self.daemons[i].submit({**self.document, **(change or {})})
            if i == 0:
                self.daemons[0].wait_event("g", "host-joined")
        return self

    def ctl(self, i, *argv):
        return self.daemons[i].ctl(*argv)

    def end(self, *hosts):
        self.daemons[0].call("Stop", job="g")
        for i in hosts:
            assert self.daemons[i].wait("g")["verdict"]["result"] == "stopped"
        self.check()


@pytest.fixture
def group(box):
    return Daemons(box, 3, "2:3", last_call="60s")


def assert_left(group, i, *texts):
    verdict = group.daemons[i].wait("g")["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("stopped", 143), verdict
    for text in texts:
        assert text in verdict["message"], verdict


def test_a_host_that_leaves_ends_alone_and_no_restart_is_counted(group):
    first = group.submit(0, 1, 2).wait_round(0, 1, 2)
    left = group.ctl(2, "leave", "g")
    assert left.rc == 0 and "g has left its group after " in left.out, left
    assert_left(group, 2, "left the group on request of user ")
    second = group.wait_round(0, 1, after=first)
    assert {w.restarts for w in second.workers.values()} == {0}
    # The head tells the others who leaves, and why.
    told = [e["text"] for e in group.daemons[1].events("g") if "node2" in e["text"]]
    assert any("host node2 leaves the group: left the group on request of user " in t for t in told), told
    group.end(0, 1)


def test_leave_without_waiting_returns_at_once(group):
    group.submit(0, 1, 2, change={"stop": {"timeout": "60s"}}).wait_round(0, 1, 2)
    left = group.ctl(1, "leave", "--no-wait", "g")
    assert left.rc == 0 and "g is leaving its group" in left.out, left
    group.wait_round(0, 2)
    group.end(0, 2)


def test_any_host_can_drain_another_one(group):
    first = group.submit(0, 1, 2).wait_round(0, 1, 2)
    drained = group.ctl(1, "drain", "g", "node2")
    assert drained.rc == 0 and "node2 is leaving the group of g" in drained.out, drained
    assert_left(group, 2, "drained on request of user ", " on node1")
    second = group.wait_round(0, 1, after=first)
    assert {w.restarts for w in second.workers.values()} == {0}
    # It may come back, and be drained from the host that leads; and drain itself.
    group.daemons[2].call("Restart", job="g")
    third = group.wait_round(0, 1, 2, after=second)
    assert group.ctl(0, "drain", "g", "node2").rc == 0
    fourth = group.wait_round(0, 1, after=third)
    group.daemons[2].wait("g")
    group.daemons[2].call("Restart", job="g")
    group.wait_round(0, 1, 2, after=fourth)
    assert group.ctl(2, "drain", "g", "node2").rc == 0
    assert_left(group, 2, " on node2")
    group.end(0, 1)


def test_a_spare_can_be_drained(box):
    group = Daemons(box, 3, "2:2")
    group.submit(0, 1).wait_round(0, 1)
    group.submit(2)
    group.daemons[0].wait_event("g", "host-joined", count=3)
    assert group.ctl(1, "drain", "g", "node2").rc == 0
    assert_left(group, 2)
    assert len(group.rounds()) == 1
    group.end(0, 1)


def test_a_host_that_is_not_there_is_named_with_those_that_are(group):
    group.submit(0, 1, 2).wait_round(0, 1, 2)
    for i in (0, 1):
        with pytest.raises(VarlinkError) as refused:
            group.daemons[i].call("Drain", job="g", host="node7")
        assert refused.value.name == "NotFound" and refused.value.parameters["host"] == "node7"
        drained = group.ctl(i, "drain", "g", "node7")
        said, names = drained.err.strip().split(", which has ")
        assert drained.rc == 1 and said.endswith("no host node7 in the group"), drained
        assert sorted(names.split(", ")) == ["node0", "node1", "node2"]  # as they have joined
    assert len(group.rounds()) == 1
    group.end(0, 1, 2)


def test_the_host_that_leads_neither_leaves_nor_is_drained(group):
    group.submit(0, 1, 2).wait_round(0, 1, 2)
    drain = ["drain", "g", "node0"]
    for i, argv in [(0, ["leave", "g"]), (0, drain), (1, drain)]:
        refused = group.ctl(i, *argv)
        assert refused.rc == 1 and "node0 leads the group, which ends without it" in refused.err, refused
    assert len(group.rounds()) == 1
    group.end(0, 1, 2)


def test_a_host_that_waits_for_the_head_can_leave_but_drains_none(group):
    group.submit(1)
    group.daemons[1].wait_event("g", "state")
    drained = group.ctl(1, "drain", "g", "node2")
    assert drained.rc == 1 and "there is no link to the host that leads the group" in drained.err, drained
    assert group.ctl(1, "leave", "g").rc == 0
    assert_left(group, 1)


def test_a_job_of_one_host_has_no_group_to_leave(box, daemon):
    daemon.submit({"name": "one", "roles": [{"command": ["sleep", "60"]}]})
    for argv in (["leave", "one"], ["drain", "one", "x"]):
        refused = box.ctl(*argv)
        assert refused.rc == 1 and "one has one host (rendezvous.nodes)" in refused.err, refused
    assert box.ctl("drain", "one").rc == 2
    daemon.call("Stop", job="one")


def test_a_stop_that_the_head_does_not_carry_out_is_the_host_s_own_when_the_head_is_lost(box):
    group = HostsGroup(box, spec("hang", replicas=2, restart={"max": 0}, rendezvous={"lease": "2s"}))
    lead, other = group.daemon.daemons
    os.kill(lead.agent_pid(group.name), signal.SIGKILL)
    wait_for(lambda: "note" in other.status(group.name), box.dir, what="a broken link")
    other.call("Stop", job=group.name)
    ended = other.wait(group.name)
    assert ended["state"] == "stopped" and "stopped on request" in ended["verdict"]["message"], ended
