# SPDX-License-Identifier: Apache-2.0
"""queue.durable: what was accepted, and what came of it, is there again after the agent was lost; and an
elasticd that dies takes nothing with it, durable or not. Each test that kills keeps a ledger."""

import json
import os
import signal
import threading

import pytest

from harness import spec, wait_for
from processes import wait_gone
from queue_workers import Coordinator, Hands, QueueError, server

JOURNAL = "queue.journal"


def durable_job(replicas=0, max_restarts=20, **queue):
    command = server() if replicas else spec("hang")["roles"][0]["command"]
    role = {"replicas": replicas or 1, "command": command}
    return {"name": "durable", "roles": [role], "restart": {"max": max_restarts},
            "queue": {"durable": True, **queue}}


@pytest.fixture
def job(daemon):
    """A durable job whose one worker a test can be."""
    group = Hands(daemon, durable_job())
    yield group
    group.close()


def at_control(group):
    c = Coordinator(group.daemon.socket, group.name)
    group.open.append(c)
    return c


def kill_agent(group):
    """kill -9, and the next one of the run serves."""
    old = group.daemon.agent_pid(group.name)
    os.kill(old, signal.SIGKILL)
    group.daemon.watch(group.name, lambda j, _: j["state"] == "running" and j["agent_pid"] != old)


def journal_of(group):
    return group.daemon.record(group.run) / JOURNAL


# --- one of each -----------------------------------------------------------------------------------------


def test_the_next_agent_has_tasks_and_results(job):
    c, w = at_control(job), job.hand("worker:0")
    tasks = c.submit_many(["a", "b", "c", "d"], queue="fit")
    w.finish(w.work(), "A", format="json")
    assert w.work()["payload"] == "b"  # is lost with the agent
    c.call("CreateResource", name="table", payload="rows")
    needs = c.submit("e", queue="fit", resources=["table"])
    kill_agent(job)
    c = at_control(job)
    first = c.fetch(tasks[0])
    assert (first["state"], first["value"], first["format"], first["worker"]) == \
        ("succeeded", "A", "json", "worker:0")
    assert {t["task"]: t["state"] for t in c.call("List", queue="fit")["tasks"]} == \
        {tasks[0]: "succeeded", **{t: "queued" for t in [*tasks[1:], needs]}}
    assert c.call("Resources")["resources"][0]["name"] == "table"
    w = job.hand("worker:0")
    item = w.work()
    assert (item["kind"], item["name"], item["payload"]) == ("build", "table", "rows")
    w.finish(item)
    done = {}
    for _ in range(4):
        item = w.work()
        done[item["task"]] = item["payload"]
        w.finish(item, item["payload"].upper())
    assert done == {tasks[1]: "b", tasks[2]: "c", tasks[3]: "d", needs: "e"}
    assert [o["value"] for o in c.fetch_all(tasks)] == ["A", "B", "C", "D"]
    assert c.submit("f") > needs, "a number was given twice"
    assert any(e["event"] == "journal-read" for e in job.daemon.events(job.name))


def test_released_and_cancelled_tasks_stay_so(job):
    c, w = at_control(job), job.hand("worker:0")
    kept, released, cancelled, failed = c.submit_many(list("krcf"))[:4]
    for _ in range(2):
        item = w.work()
        w.finish(item, item["payload"])
    assert c.call("Release", tasks=[released])["released"] == 1
    assert c.call("Cancel", tasks=[cancelled], reason="not wanted")["cancelled"] == 1
    w.fail(w.work(), "no luck", code="OutOfRange")
    kill_agent(job)
    c = at_control(job)
    assert c.fetch(kept)["value"] == "k"
    assert c.refused("Fetch", task=released).name == "NotFound"
    outcome = c.fetch(cancelled)
    assert (outcome["state"], outcome["error"]["message"]) == ("cancelled", "not wanted")
    error = c.fetch(failed)["error"]
    assert (error["code"], error["message"], error["worker"], error["task"]) == \
        ("OutOfRange", "no luck", "worker:0", failed)
    # The queue's error was not told yet: it is now, once.
    e = c.refused("Join")
    assert (e.name, e.code, e.text) == ("QueueFailed", "OutOfRange", "no luck")
    assert c.call("Join") == {}
    kill_agent(job)
    assert at_control(job).call("Join") == {}


