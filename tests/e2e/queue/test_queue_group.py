# SPDX-License-Identifier: Apache-2.0
"""What happens to the work queue when workers, the group, its agent or elasticd end, by raw varlink."""

import os
import pathlib
import signal
import struct

import pytest

from harness import puppet, wait_file, wait_gone
from queue_workers import Coordinator, QueueError, script, server

BOARD_HEADER, BOARD_SLOT, BOARD_CANCELS = 4096, 128, 64 + 8


def roles(*rows, **top):
    """(name, replicas, more keys): roles of puppets that hang."""
    hang = puppet("hang")
    return {"roles": [{"name": n, "replicas": k, "command": hang, **more} for n, k, more in rows],
            **top}


def workers(n, **top):
    return roles(("worker", n, {}), **top)


TASK_SCOPE = {"scope": "worker", "max": 20}


def deaf(box):
    """The command of a worker that is not ended by SIGTERM, once heeds_nothing() has seen it."""
    return puppet("ignore:TERM", f"touch:{box.path('deaf')}.%r.%a", "hang")


def heeds_nothing(box, *ranks):
    for rank in ranks:
        wait_file(box.path(f"deaf.{rank}.0"))


def events_named(daemon, run, name):
    return [e for e in daemon.events(run) if e["event"] == name]


# --- workers that die -----------------------------------------------------------------------------


def test_ten_tasks_are_done_although_all_workers_were_killed(hands):
    g = hands(workers(2, restart=TASK_SCOPE))
    c = g.coordinator()
    tasks = c.submit_many([str(n) for n in range(10)])
    a, b = g.hand("worker:0"), g.hand("worker:1")
    assert [a.work()["task"], b.work()["task"]] == tasks[:2]
    # The test's connections stay: that the processes are gone is enough.
    old = [g.kill("worker:0"), g.kill("worker:1")]
    a, b = g.again("worker:0", old[0]), g.again("worker:1", old[1])
    for n in range(5):
        for hand in (a, b):
            item = hand.work()
            assert item["tries"] == (1 if item["task"] in tasks[:2] else 0)
            hand.finish(item, item["payload"] * 2)
    c.call("Join")
    outcomes = c.fetch_all(tasks)
    assert [o["value"] for o in outcomes] == [str(n) * 2 for n in range(10)]
    assert [o["tries"] for o in outcomes] == [2, 2] + [1] * 8
    assert c.stats()["put_back"] == 2


def test_a_worker_that_is_killed_twice_in_a_row_goes_on(hands):
    g = hands(workers(1, restart=TASK_SCOPE))
    c = g.coordinator()
    task = c.submit("x")
    for n in range(2):
        item = (g.hand("worker:0") if n == 0 else hand).work()
        assert (item["task"], item["tries"], item["start"]) == (task, n, n)
        hand = g.again("worker:0", g.kill("worker:0"))
    hand.finish(hand.work(), "done")
    assert c.fetch(task)["value"] == "done"
    assert c.fetch(task)["tries"] == 3


def test_a_failure_is_told_while_another_worker_is_started_again(hands):
    g = hands(workers(2, restart=TASK_SCOPE))
    c = g.coordinator()
    first, second = c.submit("a"), c.submit("b")
    a, b = g.hand("worker:0"), g.hand("worker:1")
    held, failing = a.work(), b.work()
    old = g.kill("worker:0")
    b.fail(failing, "no such file", code="NotFound", details="a traceback")
    e = c.refused("Join")
    assert e.name == "QueueFailed" and e.code == "NotFound" and e.text == "no such file"
    assert e.parameters["error"]["task"] == second
    assert e.parameters["error"]["worker"] == "worker:1"
    assert c.fetch(first)["state"] == "cancelled"
    assert held["task"] == first
    # That is all: the queue is as new, and the other one is back.
    third = c.submit("c")
    a = g.again("worker:0", old)
    a.finish(a.work(), "fine")
    assert c.fetch(third)["value"] == "fine"
    c.call("Join")


