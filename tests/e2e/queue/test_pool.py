# SPDX-License-Identifier: Apache-2.0
"""Pools: processes that stay and answer calls, by raw varlink."""

import json
import os

import pytest

from harness import alive, puppet, wait_gone
from queue_workers import Coordinator, script, server


def pool(n, **top):
    role = {"replicas": n, "command": server(), **top.pop("role", {})}
    return {"mode": "pool", "roles": [role], **top}


def call(c, payload, **more):
    """Answers of all, in order: (worker, what it said, or its error)."""
    found = []
    for a in c.call("Call", payload=payload, **more)["answers"]:
        found.append((a["worker"], a["error"] if a.get("error") else json.loads(a["value"])))
    return found


def pids(answers):
    return [said["pid"] for _, said in answers]


def test_processes_stay_from_call_to_call(hands):
    g = hands(pool(3))
    c = g.coordinator()
    # Asked before they are up: a call waits for all of them.
    first = call(c, "pid")
    assert [w for w, _ in first] == ["worker:0", "worker:1", "worker:2"]
    assert [said["done"] for _, said in first] == [1, 1, 1]
    for n in range(3):
        again = call(c, "pid")
        assert pids(again) == pids(first)
        assert [said["done"] for _, said in again] == [n + 2] * 3
    failed = call(c, "fail on purpose")
    assert [(w, e["code"], e["message"]) for w, e in failed] == [
        (f"worker:{n}", "Internal", "on purpose") for n in range(3)]
    assert pids(call(c, "pid")) == pids(first)


def test_the_first_call_finds_what_init_has_left(hands):
    g = hands(pool(2, role={"init": "begin with this"}))
    c = g.coordinator()
    assert [said["init"] for _, said in call(c, "pid")] == ["begin with this"] * 2
    assert [said["done"] for _, said in call(c, "pid")] == [3, 3]


def test_a_process_whose_init_fails_has_failed(hands, daemon):
    g = hands(pool(1, role={"init": "fail there is no device"}))
    verdict = daemon.wait(g.run)["verdict"]
    assert verdict["result"] == "failed"
    assert "there is no device" in verdict["message"]
    assert verdict["root_cause"]["role"] == "worker"


def test_a_worker_killed_between_calls_breaks_the_pool(hands, daemon):
    g = hands(pool(2, restart={"max": 1}))
    c = g.coordinator()
    first = call(c, "pid")
    os.kill(pids(first)[1], 9)
    wait_gone(pids(first)[1])
    daemon.until_attempt(g.name, 1)
    # With the next attempt it is whole.
    again = call(c, "pid")
    assert not set(pids(again)) & set(pids(first))
    assert [said["done"] for _, said in again] == [1, 1]


def test_a_pool_is_broken_until_it_was_started_again(box, hands, daemon):
    g = hands(pool(2, restart={"max": 1, "backoff": "1h"}))
    c = g.coordinator()
    dead = pids(call(c, "pid"))[1]
    os.kill(dead, 9)
    daemon.watch(g.name, lambda job, _: job["state"] == "backoff")
    e = c.refused("Call", payload="pid")
    assert e.name == "Unavailable" and e.message == "the pool is broken: worker:1 was killed by SIGKILL"
    result = box.ctl("call", g.name, "pid")
    assert result.rc == 1 and "the pool is broken: worker:1 was killed by SIGKILL" in result.err, result


def test_a_worker_that_dies_of_a_call_is_its_answer_and_ends_the_pool(hands, daemon):
    g = hands(pool(2, restart={"max": 1}))
    c = g.coordinator()
    first = call(c, "pid")
    answers = call(c, "die")
    assert [w for w, _ in answers] == ["worker:0", "worker:1"]
    assert all(error["code"] == "Unavailable" for _, error in answers)
    # The death of the first one ends the group: the other one may be stopped before it has died.
    assert any(f"{worker} was killed by SIGKILL" in error["message"] for worker, error in answers)
    assert all(error["message"].startswith(f"{worker} ") for worker, error in answers)
    daemon.until_attempt(g.name, 1)
    assert not set(pids(call(c, "pid"))) & set(pids(first))


def test_a_call_to_a_worker_that_is_not_there_says_so(box, hands):
    g = hands(pool(2))
    result = box.ctl("call", "--workers=worker:0,worker:9", g.name, "pid")
    assert result.rc == 1 and "there is no worker worker:9\n" in result.err, result


