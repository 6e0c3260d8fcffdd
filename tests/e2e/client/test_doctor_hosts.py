# SPDX-License-Identifier: Apache-2.0
"""elasticctl doctor on several hosts at once, which here are processes of one: they meet at the endpoint, or
through etcd, and try the ways between them."""

import os
import signal
import socket
import threading

import pytest

from doctors import Found, Stranger, doctor, doctors, doctors_with_leader
from harness import wait_for
from local_etcd import LocalEtcd
from several_hosts import free_port


def at(port, nodes, *more):
    return [f"--nnodes={nodes}", f"--rdzv-endpoint=127.0.0.1:{port}", *more]


def ranked(port, rank, *more):
    """port: of the master, which is not the one where they meet."""
    return ["--nnodes=3", "--master-addr=127.0.0.1", f"--master-port={port}", f"--node-rank={rank}", *more]


def test_hosts_meet_at_the_endpoint_and_try_the_ways_between_them(box):
    all_found = doctors(box, *[at(free_port(), 3)] * 3)
    for found in all_found:
        found.expect("meeting", "ok", "3 hosts")
        ways = found.all_of("host")
        assert len(ways) == 2, found.checks
        for way in ways:
            assert "there and back in" in way["found"] and " ms, it reaches this host," in way["found"], way
            assert "clocks" in way["found"] and way["state"] == "warning", way
            assert "same name" in way["found"], way  # all are this host


def test_hosts_that_do_not_come_are_a_problem_below_the_least_number(box):
    found = doctor(box, *at(free_port(), 2, "--timeout=300ms"))
    found.expect("meeting", "problem", "only 1 of 2 hosts came", "within 300ms")
    assert found.all_of("host") == []


def test_hosts_that_do_not_come_are_a_warning_above_it(box):
    found = doctor(box, *at(free_port(), "1:2", "--timeout=300ms"))
    found.expect("meeting", "warning", "only 1 of 2 hosts came")
    assert found.result.rc == 0


def test_the_shortest_timeout_decides(box):
    port = free_port()
    for found in doctors_with_leader(box, at(port, 3, "--timeout=1h"), at(port, 3, "--timeout=1s")):
        found.expect("meeting", "problem", "only 2 of 3 hosts came")


def test_missing_node_ranks_are_named(box):
    port = free_port()
    for found in doctors_with_leader(box, ranked(port, 0), ranked(port, 2, "--timeout=2s")):
        found.expect("meeting", "problem", "only 2 of 3 hosts came", "node ranks are missing: 1")


def test_a_node_rank_that_is_there_twice_is_refused(box):
    port = free_port()
    found = doctors_with_leader(box, ranked(port, 0), *[ranked(port, 1, "--timeout=2s")] * 2)
    texts = [f.of("meeting")["found"] for f in found]
    assert sum("--node-rank: 1 is that of" in text for text in texts) == 1, texts
    assert sum("missing: 2" in text for text in texts) == 2, texts


def test_hosts_cannot_meet_without_the_host_of_the_endpoint(box):
    found = doctor(box, *ranked(free_port(), 1, "--timeout=500ms"))
    found.expect("meeting", "problem", "has not met another one in 500ms", "Connection refused")


@pytest.mark.parametrize("other, text", [
    (dict(group="b"), '--rdzv-id: expected "a" as on'),
    (dict(group="a", nodes="3:3"), "--nnodes: expected 2:2 as on"),
])
def test_hosts_of_another_group_are_refused(box, other, text):
    port = free_port()
    program = box.ctl_start("doctor", "--json", *at(port, 2, "--rdzv-id=a", "--timeout=5s"))
    stranger = Stranger(port, **other)
    assert text in stranger.meet()
    stranger = Stranger(port, group="a")
    assert len(stranger.meet(ways={"rtt_us": 100, "offset_us": 0})) == 2
    Found(program.wait()).expect("meeting", "ok")


def test_another_program_at_the_endpoint_is_recognised(box):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def refuse():
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=refuse, daemon=True).start()
        found = doctor(box, *at(listener.getsockname()[1], 2, "--timeout=500ms"))
        listener.shutdown(socket.SHUT_RDWR)
    found.expect("meeting", "problem", 'no "elasticctl doctor" that answers there')


# --- ways, to a stranger that is a host --------------------------------------------------------------


def with_stranger(box, ways, **attributes):
    port = free_port()
    program = box.ctl_start("doctor", "--json", *at(port, 2))
    stranger = Stranger(port)
    for name, value in attributes.items():
        setattr(stranger, name, value)
    stranger.meet(ways=ways)
    return Found(program.wait())


GOOD = {"rtt_us": 100, "offset_us": 0}


def test_a_host_of_another_version_is_a_warning(box):
    found = with_stranger(box, GOOD)
    found.expect("host", "warning", "it has version 0.0.1", "same version", about="far")


def test_clocks_far_apart_are_a_warning(box):
    found = with_stranger(box, GOOD, clock_us=-7_000_000)
    found.expect("host", "warning", "its clock is", "s behind", "synchronise the clocks")


def test_a_way_that_is_closed_in_the_other_direction_is_a_problem(box):
    found = with_stranger(box, {"error": "no answer: a firewall, or no route"})
    found.expect("host", "problem", "it does not reach this host at 127.0.0.1:", "a firewall",
                 "let TCP through")


def test_a_host_that_does_not_report_is_a_warning(box):
    found = with_stranger(box, None)
    found.expect("host", "warning", "it has not said whether it reaches this host")
    assert found.result.seconds < 11, "the head waited for the report of a host that has gone"


def test_an_address_that_another_host_has_is_a_problem(box):
    found = with_stranger(box, GOOD, id="somebody else")
    found.expect("host", "problem", "that address is not unique")


def test_a_way_on_which_long_messages_are_lost_is_a_problem(box):
    found = with_stranger(box, GOOD, payload=False)
    found.expect("host", "problem", "32 KiB do not come back", "MTU")


# --- through etcd ----------------------------------------------------------------------------------


def through(etcd, nodes, *more):
    return [f"--nnodes={nodes}", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd.address}", "--rdzv-id=exp",
            *more]


def test_hosts_meet_through_etcd_and_leave_nothing_there(box):
    etcd = LocalEtcd(box)
    for found in doctors(box, *[through(etcd, 3)] * 3):
        found.expect("meeting", "ok", "3 hosts")
        assert len(found.all_of("host")) == 2
    assert etcd.keys() == []
    assert etcd.post("/v3/lease/leases").get("leases", []) == []


def test_the_head_keeps_its_lease_while_it_waits(box):
    etcd = LocalEtcd(box)
    first = box.ctl_start("doctor", "--json", *through(etcd, 2, "--timeout=1m"))
    wait_for(lambda: etcd.requests("LeaseKeepAlive") > 1, box.dir, what="keep-alives")
    for found in (doctor(box, *through(etcd, 2)), Found(first.wait())):
        found.expect("meeting", "ok", "2 hosts")


def test_hosts_outwait_the_lease_of_a_killed_head(box):
    etcd = LocalEtcd(box)
    first = box.ctl_start("doctor", *through(etcd, 2))
    wait_for(lambda: "/elasticd/exp/doctor" in etcd.keys(), box.dir, what="the first one to lead")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    for found in doctors(box, *[through(etcd, 2)] * 2):
        found.expect("meeting", "ok", "2 hosts")
