# SPDX-License-Identifier: Apache-2.0
"""rendezvous.master_ports: MASTER_PORT is one of the ports that a firewall lets through."""

import json
import socket

from harness import puppet, spec
from several_hosts import Group, free_ports, variables


def test_rank_0_s_host_takes_a_port_of_the_range_and_another_one_after_a_restart(box):
    first = free_ports(2)
    group = Group(box, "2")
    for _ in range(2):
        group.start(puppet(f"env:{box.path('env')}.%r.%a", f"barrier:{box.path('met')}.%a",
                           "if-attempt:0:{if-rank:3:exit:1}", "if-attempt:0:hang"),
                    restart={"max": 1, "backoff": "0"}, rendezvous={"master_ports": f"{first}-{first + 1}"})
    assert [r.rc for r in group.wait()] == [0, 0]
    ports = [[int(variables(box.path(f"env.{r}.{a}"))["MASTER_PORT"]) for r in range(4)] for a in (0, 1)]
    assert sorted({p for of in ports for p in of}) == [first, first + 1]
    assert [len(set(of)) for of in ports] == [1, 1]


def test_one_port_is_enough_for_all_attempts_of_one_host(box):
    first = free_ports(1)
    path = box.path("job.json")
    path.write_text(json.dumps(spec(f"env:{box.path('env')}.%a", "if-attempt:0:exit:1",
                                    restart={"max": 1, "backoff": "0"},
                                    rendezvous={"master_ports": f"{first}-{first}"})))
    assert box.run("--spec", path).rc == 0
    assert {variables(box.path(f"env.{a}"))["MASTER_PORT"] for a in (0, 1)} == {str(first)}


def test_ports_that_are_all_taken_are_named(box):
    group = Group(box, "2")
    with socket.socket() as s:
        s.bind(("", 0))
        s.listen()
        port = s.getsockname()[1]
        for _ in range(2):
            group.start(puppet("hang"), rendezvous={"master_ports": f"{port}-{port}", "join_timeout": "2s"})
        results = group.wait()
    text = f"rendezvous.master_ports: expected a free port of {port}-{port}: Address already in use"
    assert text in results[0].err and results[0].rc == results[1].rc != 0, results