def test_a_pool_that_is_not_started_again_says_so(hands, daemon):
    g = hands(pool(2))
    c = g.coordinator()
    first = call(c, "pid")
    c.send("Call", payload="die", workers=["worker:1"])
    answers = c.reply()["answers"]
    assert len(answers) == 1 and "worker:1 was killed by SIGKILL" in answers[0]["error"]["message"]
    job = daemon.wait(g.run)
    assert job["verdict"]["result"] == "failed" and job["verdict"]["exit_status"] == 137
    for pid in pids(first):
        assert not alive(pid)


def test_one_of_scope_task_is_a_member_again_when_it_is_back(hands, daemon):
    g = hands(pool(2, restart={"scope": "worker", "max": 3}))
    c = g.coordinator()
    first = call(c, "pid")
    old = pids(first)[0]
    os.kill(old, 9)
    g.again("worker:0", old)
    again = call(c, "pid")
    assert pids(again)[1] == pids(first)[1]
    assert pids(again)[0] != old
    assert daemon.status(g.name)["attempt"] == 0


def test_tasks_and_calls_go_to_the_same_workers(hands):
    g = hands(pool(2))
    c = g.coordinator()
    members = set(pids(call(c, "pid")))
    tasks = c.submit_many([f"echo {n}" for n in range(10)])
    outcomes = [json.loads(o["value"]) for o in c.fetch_all(tasks)]
    assert [o["echo"] for o in outcomes] == [str(n) for n in range(10)]
    assert {o["pid"] for o in outcomes} <= members


def test_a_pool_outlives_elasticd(hands, daemon):
    g = hands(pool(2))
    with Coordinator(daemon.socket, g.name) as c:
        first = call(c, "pid")
    daemon.restart()
    with Coordinator(daemon.socket, g.name) as c:
        assert pids(call(c, "pid")) == pids(first)


CHIEF = ("from queue_workers import *\nh = my_hand()\n"
         "for _ in range(2):\n"
         "    print(*[a['worker'] for a in h.call('Call', payload='pid')['answers']])\n")


@pytest.mark.parametrize("leader", [True, False])
def test_one_task_of_the_job_calls_all_others(daemon, leader):
    chief = script(CHIEF + ("" if leader else "h.call('Close')\n"))
    job = daemon.run({
        "mode": "pool", "logs": {"redirects": 3}, **({"leader": {"grace": 0}} if leader else {}), "roles": [
        {"name": "chief", "command": chief, "leader": leader},
        {"command": server(), "replicas": 2}]})
    assert job["verdict"]["result"] == "succeeded", job
    assert daemon.log(job, 0, 0).read_text().splitlines() == ["worker:0 worker:1"] * 2


def test_the_caller_of_all_is_called_when_it_asks_for_work(hands):
    g = hands({"mode": "pool", "roles": [{"replicas": 2, "command": puppet("hang")}]})
    one, other, c = g.hand("worker:0"), g.hand("worker:1"), g.coordinator()
    one.send("Call", payload="first")
    other.finish(other.work(), "answer")
    assert [a["worker"] for a in one.reply()["answers"]] == ["worker:1"]
    # A call counts on those that have asked.
    more = g.hand("worker:0")
    more.send("Work")
    while c.stats()["workers"] < 2:
        pass
    c.send("Call", payload="second")
    other.finish(other.work(), "answer")
    more.finish(more.reply()["item"], "answer")
    assert [a["worker"] for a in c.reply()["answers"]] == ["worker:0", "worker:1"]


def test_one_of_the_pool_that_has_left_is_not_missed_for_good(hands):
    leaves = script("from queue_workers import *\nh = my_hand()\nh.call('Call', payload='pid')\n")
    g = hands({"mode": "pool", "restart": {"scope": "worker", "max": 3}, "roles": [
        {"name": "first", "command": leaves}, {"replicas": 2, "command": server()}]})
    g.until(lambda job: job["workers"][0]["state"] == "succeeded")
    c = g.coordinator()
    assert [w for w, _ in call(c, "pid")] == ["worker:0", "worker:1"]
    g.again("worker:0", g.kill("worker:0"))
    assert [w for w, _ in call(c, "pid")] == ["worker:0", "worker:1"]