def test_results_stored_before_a_kill_are_there(hands):
    g = hands(workers(1, restart=TASK_SCOPE))
    c = g.coordinator()
    before, after = c.submit("before"), c.submit("after")
    a = g.hand("worker:0")
    item = a.work()
    a.finish(item, "1")
    assert c.fetch(before)["value"] == "1"
    item = a.work()
    # Sent, and not waited for: what was written before the end counts.
    a.send("Finish", lease=item["lease"], value="2")
    g.kill("worker:0")
    for task, value in ((before, "1"), (after, "2")):
        assert c.fetch(task)["value"] == value
        assert c.fetch(task)["tries"] == 1


def test_a_task_with_which_workers_die_fails_after_so_many(hands, daemon):
    g = hands(workers(1, restart=TASK_SCOPE, queue={"deaths": 2}))
    c = g.coordinator()
    task = c.submit("x")
    g.hand("worker:0").work()
    hand = g.again("worker:0", g.kill("worker:0"))
    hand.work()
    g.kill("worker:0")
    outcome = c.fetch(task)
    assert outcome["state"] == "failed"
    assert outcome["error"]["code"] == "Aborted"
    assert "worker:0" in outcome["error"]["message"]
    assert c.refused("Join").code == "Aborted"


def test_a_worker_stopped_by_a_person_counts_as_no_death_of_its_task(hands, daemon):
    g = hands(workers(2, restart=TASK_SCOPE, queue={"deaths": 1}))
    c = g.coordinator()
    task = c.submit("x")
    assert g.hand("worker:0").work()["task"] == task
    daemon.call("StopWorkers", job=g.name, workers="worker:0")
    b = g.hand("worker:1")
    b.finish(b.work(), "fine")
    assert c.fetch(task)["value"] == "fine"


def test_blamed_failures_are_absorbed_up_to_the_last(hands):
    g = hands(workers(2, queue={"blame_limit": 3}))
    c = g.coordinator()
    task = c.submit("x")
    a, b = g.hand("worker:0"), g.hand("worker:1")
    for hand in (a, b, a):
        # Of two, each may get it: the one whose turn it is asks alone.
        item = hand.work()
        assert item["task"] == task
        hand.fail(item, "ps:0 is away", code="Unavailable", retryable=True, blame="ps:0")
    e = c.refused("Join")
    assert e.code == "Unavailable" and "ps:0 is away" in e.text
    assert c.fetch(task)["state"] == "failed"


def test_a_worker_that_does_not_beat_any_more_loses_its_task(hands, daemon):
    g = hands(workers(2, restart=TASK_SCOPE, heartbeat={"period": "50ms", "failures": 1}))
    c = g.coordinator()
    task = c.submit("x")
    assert g.hand("worker:0").work()["task"] == task
    # One beat, and none after it; who has never beaten is not looked at.
    env = g.environment("worker:0")
    with open(env["ELASTICD_BOARD"], "r+b") as f:
        at = BOARD_HEADER + int(env["ELASTICD_SLOT"]) * BOARD_SLOT
        os.pwrite(f.fileno(), struct.pack("=Q", 1), at + 8)
        os.pwrite(f.fileno(), struct.pack("=Q", int(env["ELASTICD_TOKEN"])), at)
    b = g.hand("worker:1")
    item = b.work()
    assert (item["task"], item["tries"]) == (task, 1)
    b.finish(item, "fine")
    assert c.fetch(task)["value"] == "fine"
    assert "no beat" in daemon.wait_event(g.name, "worker-failing")["text"]


def test_a_worker_started_again_by_a_person_takes_tasks(hands, daemon):
    g = hands(workers(2))
    c = g.coordinator()
    old = g.task("worker:0")["pid"]
    daemon.call("StopWorkers", job=g.name, workers="worker:0")
    task = c.submit("x")
    daemon.call("StartWorker", job=g.name, role="worker", index=0)
    a = g.again("worker:0", old)
    item = a.work()
    assert (item["task"], item["start"]) == (task, 1)
    a.finish(item, "fine")
    assert c.fetch(task)["value"] == "fine"


