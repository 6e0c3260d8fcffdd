# SPDX-License-Identifier: Apache-2.0
"""rendezvous.topology and rendezvous.segment: which hosts stand beside each other, and which wait."""

from etcd_group import EtcdGroup
from group import Group
from test_leave import Daemons


def order(round_):
    """The hosts by rank."""
    return sorted(round_.workers, key=lambda host: round_.workers[host].rank)


def test_ranks_follow_topologies_and_a_neighbour_takes_the_seat_of_a_lost_host(box):
    group = Group(box, 6, "2:4", last_call="60s")
    for host, topology in enumerate(["pod2/r1", "pod1/r2", "pod2/r1", "pod1/r1"]):
        group.start(host, topology=topology)
    first = group.wait_round(0, 1, 2, 3)
    assert order(first) == [3, 1, 0, 2]
    group.start(4, topology="pod2/r9").start(5, topology="pod1/r2")
    for host in (4, 5):
        group.wait_event(f"host node{host} has joined")
    group.kill_agent(1)
    second = group.wait_round(0, 2, 3, 5, after=first)
    assert order(second) == [3, 5, 0, 2]
    group.stop()


def test_hosts_that_fill_no_block_are_spares(box):
    group = Group(box, 5, "2:4", segment=2)
    for host, topology in enumerate(["p1/a", "p2/a", "p2/b", "p3/a"]):
        group.start(host, topology=topology)
    first = group.wait_round(1, 2)
    assert order(first) == [1, 2]
    group.wait_event("host node3 has joined")
    group.start(4, topology="p1/b")
    second = group.wait_round(0, 1, 2, 4, after=first)
    assert order(second) == [1, 2, 0, 4]
    group.stop()


def test_etcd_has_where_the_hosts_of_a_round_stand_for_the_next_head(box):
    group = EtcdGroup(box, 3, "2", last_call="60s")
    group.start(0, topology="p1/a")
    group.wait_leads(0)
    first = group.start(1, topology="p2/a").wait_round(0, 1)
    assert {h["name"]: h["topology"] for h in group.etcd.keys()["state"]["hosts"]} == {
        "node0": "p1/a", "node1": "p2/a"}
    group.kill_agent(0)
    second = group.start(2, topology="p1/b").wait_round(1, 2, after=first)
    assert order(second) == [2, 1]
    assert all(result.rc == 0 for result in group.succeed(second)[1:])


def test_a_host_has_the_topology_of_its_elasticd(box):
    places = ["pod2/b", "pod1/a"]
    group = Daemons(box, 2, 2, config=[f"[host]\ntopology = {place}\n" for place in places])
    round_ = group.submit(0, 1).wait_round(0, 1)
    assert order(round_) == [1, 0]
    hosts = {h["host"]: h.get("topology") for h in group.daemons[0].status("g")["hosts"]}
    assert hosts == {"node0": "pod2/b", "node1": "pod1/a"}
    group.end(0, 1)
