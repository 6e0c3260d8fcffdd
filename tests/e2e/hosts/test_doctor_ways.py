# SPDX-License-Identifier: Apache-2.0
"""elasticctl doctor on hosts of a network: it finds ways that are closed in one direction, or too narrow for
full frames, and names the hosts that do not come."""

import pytest

from doctors import doctors
from net import make_net

COUNT = 3


@pytest.fixture
def net(box):
    return make_net(box, COUNT)


def lines(net, *more, count=COUNT):
    return [[f"--nnodes={COUNT}", f"--rdzv-endpoint={net.address(0)}:29400", *more]] * count


def test_all_ways_are_found_good(box, net):
    for i, found in enumerate(doctors(box, *lines(net), within=net.nodes)):
        found.expect("endpoint", "ok", net.address(0))
        found.expect("address", "ok", net.address(i))
        found.expect("meeting", "ok", "3 hosts, which node0 has let meet")
        for j in net.others(i):
            found.expect("host", "ok", net.address(j), "there and back in", about=f"node{j}")


def test_a_way_that_is_cut_in_one_direction_is_named_on_both_hosts(box, net):
    """Neither hears of it: an answer to a connection that node1 makes to node2 is lost."""
    net.cut_way(2, 1)
    net.cut_way(1, 2)
    found = doctors(box, *lines(net), within=net.nodes)
    for i, j in ((1, 2), (2, 1)):
        found[i].expect("host", "problem", "does not reach it", "no answer", "let TCP through",
                        about=f"node{j}")
        found[i].expect("host", "problem", "it does not reach this host", about=f"node{j}")
        found[i].expect("host", "ok", about="node0")
    assert found[0].all["problems"] == 0


def test_a_link_with_a_smaller_mtu_than_its_ends_is_found(box, net):
    net.switch.ip("link", "set", "port2", "mtu", "700")
    for node in net.nodes:  # else the kernel hands on what a real card would cut into frames
        node.ip("link", "set", "eth0", "gso_max_segs", "1")
    found = doctors(box, *lines(net), within=net.nodes)
    found[0].expect("host", "problem", "32 KiB do not come back", "MTU", about="node2")
    found[0].expect("host", "ok", about="node1")
    assert found[2].all["problems"] == 2


def test_a_host_that_is_cut_off_does_not_come(box, net):
    net.unplug(2)
    found = doctors(box, *lines(net, "--timeout=2s"), within=net.nodes)
    for i in (0, 1):
        found[i].expect("meeting", "problem", "only 2 of 3 hosts came: node", "on the others within 2s")
    found[2].expect("meeting", "problem", "has not met another one in 2s")


def test_an_endpoint_that_no_route_leads_to_is_a_problem(box, net):
    line = [f"--nnodes={COUNT}", "--rdzv-endpoint=192.0.2.1", "--timeout=1s"]
    found = doctors(box, line, within=net.nodes)[0]
    found.expect("address", "problem", "192.0.2.1:29400", "--local-addr")
    assert found.all_of("meeting") == []
