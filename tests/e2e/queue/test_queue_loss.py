# SPDX-License-Identifier: Apache-2.0
"""A parameter server is lost, and then more: others of them, its agent, elasticd. Whoever counts on the work
queue is told the right error with the right exit code, or goes on as if nothing had been."""

import os
import signal

import pytest

from harness import puppet
from queue_workers import Coordinator

NOBODY_LEFT = {"loss_grace": "1h", "exit_code": 77}


def job(ps=3, restarts=0, **queue):
    hang = puppet("hang")
    return {"roles": [{"name": "chief", "command": hang}, {"name": "worker", "command": hang},
                      {"name": "ps", "replicas": ps, "command": hang, "on_failure": "fail_queue"}],
            "queue": {**NOBODY_LEFT, **queue}, "restart": {"max": restarts}}


def outside(g):
    c = Coordinator(g.daemon.socket, g.name)
    g.open.append(c)
    return c


def kill_all(g, *names):
    """At the same time, as far as the agent can tell: it is stopped meanwhile. Returns their pids."""
    agent = g.daemon.agent_pid(g.name)
    pids = {n: g.task(n)["pid"] for n in names}
    os.kill(agent, signal.SIGSTOP)
    try:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
    finally:
        os.kill(agent, signal.SIGCONT)
    return pids


def servers(n=3):
    return [f"ps:{i}" for i in range(n)]


def ended(g, *names):
    return all(g.task(n)["state"] == "failed" for n in names)


def is_loss(e, *names):
    """It is a QueueFailed that says which of these was lost."""
    assert e.name == "QueueFailed" and e.code == "Unavailable", (e.name, e.parameters)
    assert e.parameters["exit_code"] == 77
    who = e.parameters["error"]["worker"]
    assert who in names and e.text == f"{who} was killed by SIGKILL"
    return who


def lost(daemon, g, n=1):
    daemon.wait_event(g.name, "queue-lost", count=n)


# --- several --------------------------------------------------------------------------------------------


