# SPDX-License-Identifier: Apache-2.0
"""The work queue as its agent serves it, by raw varlink: what coordinators and workers may ask."""

import os
import signal
import socket

import pytest

from harness import spec, wait_for
from queues import QueueGroup, carried

MIB = 1 << 20


def group_of(daemon, replicas=3, **queue):
    return QueueGroup(daemon, spec("hang", replicas=replicas, **({"queue": queue} if queue else {})))


@pytest.fixture
def three(daemon):
    """A coordinator and two workers."""
    group = group_of(daemon)
    yield (group, *group.all("worker:0", "worker:1", "worker:2"))
    group.close()


# --- one task --------------------------------------------------------------------------------------


def test_a_task_is_submitted_done_and_fetched(three):
    _, c, a, _ = three
    task = c.submit("what", format="text")
    assert task == 1
    assert c.states() == {1: "queued"}
    item = a.work()
    assert item == {"kind": "task", "lease": item["lease"], "task": 1, "payload": "what", "format": "text",
                    "index": 1, "start": 0, "tries": 0}
    assert c.states() == {1: "running"}
    assert a.finish(item, "that", format="json") == {}
    outcome = {"task": 1, "state": "succeeded", "value": "that", "format": "json", "worker": "worker:1",
               "tries": 1}
    assert c.fetch(1) == outcome
    assert c.fetch(1) == outcome
    assert c.fetch(1, release=True) == outcome
    e = c.refused("Fetch", task=1)
    assert e.name == "NotFound" and "1" in e.message


def test_work_ends_when_its_connection_is_shut_for_writing(three):
    """The worker could not answer a task. An answer that came before counts, and the connection ends."""
    _, c, a, b = three
    a.send("Work")
    c.until(lambda s: s["free"] == 1)
    a.sock.shutdown(socket.SHUT_WR)
    assert a.error().message == "this connection is shut for writing"
    assert a.receive_raw() is None and c.call("Stats")["stats"]["free"] == 0
    task = c.submit("x")
    b.send("Finish", lease=b.work()["lease"], value="y", next=True)
    b.sock.shutdown(socket.SHUT_WR)
    assert b.error().name == "Cancelled" and c.fetch(task)["value"] == "y"


def test_a_worker_waits_for_a_task_and_a_coordinator_for_its_outcome(three):
    _, c, a, _ = three
    a.send("Work")
    c.until(lambda s: s["free"] == 1)
    task = c.submit("x")
    item = a.reply()["item"]
    assert item["task"] == task
    c.send("Fetch", task=task)
    a.finish(item, "y")
    assert c.reply()["outcome"]["value"] == "y"


def test_one_round_trip_ends_a_task_and_brings_the_next(three):
    _, c, a, _ = three
    for text in "xyz":
        c.submit(text)
    item = a.work()
    seen = []
    for _ in range(2):
        seen.append(item["payload"])
        item = a.finish(item, item["payload"].upper(), next=True)["item"]
    e = a.refused("Finish", lease=item["lease"], value="Z", next=True, timeout_ms=10)
    assert e.name == "DeadlineExceeded"
    assert seen == ["x", "y"]
    assert [c.fetch(t)["value"] for t in (1, 2, 3)] == ["X", "Y", "Z"]


def test_waits_have_limits(three):
    _, c, a, _ = three
    assert a.refused("Work", timeout_ms=10).name == "DeadlineExceeded"
    assert a.refused("Work", timeout_ms=0).name == "DeadlineExceeded"
    task = c.submit()
    for ms in (0, 10):
        assert c.refused("Fetch", task=task, timeout_ms=ms).name == "DeadlineExceeded"
        assert c.refused("FetchMany", tasks=[task], timeout_ms=ms).name == "DeadlineExceeded"
        assert c.refused("Join", timeout_ms=ms).name == "DeadlineExceeded"
    assert c.states() == {task: "queued"}


def test_bytes_come_back_as_they_were_sent(three):
    _, c, a, _ = three
    for value in (b"", b"\0", b"plain", "grün ✓ \U0001f600".encode(), b"\xff\xfe", bytes(range(256)),
                  b'"\\\n\t\x01\x7f', b"\xed\xa0\x80"):
        task = c.submit(value)
        item = a.work()
        assert carried(item, "payload") == value
        a.finish(item, value)
        outcome = c.fetch(task, release=True)
        assert carried(outcome, "value") == value
        assert ("base64" in outcome) == (b"\0" in value or value in (b"\xff\xfe", b"\xed\xa0\x80"))
    # As text with escapes, which takes another way.
    task = c.submit('a"b\\c\u00e4')
    item = a.work()
    assert item["payload"] == 'a"b\\c\u00e4'
    a.finish(item, 'x"y')
    assert c.fetch(task)["value"] == 'x"y'