def test_a_worker_whose_start_is_delayed_takes_what_is_left(hands):
    g = hands(roles(("worker", 1, {}), ("late", 2, {"start_delay": "1s"})))
    c = g.coordinator()
    tasks = c.submit_many("abc")
    order = [g.hand(n).work() for n in ("late:0", "worker:0", "late:1")]
    assert [i["task"] for i in order] == tasks
    assert [i["index"] for i in order] == [0, 0, 1]


# --- the group ------------------------------------------------------------------------------------


def test_a_restart_of_the_group_keeps_tasks_and_who_waits_for_them(hands, daemon):
    g = hands(workers(2, restart={"max": 1}))
    c, waiting = g.coordinator(), g.coordinator()
    tasks = c.submit_many("abcd")
    a = g.hand("worker:0")
    done = a.work()
    a.finish(done, "done")
    a.work()
    waiting.send("Join")
    g.kill("worker:0")
    daemon.until_attempt(g.name, 1)
    a = g.hand("worker:0")
    for _ in range(3):
        a.finish(a.work(), "again")
    waiting.reply()
    assert [o["value"] for o in c.fetch_all(tasks)] == ["done"] + ["again"] * 3


def test_a_job_of_another_size_goes_on_with_its_tasks(hands, daemon):
    g = hands(workers(3))
    c, waiting = g.coordinator(), g.coordinator()
    tasks = c.submit_many("abcd")
    for n in range(3):
        g.hand(f"worker:{n}").work()
    waiting.send("Join")
    daemon.call("Scale", job=g.name, role="worker", replicas=1)
    daemon.until_attempt(g.name, 1)
    a = g.hand("worker:0")
    for _ in tasks:
        a.finish(a.work(), "again")
    waiting.reply()
    assert c.stats()["put_back"] == 3


def test_a_task_of_the_group_is_not_kept_waiting_by_its_stop(hands, daemon, box):
    g = hands({"roles": [{"command": deaf(box), "replicas": 2}], "restart": {"max": 1},
               "stop": {"timeout": "1h"}})
    heeds_nothing(box, 1)
    a, b = g.hand("worker:0"), g.hand("worker:1")
    b.send("Work")
    g.kill("worker:0")
    e = b.error()
    assert e.name == "Cancelled" and "being stopped" in e.message
    assert b.refused("Work").name == "Cancelled"
    g.kill("worker:1")
    daemon.until_attempt(g.name, 1)


def test_a_notice_of_preemption_is_no_death_with_a_task(hands, daemon):
    g = hands(workers(2, queue={"deaths": 1}))
    c = g.coordinator()
    c.submit("x")
    g.hand("worker:0").work()
    c.send("Join")
    daemon.call("Preempt", job=g.name)
    e = c.error()
    assert e.name == "Cancelled"
    job = daemon.wait(g.run)
    assert job["verdict"]["result"] == "preempted"
    assert job["queue"]["queued"] == 1 and job["queue"]["failed"] == 0


def test_waiters_hear_that_the_job_is_stopped(hands, daemon):
    g = hands(workers(1))
    c = g.coordinator()
    c.submit("x")
    c.send("Join")
    w = g.hand("worker:0")
    w.work()
    daemon.call("Stop", job=g.name)
    e = c.error()
    assert e.name == "Cancelled" and "stop" in e.message
    daemon.wait(g.run)
    left = events_named(daemon, g.run, "queue-left")
    assert [e["data"] for e in left] == [{"queued": 1, "running": 0}]


def test_waiters_hear_that_all_workers_have_ended(daemon, hands):
    work = script("from queue_workers import *\nh = my_hand()\nh.finish(h.work(), 'one')\n")
    g = hands({"roles": [{"command": work}]})
    c = g.coordinator()
    one, two = c.submit_many(["a", "b"])  # at once: after the first one the agent leaves
    try:
        c.fetch(one)
        e = c.refused("Fetch", task=two)
    except ConnectionError:  # the agent has left by then
        e = None
    if e:
        assert e.name in ("Unavailable", "Cancelled")
    job = daemon.wait(g.run)
    assert job["verdict"]["result"] == "succeeded"
    assert job["queue"]["queued"] == 1 and job["queue"]["succeeded"] == 1
    assert "are left: 1 queued, 0 running" in events_named(daemon, g.run, "queue-left")[0]["text"]


