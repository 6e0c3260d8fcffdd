# SPDX-License-Identifier: Apache-2.0
"""The work queue of several hosts when workers and the group end: the tests of one host's,
and those of a worker whose loss fails the queue."""

import pathlib
import sys

import pytest

from harness import wait_for
from queue_workers import Coordinator
from shared_hosts import HostsToCome

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "queue"))
from test_queue_group import (  # noqa: E402,F401
    roles, test_ten_tasks_are_done_although_all_workers_were_killed,
    test_a_failure_is_told_while_another_worker_is_started_again,
    test_a_worker_stopped_by_a_person_counts_as_no_death_of_its_task,
    test_blamed_failures_are_absorbed_up_to_the_last,
    test_a_worker_that_does_not_beat_any_more_loses_its_task,
    test_a_worker_started_again_by_a_person_takes_tasks,
    test_a_restart_of_the_group_keeps_tasks_and_who_waits_for_them,
    test_a_task_of_the_group_is_not_kept_waiting_by_its_stop,
    test_a_worker_that_ignores_a_cancellation_is_killed_at_no_cost_to_the_budget,
    test_the_board_counts_what_was_cancelled,
    test_a_worker_of_a_cancelled_task_does_not_wait_for_it)


@pytest.fixture
def daemon(box):
    return HostsToCome(box)


@pytest.fixture
def hands(daemon):
    groups = []

    def make(document):
        groups.append(daemon.start(document))
        return groups[-1]

    yield make
    for g in groups:
        g.close()


def with_ps(**top):
    queue = dict({"exit_code": 77, "loss_grace": "1h"}, **top.pop("queue", {}))
    return roles(("chief", 2, {}), ("worker", 2, {}), ("ps", 2, {"on_failure": "fail_queue"}),
                 queue=queue, **top)


def test_the_loss_of_another_hosts_parameter_server_fails_the_queue(hands, daemon):
    g = hands(with_ps())
    chief, w = g.hand("chief:0"), g.hand("worker:1")
    running, queued = chief.submit("a"), chief.submit("b")
    item = w.work()
    g.kill("ps:1")
    daemon.wait_event(g.name, "queue-lost")
    assert chief.fetch(queued)["state"] == "cancelled"
    assert w.refused("Finish", lease=item["lease"], value="late").name == "Aborted"
    assert chief.fetch(running)["state"] == "cancelled"
    e = chief.refused("Submit", payload="c")
    assert e.name == "QueueFailed" and e.text == "ps:1 was killed by SIGKILL"
    # The group waits for chief:0 alone, which has got the error.
    g.kill("worker:1")
    daemon.wait_event(g.name, "worker-ended", count=2)
    assert daemon.status(g.name)["state"] == "running"
    g.kill("chief:0")
    verdicts = [d.wait(g.name)["verdict"] for d in daemon.daemons]
    assert [(v["result"], v["exit_status"]) for v in verdicts] == [("failed", 77)] * 2
    assert [v["root_cause"]["role"] for v in verdicts] == ["ps"] * 2


def test_after_a_grace_the_group_fails_of_another_hosts_parameter_server(hands, daemon):
    g = hands(with_ps(queue={"loss_grace": "10ms"}, restart={"max": 1, "backoff": "0"}))
    chief = g.hand("chief:0")
    chief.submit("a")
    g.kill("ps:1")
    daemon.until_attempt(g.name, 1)
    chief, w = g.hand("chief:0"), g.hand("worker:1")
    task = chief.submit("b")
    w.finish(w.work(), "fine")
    assert chief.fetch(task)["value"] == "fine"
    g.kill("ps:1")
    assert daemon.wait(g.name)["verdict"]["exit_status"] == 77


def test_a_person_asks_for_tasks_and_results_at_any_host(hands, daemon):
    g = hands(roles(("worker", 2, {})))
    a, b = g.hand("worker:0"), g.hand("worker:1")
    for i, d in enumerate(daemon.daemons):
        c = Coordinator(d.agent_sock(g.name))
        g.open.append(c)
        task = c.submit(f"from {i}")
        c.send("Fetch", task=task)
        item = b.work()
        assert item["payload"] == f"from {i}"
        b.finish(item, "done")
        assert c.reply()["outcome"]["value"] == "done"
        assert c.stats()["succeeded"] == 1 + i
        assert c.refused("Fetch", task=99).name == "NotFound"
        assert c.send("Stats", job="another").error().name == "NotFound"
    a.call("io.elasticd.Worker.Result", value="of a")
    b.call("io.elasticd.Worker.Result", value="of b")
    for d in daemon.daemons:
        kept = d.call("Results", job=g.name)["results"]
        assert [r.get("value") for r in kept] == ["of a", "of b"]
    r = daemon.daemons[1].ctl("task", "list", g.name)
    assert r.rc == 0 and "succeeded" in r.out, r


def test_a_caller_on_another_host_that_goes_ends_its_calls(hands, daemon):
    g = hands(roles(("worker", 2, {}), queue={"max": 1}))
    lead = g.coordinator()
    lead.submit("the only one that there is room for")
    with Coordinator(daemon.daemons[1].agent_sock(g.name)) as c:
        c.send("Submit", payload="late")
        wait_for(lambda: lead.stats()["waiting"] >= 1, what="the caller on the other host")
    wait_for(lambda: lead.stats()["waiting"] == 0, what="the end of its calls")