def test_a_payload_and_a_value_of_a_megabyte_are_the_most(three):
    _, c, a, _ = three
    big = os.urandom(MIB)
    task = c.submit(big)
    item = a.work()
    assert carried(item, "payload") == big
    e = a.refused("Finish", lease=item["lease"], value="x" * (MIB + 1))
    assert e.name == "InvalidArgument" and "value" in e.message and str(MIB) in e.message
    a.finish(item, "\x01" * MIB)
    assert c.fetch(task)["value"] == "\x01" * MIB
    for more in ({"payload": "x" * (MIB + 1)}, {"base64": "AAAA" * (MIB // 3 + 1)}):
        e = c.refused("Submit", **more)
        assert e.name == "InvalidArgument" and next(iter(more)) in e.message
    e = c.refused("SubmitMany", tasks=[{"payload": ""}, {"payload": "x" * (MIB + 1)}])
    assert e.name == "InvalidArgument" and "tasks[1].payload" in e.message
    assert c.states() == {task: "succeeded"}


@pytest.mark.parametrize("bad,field", [
    ({"payload": "x", "base64": "eA=="}, "base64"),
    ({"base64": "eA"}, "base64"),
    ({"base64": "*"}, "base64"),
    ({"format": "f" * 32}, "format"),
    ({"queue": "a b"}, "queue"),
    ({"queue": "x" * 65}, "queue"),
    ({"resources": ["r"] * 17}, "resources"),
])
def test_impossible_arguments_are_refused_by_name(three, bad, field):
    _, c, _, _ = three
    e = c.refused("Submit", **bad)
    assert e.name == "InvalidArgument" and field in e.message, e
    queue = {"queue": bad["queue"]} if "queue" in bad else {}
    e = c.refused("SubmitMany", tasks=[{k: v for k, v in bad.items() if k != "queue"}], **queue)
    assert e.name == "InvalidArgument" and field in e.message, e
    assert c.states() == {}


def test_numbers_out_of_their_range_are_refused(three):
    _, c, a, _ = three
    for method, field in (("Submit", "limit_ms"), ("Submit", "wait_ms"), ("Join", "timeout_ms"),
                          ("List", "limit"), ("Work", "timeout_ms")):
        e = a.refused(method, **{field: -1})
        assert e.name == "InvalidParameter" and e.parameters == {"parameter": field}
    e = c.refused("SubmitMany", tasks=[{"limit_ms": 0}])
    assert e.name == "InvalidArgument" and "tasks[0].limit_ms" in e.message
    e = c.refused("SubmitMany", tasks=[])
    assert e.name == "InvalidArgument" and "tasks" in e.message
    e = c.refused("FetchMany", tasks=[])
    assert e.name == "InvalidArgument" and "tasks" in e.message
    assert c.refused("Fetch", task=-1).name == "InvalidParameter"
    assert c.refused("FetchMany", tasks=[-5]).name == "NotFound"
    assert c.call("Release", tasks=[-5, 0, 99])["released"] == 0


# --- many ------------------------------------------------------------------------------------------


def test_tasks_are_leased_in_the_order_of_their_numbers(three):
    _, c, a, b = three
    first = c.call("SubmitMany", tasks=[{"payload": str(i)} for i in range(6)])
    assert first == {"first": 1, "accepted": 6}
    assert c.submit("6") == 7
    got = []
    for _ in range(7):
        for w in (a, b):
            if len(got) == 7:
                break
            item = w.work()
            got.append(item["payload"])
            w.finish(item)
    assert got == [str(i) for i in range(7)]


def test_many_are_fetched_in_the_order_in_which_they_were_asked_for(three):
    _, c, a, _ = three
    c.call("SubmitMany", tasks=[{"payload": str(i)} for i in range(5)])
    item = a.work()
    for _ in range(4):
        item = a.finish(item, item["payload"], next=True)["item"]
    a.finish(item, item["payload"])
    got = c.call("FetchMany", tasks=[5, 1, 3, 1], release=True)["outcomes"]
    assert [(o["task"], o["value"]) for o in got] == [(5, "4"), (1, "0"), (3, "2"), (1, "0")]
    assert sorted(c.states()) == [2, 4]
    e = c.refused("FetchMany", tasks=[2, 3])
    assert e.name == "NotFound" and "3" in e.message


def test_any_of_many_is_answered_as_soon_as_it_is_over(three):
    _, c, a, _ = three
    c.call("SubmitMany", tasks=[{}, {}, {}])
    c.send("FetchMany", tasks=[3, 2, 1], any=True)
    item = a.work()
    a.finish(item, "one")
    assert [o["task"] for o in c.reply()["outcomes"]] == [1]
    a.finish(a.work(), "two")
    assert [o["task"] for o in c.call("FetchMany", tasks=[3, 2, 1], any=True)["outcomes"]] == [2, 1]


def test_of_long_outcomes_fewer_are_answered(three):
    _, c, a, _ = three
    tasks = [c.submit() for _ in range(20)]
    for i in range(20):
        a.finish(a.work(), bytes([200 + i]) * (MIB // 2))
    left, rounds = list(tasks), 0
    while left:
        got = c.call("FetchMany", tasks=left, release=True)["outcomes"]
        assert got and [o["task"] for o in got] == left[:len(got)]
        for o in got:
            assert carried(o, "value") == bytes([200 + o["task"] - 1]) * (MIB // 2)
        left = left[len(got):]
        rounds += 1
    assert rounds > 1
    assert c.states() == {}


def test_a_task_that_is_released_before_it_is_over_is_forgotten_then(three):
    _, c, a, _ = three
    task = c.submit()
    item = a.work()
    assert c.call("Release", tasks=[task])["released"] == 1
    a.finish(item, "nobody")
    assert c.refused("Fetch", task=task).name == "NotFound"
    assert c.states() == {} and c.stats()["bytes"] == 0


def test_lists_and_sums_say_what_there_is(three):
    _, c, a, _ = three
    c.submit("xx", queue="left")
    c.call("SubmitMany", queue="right", tasks=[{"payload": "yyy"}] * 4)
    item = a.work()
    infos = c.call("List")["tasks"]
    assert [(t["task"], t["queue"], t["state"], t["tries"]) for t in infos] == [
        (1, "left", "running", 1)] + [(n, "right", "queued", 0) for n in range(2, 6)]
    assert infos[0]["worker"] == "worker:1" and infos[0]["since_us"] > 1e15 and infos[0]["bytes"] >= 2
    assert "worker" not in infos[1] and "since_us" not in infos[1]
    assert sorted(c.states(queue="right")) == [2, 3, 4, 5]
    assert sorted(c.states(states=["running"])) == [1]
    assert c.states(states=[]) == {}
    page = c.call("List", limit=2)
    assert [t["task"] for t in page["tasks"]] == [1, 2] and page["more"] is True
    page = c.call("List", after=3, limit=2)
    assert [t["task"] for t in page["tasks"]] == [4, 5] and page["more"] is False
    s = c.stats()
    assert (s["queued"], s["running"], s["succeeded"], s["closed"]) == (4, 1, 0, False)
    assert s["workers"] == 1 and "error" not in s
    assert c.stats(queue="left")["queued"] == 0 and c.stats(queue="none")["queued"] == 0
    a.finish(item, "z" * 10)
    assert c.stats(queue="left")["succeeded"] == 1


# --- room ------------------------------------------------------------------------------------------


def test_a_full_queue_keeps_its_submitters_waiting_in_their_order(daemon):
    group = group_of(daemon, replicas=4, max=2)
    c, d, a, b = group.all("worker:0", "worker:1", "worker:2", "worker:3")
    assert [c.submit(), c.submit()] == [1, 2]
    e = c.refused("Submit", payload="x", wait_ms=0)
    assert e.name == "ResourceExhausted" and "queue.max" in e.message
    assert c.refused("Submit", payload="x", wait_ms=10).name == "ResourceExhausted"
    # Long ones, and such with escapes: they outlive their messages.
    c.send("Submit", payload="first" * 1000, format="f1")
    d.until(lambda s: s["waiting"] == 1)
    d.send("SubmitMany", tasks=[{"base64": "AAAA", "format": "f2"}, {"payload": 'q"'}, {"payload": "last"}])
    b.until(lambda s: s["waiting"] == 2)
    got = []
    item = a.work()
    for _ in range(5):
        item = a.finish(item, next=True)["item"]
        got.append((carried(item, "payload"), item.get("format")))
    a.finish(item)
    assert c.reply() == {"task": 3}
    assert d.reply() == {"first": 4, "accepted": 3}
    assert got[1:] == [(b"first" * 1000, "f1"), (b"\0\0\0", "f2"), (b'q"', None), (b"last", None)]
    group.close()


def test_of_many_those_are_in_for_which_there_was_room(daemon):
    group = group_of(daemon, replicas=2, max=2)
    c, a = group.all("worker:0", "worker:1")
    assert c.call("SubmitMany", tasks=[{}] * 5, wait_ms=0) == {"first": 1, "accepted": 2}
    assert c.refused("SubmitMany", tasks=[{}], wait_ms=10).name == "ResourceExhausted"
    c.send("SubmitMany", tasks=[{}] * 5, wait_ms=3600000)
    a.until(lambda s: s["waiting"] == 1)
    for _ in range(7):
        a.finish(a.work())
    assert c.reply() == {"first": 3, "accepted": 5}
    group.close()


def test_two_places_and_five_workers_come_through(daemon):
    group = group_of(daemon, replicas=6, max=2)
    c, *workers = group.all(*(f"worker:{i}" for i in range(6)))
    for w in workers:
        w.send("Work")
    producers = [group.connect("worker:0") for _ in range(4)]
    for p in producers:
        for _ in range(10):
            p.send("Submit", payload="")
    done = 0
    while done < 40:
        for w in workers:
            if done < 40 and not w.waits():
                w.send("Finish", lease=w.reply()["item"]["lease"], value="", next=True)
                done += 1
    tasks = sorted(p.reply()["task"] for p in producers for _ in range(10))
    assert tasks == list(range(1, 41))
    c.call("Join")
    assert c.stats()["succeeded"] == 40
    group.close()


def test_results_that_nobody_releases_are_a_limit_of_their_own(daemon):
    group = group_of(daemon, replicas=2, results=2, memory="1M")
    c, a = group.all("worker:0", "worker:1")
    for _ in range(2):
        c.submit()
        a.finish(a.work())
    e = c.refused("Submit", payload="")
    assert e.name == "ResourceExhausted" and "queue.results" in e.message
    c.call("Release", tasks=[1, 2])
    c.submit()
    a.finish(a.work(), "x" * (MIB - 100))
    e = c.refused("Submit", payload="y" * 1000)
    assert e.name == "ResourceExhausted" and "queue.memory" in e.message
    group.close()


# --- errors ----------------------------------------------------------------------------------------


def test_the_first_error_cancels_its_queue_and_is_told_once(three):
    _, c, a, b = three
    for text in ("long", "bad", "never", "never"):
        c.submit(text)
    long, bad = a.work(), b.work()
    c.send("Join")
    b.fail(bad, "InvalidArgument", "no such thing", details="line 1\nline 2")
    # What runs is waited for.
    other = three[0].connect("worker:0")
    assert other.states() == {1: "running", 2: "failed", 3: "cancelled", 4: "cancelled"}
    assert a.call("Look", lease=long["lease"])["cancelled"] is True
    e = a.refused("Finish", lease=long["lease"], value="late")
    assert e.name == "Aborted"
    e = c.error()
    error = {"code": "InvalidArgument", "message": "no such thing", "details": "line 1\nline 2",
             "worker": "worker:2", "task": 2}
    assert e.name == "QueueFailed" and e.parameters == {"error": error}
    assert c.fetch(2) == {"task": 2, "state": "failed", "error": error, "worker": "worker:2", "tries": 1}
    for task in (1, 3, 4):
        assert c.fetch(task)["state"] == "cancelled"
    assert c.fetch(1)["error"]["code"] == "Cancelled"
    # As new.
    c.call("Join")
    tasks = [c.submit() for _ in range(3)]
    for _ in tasks:
        a.finish(a.work(), "fine")
    assert [c.fetch(t)["value"] for t in tasks] == ["fine"] * 3


def test_submit_and_done_tell_an_error_too_and_another_queue_does_not(three):
    _, c, a, _ = three
    for method, parameters in (("Submit", {"payload": "x"}), ("Done", {}), ("SubmitMany", {"tasks": [{}]})):
        c.submit()
        a.fail(a.work(), message="of " + method)
        assert c.stats()["error"]["message"] == "of " + method
        assert c.call("Done", queue="other") == {"done": True}
        e = c.refused(method, **parameters)
        assert e.name == "QueueFailed" and e.parameters["error"]["message"] == "of " + method
        assert c.call("Done") == {"done": True}
    assert len(c.states()) == 3


def test_done_waits_for_what_an_error_has_cancelled_no_longer_than_it_is_told_to(daemon):
    group = group_of(daemon, cancel_grace="1h")
    c, a, b = group.all("worker:0", "worker:1", "worker:2")
    for _ in range(2):
        c.submit()
    item, other = a.work(), b.work()
    assert c.call("Done", timeout_ms=0) == {"done": False}
    a.fail(item, message="mine")
    for ms in (0, 50):
        assert c.refused("Done", timeout_ms=ms).name == "DeadlineExceeded"
    c.send("Done")
    assert c.waits()
    assert b.refused("Finish", lease=other["lease"], value="").name == "Aborted"
    e = c.error()
    assert e.name == "QueueFailed" and e.parameters["error"]["message"] == "mine"
    assert c.call("Done", timeout_ms=0) == {"done": True}
    group.close()


def test_the_failure_of_a_task_alone_is_its_own(three):
    _, c, a, b = three
    c.submit(alone=True)
    c.submit()
    item, other = a.work(), b.work()
    a.fail(item, "Unknown", "mine")
    b.finish(other, "fine")
    c.call("Join")
    assert c.fetch(1)["error"]["message"] == "mine" and c.fetch(2)["state"] == "succeeded"


def test_a_retryable_failure_is_tried_again_until_the_limit(daemon):
    group = group_of(daemon, replicas=3, blame_limit=3)
    c, a, b = group.all("worker:0", "worker:1", "worker:2")
    task = c.submit()
    for i in range(2):
        item = (a, b)[i].work()
        assert item["tries"] == i
        (a, b)[i].fail(item, "Unavailable", "ps is away", retryable=True, blame="ps:0")
    assert c.states() == {task: "queued"}
    a.fail(a.work(), "Unavailable", "ps is away", retryable=True, blame="ps:0")
    e = c.refused("Join")
    assert e.name == "QueueFailed" and e.parameters["error"]["code"] == "Unavailable"
    assert c.fetch(task)["tries"] == 3
    group.close()


def test_a_failure_needs_a_code_that_is_an_error(three):
    _, c, a, _ = three
    c.submit()
    item = a.work()
    for code in ("OK", "", "Nope", "0"):
        e = a.refused("Fail", lease=item["lease"], code=code, message="")
        assert e.name == "InvalidArgument" and "code" in e.message
    a.fail(item, "OUT_OF_RANGE", "x" * 10000)
    error = c.fetch(1)["error"]
    assert error["code"] == "OutOfRange" and error["message"].startswith("xxx")
    assert len(error["message"]) <= 4096


# --- leases ----------------------------------------------------------------------------------------


def test_a_lease_is_of_the_connection_that_got_it(three):
    group, c, a, b = three
    c.submit("mine")
    item = a.work()
    second = group.connect("worker:1")
    for other in (second, b, c):
        for method, more in (("Finish", {"value": "theirs"}), ("PutBack", {}),
                             ("Fail", {"code": "Internal", "message": "no"})):
            e = other.refused(method, lease=item["lease"], **more)
            assert e.name == "Aborted", (method, e)
    assert b.refused("Look", lease=item["lease"]).name == "NotFound"
    assert second.call("Look", lease=item["lease"]) == {"cancelled": False}
    a.finish(item, "mine")
    for method, more in (("Finish", {"value": "again"}), ("PutBack", {}),
                         ("Fail", {"code": "Internal", "message": "no"})):
        assert a.refused(method, lease=item["lease"], **more).name == "Aborted"
    assert a.refused("Look", lease=item["lease"]).name == "NotFound"
    assert c.fetch(1)["value"] == "mine"


def test_a_task_put_back_goes_behind_all_others(three):
    group, c, a, b = three
    for text in "xy":
        c.submit(text)
    a.call("PutBack", lease=a.work()["lease"])
    gone = group.connect("worker:1")
    assert gone.work()["payload"] == "y"
    gone.close()
    c.until(lambda s: s["put_back"] == 2)
    got = [b.work()]
    b.finish(got[0])
    got.append(b.work())
    b.finish(got[1])
    assert [(i["payload"], i["tries"]) for i in got] == [("x", 1), ("y", 1)]
    assert c.fetch(1)["tries"] == 2


def test_the_leases_of_a_process_that_dies_are_put_back(daemon):
    group = QueueGroup(daemon, spec("hang", replicas=3, restart={"scope": "worker", "max": 5}))
    c, a, b = group.all("worker:0", "worker:1", "worker:2")
    c.submit()
    old = a.work()
    os.kill(group.task("worker:1")["pid"], signal.SIGKILL)
    item = b.work()
    assert item["task"] == 1 and item["tries"] == 1
    # Somebody whom it left behind still has the connection.
    wait_for(lambda: group.task("worker:1")["state"] == "running", what="the next process of worker:1")
    for method, more in (("Finish", {"lease": old["lease"]}), ("Work", {"timeout_ms": 0}),
                         ("Look", {"lease": old["lease"]}), ("Stats", {})):
        e = a.refused(method, **more)
        assert e.name == "Aborted" and "earlier process of worker:1" in e.message
    new = group.connect("worker:1")
    c.submit()
    assert new.work()["start"] == 1
    b.finish(item, "done")
    assert c.fetch(1)["value"] == "done"
    group.close()


def test_a_worker_has_as_many_leases_as_slots(daemon):
    group = group_of(daemon, replicas=2, slots=2)
    c, a = group.all("worker:0", "worker:1")
    for _ in range(3):
        c.submit()
    second = group.connect("worker:1")
    first, other = a.work(), second.work()
    e = a.refused("Work", timeout_ms=30000)
    assert e.name == "ResourceExhausted" and "queue.slots" in e.message
    second.finish(other)
    assert a.work()["task"] == 3
    a.finish(first)
    group.close()


# --- joins and cancellations -----------------------------------------------------------------------


def test_submits_wait_for_a_join_but_not_those_of_who_holds_a_lease(three):
    group, c, a, _ = three
    c.submit("outer")
    item = a.work()
    c.send("Join")
    late = group.connect("worker:0")
    probe = group.connect("worker:0")
    e = wait_for(lambda: join_is_up(late), what="the join")
    assert e.name == "ResourceExhausted"
    late.send("Submit", payload="late")
    probe.until(lambda s: s["waiting"] == 1)
    inner = a.submit("inner")
    second = group.connect("worker:1")
    a.finish(item)
    assert c.waits() and late.waits()
    item = second.work()
    assert item["task"] == inner
    second.finish(item)
    assert c.reply() == {}
    assert late.reply()["task"] == inner + 1


def join_is_up(c):
    """The refusal, or None after having taken out what went in."""
    try:
        task = c.submit(wait_ms=0)
    except c.ERROR as e:
        return e
    c.call("Cancel", tasks=[task])
    return None


def test_join_and_done_with_nothing_there_return_at_once(three):
    _, c, a, _ = three
    assert c.call("Join") == {} and c.call("Done") == {"done": True}
    c.submit()
    assert c.call("Done") == {"done": False}
    item = a.work()
    assert c.call("Done") == {"done": False}
    a.finish(item)
    assert c.call("Join") == {} and c.call("Done") == {"done": True}


def test_queued_tasks_are_cancelled_at_once_and_never_run(three):
    _, c, a, _ = three
    for _ in range(4):
        c.submit()
    assert c.call("Cancel", tasks=[2, 99, 2], reason="not wanted") == {"cancelled": 1}
    error = c.fetch(2)["error"]
    assert error["code"] == "Cancelled" and "not wanted" in error["message"]
    assert c.call("Cancel") == {"cancelled": 3}
    assert a.refused("Work", timeout_ms=0).name == "DeadlineExceeded"
    assert set(c.states().values()) == {"cancelled"}
    assert c.call("Cancel") == {"cancelled": 0}


def test_a_worker_is_told_of_a_cancellation_which_waits_for_it(three):
    group, c, a, b = three
    stream = group.connect("worker:1").send("Cancels", more=True)
    assert stream.receive() == {"parameters": {}, "continues": True}
    others = group.connect("worker:2").send("Cancels", more=True)
    others.receive()
    c.submit()
    c.submit()
    item, other = a.work(), b.work()
    c.send("Cancel", tasks=[1], reason="enough")
    told = stream.receive()
    assert told["parameters"]["lease"] == item["lease"] and "enough" in told["parameters"]["reason"]
    look = a.call("Look", lease=item["lease"])
    assert look["cancelled"] is True and "enough" in look["reason"]
    assert b.call("Look", lease=other["lease"]) == {"cancelled": False}
    assert c.waits()
    assert group.connect("worker:0").refused("Cancel", tasks=[1], timeout_ms=10).name == "DeadlineExceeded"
    assert a.refused("Fail", lease=item["lease"], code="Internal", message="stopped").name == "Aborted"
    assert c.reply() == {"cancelled": 1}
    assert c.fetch(1)["state"] == "cancelled"
    b.finish(other)
    assert others.waits()


def test_a_cancelled_task_whose_worker_goes_away_is_cancelled(three):
    group, c, _, _ = three
    gone = group.connect("worker:1")
    c.submit()
    gone.work()
    c.send("Cancel")
    gone.close()
    assert c.reply() == {"cancelled": 1}
    assert c.fetch(1)["state"] == "cancelled"


def test_after_close_workers_are_told_once_all_is_done(three):
    group, c, a, b = three
    c.submit()
    item = a.work()
    b.send("Work")
    c.until(lambda s: s["free"] == 1)
    assert c.call("Close") == {}
    e = c.refused("Submit", payload="x")
    assert e.name == "FailedPrecondition" and c.stats()["closed"] is True
    assert b.waits()
    e = a.refused("Finish", lease=item["lease"], value="last", next=True)
    assert e.name == "Closed"
    assert b.error().name == "Closed"
    assert c.fetch(1)["value"] == "last"
    assert a.refused("Work").name == "Closed"


def test_a_kept_queue_ends_with_its_last_keeper(three):
    group, c, a, _ = three
    keepers = [group.connect("worker:0") for _ in range(2)]
    for k in keepers:
        k.send("Keep", more=True, queue="q")
        assert k.receive() == {"parameters": {}, "continues": True}
    c.submit("x", queue="q")
    c.submit("y", queue="q")
    c.submit("z")
    item = a.work()
    keepers[0].close()
    assert c.stats(queue="q")["queued"] == 1
    keepers[1].close()
    c.until(lambda s: s["queued"] == 0, queue="q")
    assert a.refused("Finish", lease=item["lease"], value="").name == "Aborted"
    assert c.states() == {3: "queued"}
    e = c.refused("Keep", queue="q")
    assert e.name == "ExpectedMore"
    e = c.send("Keep", more=True, queue="a b").error()
    assert e.name == "InvalidArgument" and "queue" in e.message


# --- resources and calls ---------------------------------------------------------------------------


def test_a_resource_is_built_by_each_worker_before_its_tasks(three):
    _, c, a, b = three
    c.call("CreateResource", name="data", payload="where", format="text")
    e = c.refused("CreateResource", name="data")
    assert e.name == "AlreadyExists" and "data" in e.message
    e = c.refused("CreateResource", name="a b")
    assert e.name == "InvalidArgument" and "name" in e.message
    assert c.refused("DropResource", name="none").name == "NotFound"
    e = c.refused("Submit", resources=["none"])
    assert e.name == "NotFound" and "none" in e.message
    c.submit("x", resources=["data"])
    item = a.work()
    assert (item["kind"], item["name"], item["payload"], item["format"]) == ("build", "data", "where", "text")
    assert "task" not in item
    item = a.finish(item, next=True)["item"]
    assert (item["kind"], item["resources"]) == ("task", ["data"])
    a.finish(item)
    build = b.work()
    b.fail(build, "Internal", "no disk")
    (r,) = c.call("Resources")["resources"]
    assert (r["name"], r["ready"], r["building"], r["failed"]) == ("data", 1, 0, 1)
    assert [(e["worker"], e["message"]) for e in r["errors"]] == [("worker:2", "no disk")]
    # Only its users are hurt.
    c.submit("needs it", resources=["data"])
    c.submit("does not")
    assert b.work()["payload"] == "does not"
    c.call("DropResource", name="data")
    assert c.fetch(2)["error"]["code"] == "NotFound"
    assert c.call("Resources") == {"resources": []}


def test_a_task_whose_resource_nobody_can_build_fails(daemon):
    group = group_of(daemon, replicas=2)
    c, a = group.all("worker:0", "worker:1")
    c.call("CreateResource", name="data")
    c.submit(resources=["data"], alone=True)
    a.fail(a.work(), "Internal", "no disk")
    error = c.fetch(1)["error"]
    assert error["code"] == "FailedPrecondition" and "data" in error["message"]
    assert "worker:1" in error["message"] and "no disk" in error["message"]
    group.close()


def test_a_call_is_answered_by_all_workers_in_their_order(three):
    group, c, a, b = three
    for w in (b, a):
        w.send("Work")
    c.until(lambda s: s["free"] == 2)
    c.send("Call", payload="who", format="text")
    ia, ib = a.reply()["item"], b.reply()["item"]
    for item in (ia, ib):
        assert (item["kind"], item["payload"], item["format"]) == ("call", "who", "text")
        assert "task" not in item
    b.finish(ib, "I am two", format="text")
    assert c.waits()
    a.fail(ia, "NotFound", "I am nobody")
    assert c.reply()["answers"] == [
        {"worker": "worker:1", "error": {"code": "NotFound", "message": "I am nobody", "worker": "worker:1"}},
        {"worker": "worker:2", "value": "I am two", "format": "text"}]
    c.send("Call", workers=["worker:2"])
    b.finish(b.work(), b"\xff")
    assert c.reply()["answers"] == [{"worker": "worker:2", "base64": "/w=="}]
    for names in (["worker:9"], [], ["worker:1"] * 4, ["nobody"]):
        e = c.refused("Call", workers=names)
        assert e.name == "InvalidArgument" and "workers" in e.message


def test_an_answer_that_does_not_fit_beside_the_others_is_an_error_of_its_own(daemon):
    """Each byte of a value takes six in a message: two of these fit into 16 MiB, three do not."""
    group = group_of(daemon, 5)
    c, *workers = group.all(*[f"worker:{i}" for i in range(5)])
    agent = group.agent()
    for w in workers:
        w.send("Work")
    c.until(lambda s: s["free"] == 4)
    agent.send("Call")
    for w, value in zip(workers, ["\x01" * MIB] * 3 + ["small"]):
        w.finish(w.reply()["item"], value)
    answers = agent.reply()["answers"]
    assert [a["worker"] for a in answers] == [f"worker:{i}" for i in range(1, 5)]
    assert [len(a.get("value", "")) for a in answers] == [MIB, MIB, 0, len("small")]
    error = answers[2]["error"]
    assert error["code"] == "ResourceExhausted" and error["worker"] == "worker:3", error
    assert "does not fit beside the others' into one message of 16 MiB" in error["message"], error
    group.close()


def test_a_worker_that_does_not_answer_has_an_error_as_its_answer(three):
    _, c, a, b = three
    for ms in (50, 500, 5000, 50000):  # the other one is to be in time, on whatever machine
        for w in (a, b):
            w.send("Work")
        c.until(lambda s: s["free"] == 2)
        c.send("Call", answer_timeout_ms=ms)
        item, late = a.reply()["item"], b.reply()["item"]
        a.send("Finish", lease=item["lease"], value="here")
        answers = c.reply()["answers"]
        assert answers[1]["worker"] == "worker:2" and answers[1]["error"]["code"] == "DeadlineExceeded"
        assert b.refused("Finish", lease=late["lease"], value="").name == "Aborted"
        if "error" not in answers[0]:
            break
        assert answers[0]["error"]["code"] == "DeadlineExceeded" and a.error().name == "Aborted"
    assert answers[0] == {"worker": "worker:1", "value": "here"}


# --- who may ask what ------------------------------------------------------------------------------


def test_a_job_is_this_one_or_none(three):
    group, c, a, _ = three
    assert c.submit(job=group.name) == 1 and c.submit(job=group.run) == 2
    for method, more in (("Submit", {}), ("SubmitMany", {"tasks": [{}]}), ("Fetch", {"task": 1}),
                         ("FetchMany", {"tasks": [1]}), ("Release", {"tasks": [1]}), ("Join", {}),
                         ("Done", {}),
                         ("Cancel", {}), ("Close", {}), ("List", {}), ("Stats", {}),
                         ("CreateResource", {"name": "r"}), ("DropResource", {"name": "r"}),
                         ("Resources", {}), ("Call", {})):
        e = c.refused(method, job="another", **more)
        assert e.name == "NotFound" and e.parameters["job"] == "another", method
    assert c.send("Keep", more=True, queue="q", job="another").error().name == "NotFound"
    assert set(c.states().values()) == {"queued"}


def test_a_stranger_is_told_how_to_say_who_it_is(three):
    group, c, _, _ = three
    e = group.at(c.path).refused("Submit", payload="x")
    assert e.name == "FailedPrecondition" and "ELASTICD_TOKEN" in e.message


def test_streams_are_streams(three):
    _, c, a, _ = three
    assert a.refused("Cancels").name == "ExpectedMore"
    assert c.refused("Keep", queue="q").name == "ExpectedMore"