def test_a_queue_that_gets_a_keeper_late_holds_up_nobody(job):
    """What it had is to be in the journal no more; that it is written anew is nobody else's business."""
    c = at_control(job)
    for i in range(5):
        c.submit("mine", queue=f"mine.{i}")
        next(at_control(job).stream("Keep", queue=f"mine.{i}"))
        assert c.submit("other", queue="other")


@pytest.mark.parametrize("both", [False, True], ids=["agent", "agent-and-elasticd"])
def test_tasks_from_before_the_keeper_go_with_the_agent(job, both):
    """Long before the disk has a journal that was written anew."""
    daemon, c = job.daemon, at_control(job)
    c.submit_many(["a", "b"], queue="mine")
    kept = c.submit("c", queue="other")
    agent = daemon.agent_pid(job.name)
    next(at_control(job).stream("Keep", queue="mine"))
    if both:
        daemon.kill()
    os.kill(agent, signal.SIGKILL)
    if both:
        daemon.start()
    daemon.until_attempt(job.name, 1)
    c = at_control(job)
    assert [t["task"] for t in c.call("List")["tasks"]] == [kept]
    assert c.call("Join", queue="mine") == {}


def test_closed_queues_stay_closed(job):
    c = at_control(job)
    c.call("Close")
    kill_agent(job)
    assert at_control(job).refused("Submit", payload="x").name == "FailedPrecondition"


def test_without_it_a_task_is_of_an_agent_that_was_lost(daemon):
    group = Hands(daemon, durable_job(durable=False))
    c = at_control(group)
    task = c.submit("x")
    kill_agent(group)
    c = at_control(group)
    e = c.refused("Fetch", task=task)
    assert e.name == "NotFound" and "lost" in e.message
    assert c.submit("y") > task
    assert not journal_of(group).exists()
    group.close()


def test_a_new_run_begins_empty_and_an_end_leaves_no_journal(daemon):
    group = Hands(daemon, durable_job())
    at_control(group).submit("x")
    assert journal_of(group).stat().st_size > 0
    daemon.call("Stop", job=group.name)
    daemon.wait(group.run)
    wait_for(lambda: not journal_of(group).exists(), journal_of(group).parent)
    run = daemon.call("Restart", job=group.name)["run"]
    assert run != group.run
    daemon.wait(run, until="running")
    assert at_control(group).stats()["queued"] == 0
    group.close()


def test_a_coordinator_that_was_killed_finds_its_tasks_by_the_name_of_their_queue(daemon):
    group = Hands(daemon, durable_job(replicas=2))
    dead = Coordinator(daemon.socket, group.name)
    tasks = dead.submit_many([f"do {i}" for i in range(20)], queue="search")
    dead.close()
    kill_agent(group)
    c = at_control(group)
    assert c.call("Join", queue="search") == {}
    found = c.call("List", queue="search")["tasks"]
    assert [t["task"] for t in found] == tasks
    assert [json.loads(o["value"])["echo"] for o in c.fetch_all(tasks)] == [str(i) for i in range(20)]
    group.close()


# --- a journal that was hurt -----------------------------------------------------------------------------


def hurt(group, change):
    """Kills the agent, and has the next one find a journal that was changed."""
    daemon = group.daemon
    daemon.kill()
    agent = int(json.loads((daemon.record(group.run) / "state.json").read_text())["job"]["agent_pid"])
    os.kill(agent, signal.SIGKILL)
    wait_gone(agent)
    path = journal_of(group)
    data = bytearray(path.read_bytes())
    path.write_bytes(change(data))
    daemon.start()
    daemon.watch(group.name, lambda j, _: j["state"] == "running" and j["agent_pid"] != agent)


def flip(data, at):
    data[at] ^= 1
    return data