def test_a_job_that_nobody_asked_for_tasks_says_nothing_of_a_queue(hands, daemon, box):
    g = hands(workers(1))
    assert "queue" not in daemon.status(g.name)
    c = g.coordinator()
    c.submit("x")
    assert daemon.status(g.name, live=True)["queue"]["queued"] == 1
    assert "Queue: 1 queued, 0 running, 0 over" in box.ctl("status", g.name).out
    assert "queue: 1 queued, 0 running, 0 over" in box.ctl("why", g.name).out


# --- cancellation ---------------------------------------------------------------------------------


def cancels_on_board(g, name):
    env = g.environment(name)
    at = BOARD_HEADER + int(env["ELASTICD_SLOT"]) * BOARD_SLOT + BOARD_CANCELS
    with open(env["ELASTICD_BOARD"], "rb") as f:
        return struct.unpack("=Q", os.pread(f.fileno(), 8, at))[0]


def test_a_worker_that_ignores_a_cancellation_is_killed_at_no_cost_to_the_budget(hands, daemon):
    g = hands(workers(2, restart={"max": 0}, queue={"cancel_grace": "10ms"}))
    c = g.coordinator()
    task = c.submit("x")
    g.hand("worker:0").work()
    old, other = g.task("worker:0")["pid"], g.task("worker:1")["pid"]
    assert c.call("Cancel", tasks=[task], reason="no use")["cancelled"] == 1
    wait_gone(old)
    outcome = c.fetch(task)
    assert outcome["state"] == "cancelled" and "no use" in outcome["error"]["message"]
    a = g.again("worker:0", old)
    job = daemon.status(g.name)
    assert job["state"] == "running" and job["attempt"] == 0 and job["restarts"] == 0
    assert g.task("worker:1")["pid"] == other
    assert len(events_named(daemon, g.run, "queue-cancel-kill")) == 1
    second = c.submit("y")
    a.finish(a.work(), "fine")
    assert c.fetch(second)["value"] == "fine"


def test_a_kill_does_not_restart_a_worker_that_a_person_stops(hands, daemon, box):
    g = hands(roles(("worker", 2, {"command": deaf(box)}), stop={"timeout": "1h"},
                    queue={"cancel_grace": "10ms"}))
    heeds_nothing(box, 0)
    c = g.coordinator()
    task = c.submit("x")
    g.hand("worker:0").work()
    with daemon.connect(None) as v:
        v.send("StopWorkers", job=g.name, workers="worker:0")
        g.until(lambda job: job["workers"][0]["state"] == "stopping")
        c.call("Cancel", tasks=[task])
        daemon.wait_event(g.name, "worker-stopped")
    assert daemon.status(g.name, live=True)["workers"][0]["state"] == "stopped"
    assert len(events_named(daemon, g.run, "queue-cancel-kill")) == 1


def test_the_board_counts_what_was_cancelled(hands):
    g = hands(workers(2))
    c = g.coordinator()
    first, second = c.submit("x"), c.submit("y")
    a = g.hand("worker:0")
    item = a.work()
    assert item["task"] == first
    assert cancels_on_board(g, "worker:0") == 0
    told = g.hand("worker:0").stream("Cancels")
    assert "lease" not in next(told)
    c.send("Cancel", tasks=[first])
    assert next(told)["lease"] == item["lease"]
    assert cancels_on_board(g, "worker:0") == 1
    assert cancels_on_board(g, "worker:1") == 0
    assert a.refused("Finish", lease=item["lease"], value="late").name == "Aborted"
    assert c.reply()["cancelled"] == 1
    assert a.work()["task"] == second


# --- what stands still ----------------------------------------------------------------------------