def test_all_parameter_servers_are_lost_at_once(hands, daemon):
    g = hands(job())
    chief, c, w = g.hand("chief:0"), outside(g), g.hand("worker:0")
    tasks = chief.submit_many(["a", "b", "c"])
    item = w.work()
    chief.send("Join")
    kill_all(g, *servers())
    who = is_loss(chief.error(), *servers())
    assert w.refused("Finish", lease=item["lease"], value="late").name == "Aborted"
    for task in tasks:
        outcome = c.fetch(task)
        assert outcome["state"] == "cancelled" and who in outcome["error"]["message"]
    # That goes on for as long as they are lost, for everybody.
    for x in (chief, c, chief):
        is_loss(x.refused("Join"), *servers())
        is_loss(x.refused("Submit", payload="x"), *servers())
    g.until(lambda _: ended(g, *servers()))
    assert daemon.status(g.name)["state"] == "running"
    g.kill("chief:0")
    verdict = daemon.wait(g.run)["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("failed", 77)
    assert verdict["root_cause"]["role"] == "ps"


def test_everybody_is_lost_at_once(hands, daemon):
    g = hands(job())
    g.hand("chief:0").submit("a")
    kill_all(g, *servers(), "chief:0", "worker:0")
    verdict = daemon.wait(g.run)["verdict"]
    assert verdict["result"] == "failed"
    assert verdict["exit_status"] == (77 if verdict["root_cause"]["role"] == "ps" else 137)


def test_the_error_names_a_worker_that_is_still_lost(hands, daemon):
    g = hands(job(ps=2))
    chief, w = g.hand("chief:0"), g.hand("worker:0")
    old = kill_all(g, "ps:0", "ps:1")
    lost(daemon, g)
    g.until(lambda _: ended(g, "ps:0", "ps:1"))
    first = is_loss(chief.refused("Join"), "ps:0", "ps:1")
    other = {"ps:0": "ps:1", "ps:1": "ps:0"}[first]
    daemon.call("StartWorker", job=g.name, role="ps", index=int(first[-1]))
    g.again(first, old[first])
    is_loss(chief.refused("Submit", payload="x"), other)
    daemon.call("StartWorker", job=g.name, role="ps", index=int(other[-1]))
    g.again(other, old[other])
    task = chief.submit("a")
    w.finish(w.work(), "fine")
    assert chief.fetch(task)["value"] == "fine"
    # One that is lost after that is another loss.
    kill_all(g, first)
    lost(daemon, g, 2)
    is_loss(chief.refused("Join"), first)
    g.kill("chief:0")
    assert daemon.wait(g.run)["verdict"]["exit_status"] == 77


# --- the agent, and elasticd ----------------------------------------------------------------------------


def lose(g, daemon):
    """ps:0 is lost, and the group waits for the coordinators."""
    g.kill("ps:0")
    lost(daemon, g)
    g.until(lambda _: ended(g, "ps:0"))


def test_the_agent_is_killed_meanwhile_and_the_next_one_begins_anew(hands, daemon):
    g = hands(job(restarts=2))
    c = outside(g)
    g.hand("chief:0").submit("a")
    lose(g, daemon)
    is_loss(c.refused("Join"), "ps:0")
    os.kill(daemon.agent_pid(g.name), signal.SIGKILL)
    daemon.until_attempt(g.name, 1)
    task = outside(g).submit("b")
    w = g.hand("worker:0")
    w.finish(w.work(), "fine")
    assert outside(g).fetch(task)["value"] == "fine"
    assert outside(g).call("Join") == {}
    # And a loss there is as the first one.
    g.kill("ps:1")
    lost(daemon, g, 2)
    chief = g.hand("chief:0")
    is_loss(chief.refused("Join"), "ps:1")
    g.kill("chief:0")
    daemon.until_attempt(g.name, 2)


def test_the_agent_is_killed_meanwhile_and_there_is_no_next_one(hands, daemon):
    g = hands(job())
    c = outside(g)
    lose(g, daemon)
    is_loss(c.refused("Join"), "ps:0")
    os.kill(daemon.agent_pid(g.name), signal.SIGKILL)
    verdict = daemon.wait(g.run)["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("agent_lost", 125)
    for method, more in (("Submit", {"payload": "x"}), ("Join", {})):
        e = c.refused(method, **more)
        assert e.name == "Unavailable" and "it has ended" in e.message


@pytest.mark.parametrize("both", [False, True], ids=["agent", "agent-and-elasticd"])
def test_a_loss_that_nobody_was_told_of_outlives_the_agent_where_tasks_do(hands, daemon, both):
    g = hands(job(restarts=2, durable=True))
    c, w = outside(g), g.hand("worker:0")
    finished, left = c.submit_many(["a", "b"], queue="fit")
    w.finish(w.work(), "fine")
    next(outside(g).stream("Keep", queue="mine"))
    assert c.submit("c", queue="other") and c.submit("d", queue="mine")
    lose(g, daemon)
    is_loss(c.refused("Done", queue="other"), "ps:0")
    agent = daemon.agent_pid(g.name)
    if both:
        daemon.kill()
    os.kill(agent, signal.SIGKILL)
    if both:
        daemon.start()
    daemon.until_attempt(g.name, 1)
    c = outside(g)
    assert c.fetch(finished)["value"] == "fine"
    assert c.fetch(left)["state"] == "cancelled"
    is_loss(c.refused("Join", queue="fit"), "ps:0")
    for queue in ("fit", "other", "mine", "new"):
        assert c.call("Join", queue=queue) == {}
    # It is in the journal that it was told.
    os.kill(daemon.agent_pid(g.name), signal.SIGKILL)
    daemon.until_attempt(g.name, 2)
    assert outside(g).call("Join", queue="fit") == {}


def test_a_coordinator_after_a_restart_hears_of_the_loss_once(hands, daemon):
    g = hands(job(restarts=1, loss_grace="10ms"))
    mine = outside(g).submit("a", queue="mine")
    g.hand("chief:0").submit("a")
    outside(g).submit("a", queue="late")
    g.kill("ps:0")
    daemon.until_attempt(g.name, 1)
    # The next attempt's are as new; one who goes on from outside has lost something.
    chief, c = g.hand("chief:0"), outside(g)
    assert chief.submit("b") and chief.call("Done", timeout_ms=0)["done"] is False
    assert c.call("Done", timeout_ms=0)["done"] is False
    assert c.fetch(mine)["state"] == "cancelled"
    is_loss(c.refused("Submit", payload="x", queue="mine"), "ps:0")
    assert c.submit("x", queue="mine")
    is_loss(c.refused("Done", queue="late"), "ps:0")
    assert c.call("Done", queue="late")["done"] is True


def test_elasticd_is_killed_meanwhile_and_nobody_notices(hands, daemon):
    g = hands(job())
    chief = g.hand("chief:0")
    c = outside(g)
    c.submit("a")
    lose(g, daemon)
    daemon.restart()
    is_loss(outside(g).refused("Join"), "ps:0")
    is_loss(outside(g).refused("Submit", payload="b"), "ps:0")
    is_loss(chief.refused("Join"), "ps:0")
    assert daemon.status(g.name)["state"] == "running"
    g.kill("chief:0")
    verdict = daemon.wait(g.run)["verdict"]
    assert (verdict["result"], verdict["exit_status"]) == ("failed", 77)
    assert verdict["root_cause"]["role"] == "ps"


# --- nobody does the tasks ------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["agent", "elasticd"])
def test_tasks_that_nobody_takes_fail_whoever_was_killed_meanwhile(hands, daemon, who):
    g = hands(job(restarts=1, durable=True, recovery_timeout="2s"))
    task = outside(g).submit("a")
    if who == "agent":
        os.kill(daemon.agent_pid(g.name), signal.SIGKILL)
        daemon.until_attempt(g.name, 1)
    else:
        daemon.restart()
    c = outside(g)
    e = c.refused("Join")
    assert e.name == "QueueFailed" and e.code == "Unavailable" and "exit_code" not in e.parameters
    assert c.fetch(task)["state"] == "cancelled"
    # It is not the end of anything.
    w = g.hand("worker:0")
    w.send("Work")
    task = c.submit("b")
    w.finish(w.reply()["item"], "fine")
    assert c.fetch(task)["value"] == "fine" and c.call("Join") == {}