@pytest.mark.parametrize("change, left, event", [
    (lambda d: d[:-3], 9, "journal-cut"),
    (lambda d: flip(d, len(d) // 2), 9, "journal-broken"),
    (lambda d: flip(d, 2), 0, "journal-broken"),
    (lambda d: b"", 0, None),
], ids=["cut", "broken", "another", "empty"])
def test_a_hurt_journal_is_read_as_far_as_it_goes_and_that_is_said(job, change, left, event):
    c = at_control(job)
    for i in range(10):
        c.submit(f"task {i} " + "x" * 50)
    hurt(job, change)
    c = at_control(job)
    assert c.stats()["queued"] == left
    names = [e["event"] for e in job.daemon.events(job.name)]
    assert event is None or event in names, names
    assert (journal_of(job).parent / (JOURNAL + ".broken")).exists() == (event == "journal-broken")
    # ... and goes on from there.
    c.submit("new")
    kill_agent(job)
    assert at_control(job).stats()["queued"] == left + 1


# --- under load ------------------------------------------------------------------------------------------


class Ledger(threading.Thread):
    """A coordinator that goes on whatever happens, and writes down what it was promised. A submission
    whose answer did not come may have been accepted or not: its payload may be done, or never."""

    def __init__(self, group, name, n):
        super().__init__()
        self.group, self.queue, self.n = group, name, n
        self.accepted, self.unsure, self.fetched, self.problem = {}, set(), {}, None
        self.half = threading.Event()

    def run(self):
        try:
            self.submit_all()
        except Exception as e:  # told by the test
            self.problem = repr(e)
        self.half.set()

    def submit_all(self):
        c, i = None, 0
        while i < self.n:
            try:
                c = c or Coordinator(self.group.daemon.socket, self.group.name)
                self.accepted[c.submit(f"do {self.queue}.{i}", queue=self.queue)] = f"{self.queue}.{i}"
            except (OSError, QueueError) as e:
                if isinstance(e, QueueError) and e.name != "Unavailable":
                    raise
                self.unsure.add(f"{self.queue}.{i}")
                c = c and c.close()
                continue
            i += 1
            if i == self.n // 2:
                self.half.set()

    def settle(self):
        """All that was accepted is over, and was done at least once."""
        assert self.problem is None, self.problem
        c = at_control(self.group)
        assert c.call("Join", queue=self.queue) == {}
        listed = {t["task"]: t["state"] for t in c.call("List", queue=self.queue, limit=10000)["tasks"]}
        assert set(self.accepted) <= set(listed), "an accepted task is gone"
        assert set(listed.values()) == {"succeeded"}
        echoes = {t: json.loads(c.fetch(t)["value"])["echo"] for t in listed}
        assert {t: echoes[t] for t in self.accepted} == self.accepted
        assert {e for t, e in echoes.items() if t not in self.accepted} <= self.unsure


# One that loses its agent more often within a short time is given up.
def test_each_task_is_accounted_for_when_agents_are_killed_under_load(daemon):
    group = Hands(daemon, durable_job(replicas=3))
    ledgers = [Ledger(group, name, 150) for name in ("a", "b", "c")]
    for x in ledgers:
        x.start()
    kill_agent(group)
    for x in ledgers:
        x.half.wait()
    kill_agent(group)
    for x in ledgers:
        x.join()
    for x in ledgers:
        x.settle()
    group.close()


@pytest.mark.parametrize("durable", [False, True])
def test_an_elasticd_that_is_killed_takes_nothing_with_it(daemon, durable):
    group = Hands(daemon, durable_job(replicas=3, durable=durable))
    ledgers = [Ledger(group, name, 100) for name in ("a", "b")]
    for x in ledgers:
        x.start()
    daemon.restart()
    for x in ledgers:
        x.half.wait()
    daemon.restart()
    for x in ledgers:
        x.join()
    daemon.restart()
    for x in ledgers:
        x.settle()
    assert daemon.status(group.name)["attempt"] == 0
    group.close()