def test_tasks_none_of_which_ends_are_reported_and_their_workers_dumped(hands, daemon):
    g = hands(workers(2, queue={"stall": "50ms"}))
    c = g.coordinator()
    c.submit("x")
    g.hand("worker:1").work()
    stall = daemon.wait_event(g.name, "queue-stall")
    assert "50ms" in stall["text"] or "0.05" in stall["text"] or "ended" in stall["text"]
    dumped = daemon.wait_event(g.name, "dumped")["text"]
    where = pathlib.Path(dumped.split(" into ", 1)[1].split(",")[0])
    rank = g.task("worker:1")["rank"]
    assert where.parent.name == str(rank)
    assert (where / "why.txt").exists()
    assert daemon.status(g.name)["state"] == "running"


def test_tasks_that_nobody_takes_fail_after_a_while(hands):
    g = hands(workers(1, queue={"recovery_timeout": "50ms"}))
    c = g.coordinator()
    task = c.submit("x")
    e = c.refused("Join")
    assert e.name == "QueueFailed" and e.code == "Unavailable"
    assert c.fetch(task)["state"] == "cancelled"


# --- a role whose loss fails the queue ------------------------------------------------------------


def with_ps(**top):
    queue = dict({"exit_code": 77, "loss_grace": "1h"}, **top.pop("queue", {}))
    return roles(("chief", 1, {}), ("worker", 1, {}), ("ps", 1, {"on_failure": "fail_queue"}),
                 queue=queue, **top)


def test_the_loss_of_a_parameter_server_fails_what_is_submitted_next(hands, daemon):
    g = hands(with_ps())
    chief, w = g.hand("chief:0"), g.hand("worker:0")
    running, queued = chief.submit("a"), chief.submit("b")
    item = w.work()
    g.kill("ps:0")
    daemon.wait_event(g.name, "queue-lost")
    assert chief.fetch(queued)["state"] == "cancelled"
    assert w.refused("Finish", lease=item["lease"], value="late").name == "Aborted"
    assert chief.fetch(running)["state"] == "cancelled"
    for method, more in (("Submit", {"payload": "c"}), ("Join", {})):
        e = chief.refused(method, **more)
        assert e.name == "QueueFailed" and e.code == "Unavailable"
        assert e.text == "ps:0 was killed by SIGKILL"
        assert e.parameters["error"]["worker"] == "ps:0"
        assert e.parameters["exit_code"] == 77
    # The group waits for the one that was told, and for nobody else.
    assert daemon.status(g.name)["state"] == "running"
    g.kill("worker:0")
    daemon.wait_event(g.name, "worker-ended", count=2)
    assert daemon.status(g.name)["state"] == "running"
    g.kill("chief:0")
    verdict = daemon.wait(g.run)["verdict"]
    assert verdict["result"] == "failed" and verdict["exit_status"] == 77
    assert verdict["root_cause"]["role"] == "ps"


def test_join_reports_the_loss_of_a_parameter_server(hands, daemon):
    g = hands(with_ps())
    chief = g.hand("chief:0")
    chief.submit("a")
    g.hand("worker:0").work()
    chief.send("Join")
    g.kill("ps:0")
    daemon.wait_event(g.name, "queue-lost")
    # Its lease ends with its process.
    g.kill("worker:0")
    e = chief.error()
    assert e.name == "QueueFailed" and e.text == "ps:0 was killed by SIGKILL"
    g.kill("chief:0")
    assert daemon.wait(g.run)["verdict"]["exit_status"] == 77


def test_fetch_reports_the_loss_of_a_parameter_server(hands, daemon):
    g = hands(with_ps())
    chief = g.hand("chief:0")
    task = chief.submit("a")
    g.kill("ps:0")
    daemon.wait_event(g.name, "queue-lost")
    outcome = chief.fetch(task)
    assert outcome["state"] == "cancelled"
    assert outcome["error"]["message"] == "ps:0 was killed by SIGKILL"
    g.kill("chief:0")
    assert daemon.wait(g.run)["verdict"]["exit_status"] == 77


def test_after_a_grace_the_group_fails_of_a_parameter_server_by_itself(hands, daemon):
    g = hands(with_ps(queue={"loss_grace": "10ms"}, restart={"max": 1}))
    chief = g.hand("chief:0")
    chief.submit("a")
    g.kill("ps:0")
    daemon.until_attempt(g.name, 1)
    # The next attempt's are as new.
    chief, w = g.hand("chief:0"), g.hand("worker:0")
    task = chief.submit("b")
    w.finish(w.work(), "fine")
    assert chief.fetch(task)["value"] == "fine"
    chief.call("Join")
    g.kill("ps:0")
    verdict = daemon.wait(g.run)["verdict"]
    assert verdict["result"] == "failed" and verdict["exit_status"] == 77
    assert verdict["root_cause"]["role"] == "ps"


def test_a_person_may_start_a_parameter_server_again_meanwhile(hands, daemon):
    g = hands(with_ps())
    chief, w = g.hand("chief:0"), g.hand("worker:0")
    old = g.kill("ps:0")
    daemon.wait_event(g.name, "queue-lost")
    assert chief.refused("Join").code == "Unavailable"
    daemon.call("StartWorker", job=g.name, role="ps", index=0)
    g.again("ps:0", old)
    task = chief.submit("a")
    w.finish(w.work(), "fine")
    assert chief.fetch(task)["value"] == "fine"
    chief.call("Join")
    assert daemon.status(g.name)["attempt"] == 0


def test_scope_task_does_not_start_a_parameter_server_again_alone(hands, daemon):
    g = hands(with_ps(restart=TASK_SCOPE, queue={"loss_grace": "10ms"}))
    g.kill("ps:0")
    daemon.until_attempt(g.name, 1)
    assert not events_named(daemon, g.run, "worker-restart")


# --- agents and elasticd --------------------------------------------------------------------------


def test_a_task_of_an_agent_that_was_lost_is_never_somebody_elses(hands, daemon):
    g = hands(workers(1, restart={"max": 2}))
    c = g.coordinator()
    assert c.submit("x") == 1
    for n in (1, 2):
        os.kill(daemon.agent_pid(g.name), 9)
        daemon.until_attempt(g.name, n)
        c = g.coordinator()
        assert c.refused("Fetch", task=1).name == "NotFound"
        task = c.submit("y")
        assert task == n * 10**9 + 1
        hand = g.hand("worker:0")
        hand.finish(hand.work(), "fine")
        assert c.fetch(task)["value"] == "fine"


def test_elasticd_is_killed_and_nothing_is_lost(hands, daemon):
    g = hands(workers(2))
    with Coordinator(daemon.socket, g.name) as c:
        tasks = c.submit_many("abcdef")
        a, b = g.hand("worker:0"), g.hand("worker:1")
        held = a.work()
        b.finish(b.work(), "before")
        daemon.restart()
    b.finish(b.work(), "after")
    a.finish(held, "held")
    for _ in range(3):
        a.finish(a.work(), "after")
    with Coordinator(daemon.socket, g.name) as c:
        c.call("Join")
        values = [o["value"] for o in c.fetch_all(tasks)]
        assert values == ["held", "before"] + ["after"] * 4
        assert c.stats()["put_back"] == 0


def test_nothing_is_left_when_the_coordinator_has_ended(daemon):
    chief = script("from queue_workers import *\nh = my_hand()\n"
                   "tasks = h.submit_many([f'echo {n}' for n in range(20)])\nh.call('Join')\n"
                   "print('echoes', *[json.loads(o['value'])['echo'] for o in h.fetch_all(tasks)])\n")
    _, run = daemon.submit({"roles": [
        {"name": "chief", "command": chief, "leader": True},
        {"command": server(), "replicas": 2}], "leader": {"grace": 0}, "logs": {"redirects": 3}})
    job = daemon.wait(run)
    assert job["verdict"]["result"] == "succeeded", job
    out = daemon.log(job, 0, 0).read_text().split()
    assert out == ["echoes", *[str(n) for n in range(20)]]
    for t in job["workers"]:
        wait_gone(t["pid"])


def test_a_worker_hears_when_there_will_be_nothing_more(daemon):
    chief = script("from queue_workers import *\nh = my_hand()\ntask = h.submit('echo x')\n"
                   "h.call('Close')\nassert h.fetch(task)['state'] == 'succeeded'\n"
                   "assert h.refused('Submit', payload='y').name == 'FailedPrecondition'\n")
    job = daemon.run({"roles": [{"name": "chief", "command": chief},
                                {"command": server(), "replicas": 2}]})
    assert job["verdict"]["result"] == "succeeded", job
    assert [t["exit"]["code"] for t in job["workers"]] == [0, 0, 0]


def test_queue_errors_have_names(hands):
    g = hands(workers(1))
    c = g.coordinator()
    with pytest.raises(QueueError):
        c.call("Fetch", task=99)


# --- waiting for oneself ----------------------------------------------------------------------------------


def test_a_caller_with_a_lease_does_not_wait_for_itself(hands):
    g = hands(workers(1))
    c, w = g.coordinator(), g.hand("worker:0")
    task, queued = c.submit("a"), c.submit("b")
    item = w.work()
    for method, more in (("Join", {}), ("Cancel", {}), ("Cancel", {"tasks": [queued, task]}),
                         ("Fetch", {"task": task}), ("FetchMany", {"tasks": [queued, task]}),
                         ("FetchMany", {"tasks": [task], "any": True})):
        e = w.refused(method, lease=item["lease"], **more)
        assert e.name == "FailedPrecondition" and "deadlock" in e.message and f"task {task}" in e.message
    # Nothing was cancelled, nobody is held up by that, and others' leases are nobody's business.
    assert c.stats()["queued"] == 1 and c.submit("c", wait_ms=0) > queued
    assert w.call("Cancel", tasks=[queued], lease=item["lease"]) == {"cancelled": 1}
    assert w.call("Join", queue="other", lease=item["lease"]) == {}
    assert w.call("FetchMany", tasks=[queued, task], any=True, lease=item["lease"])["outcomes"]
    assert w.call("Done", lease=item["lease"]) == {"done": False}
    for method, more in (("Join", {}), ("Fetch", {"task": task})):
        assert c.refused(method, lease=item["lease"], timeout_ms=0, **more).name == "DeadlineExceeded"
    w.finish(item, "fine")
    w.finish(w.work(), "fine")
    assert w.call("Join", lease=item["lease"]) == {}
    assert w.call("Fetch", task=task, lease=item["lease"])["outcome"]["value"] == "fine"


def test_a_worker_of_a_cancelled_task_does_not_wait_for_it(hands):
    g = hands(workers(2, queue={"cancel_grace": "1h"}))
    c, w, other = g.coordinator(), g.hand("worker:0"), g.hand("worker:1")
    task, _ = c.submit("a"), c.submit("b")
    item = w.work()
    other.fail(other.work(), "no data")
    for method in ("Done", "Join"):
        e = w.refused(method, lease=item["lease"])
        assert e.name == "FailedPrecondition" and "deadlock" in e.message and f"task {task}" in e.message
    # It is told to who comes once that has ended.
    assert w.refused("Finish", lease=item["lease"]).name == "Aborted"
    assert c.refused("Done").name == "QueueFailed"
    assert c.call("Done") == {"done": True}


def test_workers_are_called_by_name_before_they_are_started(hands, daemon):
    """The next agent waits before it starts the group again."""
    g = hands({**workers(2), "restart": {"max": 5, "backoff": "1h"}})
    g.kill("worker:0")
    old = daemon.watch(g.name, lambda job, _: job["state"] == "backoff")["agent_pid"]
    os.kill(old, signal.SIGKILL)
    daemon.watch(g.name, lambda job, _: job.get("agent_pid") not in (None, old))
    c = Coordinator(daemon.socket, g.name)
    g.open.append(c)
    answer, = c.call("Call", workers=["worker:1"], payload="x")["answers"]
    assert answer["worker"] == "worker:1" and answer["error"]["code"] == "Unavailable"
    e = c.refused("Call", workers=["worker:2"], payload="x", timeout_ms=0)
    assert e.name == "InvalidArgument" and "worker:2" in e.message
