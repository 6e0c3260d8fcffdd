# SPDX-License-Identifier: Apache-2.0
"""What may go wrong at the work queue: callers that send rubbish, vanish, never read or ask for too much.
Whoever else uses it notices nothing."""

import json
import os
import pathlib
import re
import resource
import signal

import pytest

from harness import SANITIZED, spec, wait_for
from queues import QUEUE_IFACE, QueueGroup, carried

MIB = 1 << 20


def group_of(daemon, replicas=3, **queue):
    return QueueGroup(daemon, spec("hang", replicas=replicas, **({"queue": queue} if queue else {})))


@pytest.fixture
def three(daemon):
    group = group_of(daemon)
    yield (group, *group.all("worker:0", "worker:1", "worker:2"))
    group.close()


def serves(c, a):
    """A task goes through, and nobody waits or holds anything but it."""
    s = c.until(lambda s: s["running"] == 0 and s["waiting"] == 0 and s["free"] == 0)
    assert s["queued"] == 0
    task = c.submit("still here", queue="serves")
    item = a.work()
    assert item["task"] == task
    a.finish(item, "yes")
    assert c.fetch(task, release=True)["value"] == "yes"


def resident(group):
    pid = group.daemon.agent_pid(group.name)
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s*(\d+)", status)[1]) * 1024


# --- rubbish ---------------------------------------------------------------------------------------


def test_rubbish_ends_a_connection_and_its_leases(three):
    group, c, a, b = three
    for rubbish in (b"nonsense\0", b"{\0", b'{"method":1}\0', b"[]\0", b"\xff\xfe\0", b"\0"):
        bad = group.connect("worker:1")
        c.submit()
        assert bad.work()["kind"] == "task"
        bad.send_raw(rubbish)
        assert bad.receive_raw() is None
        item = b.work()
        assert item["tries"] == 1
        b.finish(item)
    serves(c, a)


@pytest.mark.parametrize("method,parameters", [
    ("Submit", {"payload": 1}), ("Submit", {"unknown": ""}), ("Submit", {"resources": "r"}),
    ("Submit", {"resources": [1]}), ("Submit", {"limit_ms": "1"}), ("Submit", {"limit_ms": 1.5}),
    ("SubmitMany", {}), ("SubmitMany", {"tasks": {}}), ("SubmitMany", {"tasks": [1]}),
    ("SubmitMany", {"tasks": [{"payload": None, "x": 1}]}), ("Fetch", {}), ("Fetch", {"task": "1"}),
    ("Fetch", {"task": 1 << 60}), ("FetchMany", {"tasks": ["1"]}), ("FetchMany", {"tasks": None}),
    ("Release", {}), ("Cancel", {"tasks": 1}), ("List", {"states": ["none"]}), ("List", {"limit": 0}),
    ("CreateResource", {}), ("Call", {"workers": "worker:1"}), ("Work", {"timeout_ms": "x"}), ("Finish", {}),
    ("Finish", {"lease": -1}), ("Fail", {"lease": 1}), ("PutBack", {"lease": None}), ("Look", {"lease": []}),
])
def test_parameters_that_do_not_fit_are_named(three, method, parameters):
    _, c, a, _ = three
    e = a.refused(method, **parameters)
    assert e.error == "org.varlink.service.InvalidParameter" and e.parameters["parameter"]
    assert e.parameters["parameter"].split("[")[0].split(".")[0] in (
        *parameters, "task", "tasks", "name", "lease", "code", "message")
    serves(c, a)


def test_flat_calls_mean_the_same_as_all_others(three):
    """Calls in their shortest form are read in a way of their own."""
    _, c, a, _ = three

    def flat(conn, method, text):
        conn.send_raw(b'{"method":"' + (QUEUE_IFACE + method).encode() + b'","parameters":' + text + b"}\0")
        return conn

    submit = b'{"payload":"p","format":"f","queue":"q","limit_ms":60000}'
    assert flat(c, "Submit", submit).reply() == {"task": 1}
    item = flat(a, "Work", b"{}").reply()["item"]
    assert (item["payload"], item["format"], item["limit_ms"]) == ("p", "f", 60000)
    lease = str(item["lease"]).encode()
    assert flat(a, "Finish", b'{"lease":' + lease + b',"base64":"/w==","format":"g"}').reply() == {}
    outcome = flat(c, "Fetch", b'{"task":1,"release":true}').reply()["outcome"]
    assert outcome == {"task": 1, "state": "succeeded", "base64": "/w==", "format": "g", "worker": "worker:1",
                       "tries": 1}
    assert flat(c, "Fetch", b'{"task":1}').error().name == "NotFound"
    assert flat(c, "Done", b'{"queue":"q"}').reply() == {"done": True}
    for method, text, name in (("Submit", b'{"queue":"a b"}', "InvalidArgument"),
                               ("Submit", b'{"payload":"x","base64":"eA=="}', "InvalidArgument"),
                               ("Submit", b'{"wait_ms":-1}', "InvalidParameter"),
                               ("Submit", b'{"payload":1}', "InvalidParameter"),
                               ("Submit", b'{"job":"another"}', "NotFound"),
                               ("Fetch", b'{"task":1,"job":"another"}', "NotFound"),
                               ("Done", b'{"job":"another"}', "NotFound"),
                               ("Finish", b'{"lease":77}', "Aborted"),
                               ("Work", b'{"timeout_ms":0}', "DeadlineExceeded")):
        assert flat(a, method, text).error().name == name, (method, text)
    serves(c, a)


# --- who vanishes ----------------------------------------------------------------------------------


def test_a_vanished_waiter_leaves_nothing_behind(daemon):
    group = group_of(daemon, max=2)
    c, a = group.all("worker:0", "worker:1")
    tasks = [c.submit(), c.submit()]
    running = group.connect("worker:1")
    running.work()
    tasks.append(c.submit())
    for method, more in (("Submit", {"payload": "x" * 1000}),
                         ("SubmitMany", {"tasks": [{"payload": "y"}, {"base64": "AAAA"}]}),
                         ("Fetch", {"task": 1}), ("FetchMany", {"tasks": tasks}),
                         ("FetchMany", {"tasks": tasks, "any": True, "release": True}), ("Join", {}),
                         ("Call", {"workers": ["worker:0"]}), ("Cancel", {"tasks": [1]})):
        with group.connect("worker:2") as gone:
            gone.send(method, **more)
            if method.startswith("Submit"):
                c.until(lambda s: s["waiting"] == 1)
        c.until(lambda s: s["waiting"] == 0)
    running.close()
    c.until(lambda s: s["running"] == 0)
    # It was cancelled, though nobody waits for that any more.
    assert c.states() == {1: "cancelled", 2: "queued", 3: "queued"}
    with group.connect("worker:2") as gone:
        gone.send("Cancels", more=True).receive()
    with group.connect("worker:2") as gone:
        gone.send("Keep", more=True, queue="kept").receive()
    a.finish(a.finish(a.work(), next=True)["item"])
    with group.connect("worker:2") as gone:
        gone.send("Work")
        c.until(lambda s: s["free"] == 1)
    serves(c, a)
    group.close()


def test_an_item_that_reaches_nobody_is_put_back(three):
    group, c, a, b = three
    for i in range(20):
        gone = group.connect("worker:1")
        gone.send("Work")
        if i % 2:
            c.until(lambda s: s["free"] == 1)
            c.send("Submit", payload=str(i))
            gone.close()
            c.reply()
        else:
            c.submit(str(i))
            gone.close()
        item = b.work()
        assert item["payload"] == str(i)
        b.finish(item)
    serves(c, a)


def test_a_finish_is_stored_even_if_its_sender_is_gone(three):
    group, c, a, _ = three
    for i in range(10):
        gone = group.connect("worker:1")
        task = c.submit()
        item = gone.work()
        gone.send("Finish", lease=item["lease"], value=str(i), next=True)
        gone.close()
        assert c.fetch(task, release=True)["value"] == str(i)
    serves(c, a)


def ignores_term(pid):
    mask = re.search(r"SigIgn:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]
    return int(mask, 16) >> (signal.SIGTERM - 1) & 1


def test_a_task_that_ends_while_the_group_stops_is_told_of_then(daemon):
    """Its worker gets nothing more, and that it was done does not wait for the next attempt."""
    group = QueueGroup(daemon, spec("ignore:TERM", "hang", replicas=2, restart={"max": 1},
                                    stop={"timeout": "1h"}))
    pid = group.task("worker:1")["pid"]
    wait_for(lambda: ignores_term(pid), what="a worker that heeds no signal")
    a, c = group.connect("worker:1"), group.agent()
    task = c.submit()
    item = a.work()
    c.send("Fetch", task=task)
    os.kill(group.task("worker:0")["pid"], signal.SIGKILL)
    waits = group.connect("worker:1")
    while (e := waits.refused("Work")).name == "ResourceExhausted":
        pass  # the stop has yet to come
    assert e.name == "Cancelled"
    assert a.refused("Finish", lease=item["lease"], value="done", next=True).name == "Cancelled"
    assert c.reply()["outcome"]["value"] == "done"
    os.kill(pid, signal.SIGKILL)
    group.close()


# --- who never reads -------------------------------------------------------------------------------


def test_long_values_that_nobody_reads_do_not_pile_up(three):
    group, c, a, _ = three
    task = c.submit()
    a.finish(a.work(), "\x01" * MIB)
    deaf = [group.connect("worker:2") for _ in range(3 if SANITIZED else 8)]
    for d in deaf:
        for _ in range(20):
            d.send("Fetch", task=task)
            d.send("FetchMany", tasks=[task] * 8)
    for _ in range(20):
        assert c.call("Done") == {"done": True}
    assert resident(group) < 900 * MIB
    # Who reads after all gets all of its answers in their order, some of them refusals.
    kinds = set()
    for _ in range(40):
        message = deaf[0].receive()
        kinds.add(message.get("error", "").removeprefix(QUEUE_IFACE))
        if not message.get("error"):
            p = message["parameters"]
            assert (p.get("outcome") or p["outcomes"][0])["value"] == "\x01" * MIB
    assert kinds <= {"", "ResourceExhausted"} and "" in kinds
    for d in deaf:
        d.close()
    c.call("Release", tasks=[task])
    serves(c, a)


def test_a_long_payload_for_a_worker_that_never_reads_goes_to_another(three):
    group, c, a, b = three
    deaf = group.connect("worker:1")
    deaf.send("Work")
    c.until(lambda s: s["free"] == 1)
    task = c.submit("x" * MIB)
    assert c.states() == {task: "running"}
    deaf.close()
    item = b.work()
    assert item["tries"] == 1 and carried(item, "payload") == b"x" * MIB
    b.finish(item)
    serves(c, a)


def test_cancellations_that_nobody_reads_end_their_stream(daemon):
    """It is told more than a connection may hold; the leases and everybody else go on."""
    group = group_of(daemon, replicas=2, slots=1024, cancel_grace="1h")
    c, a = group.all("worker:0", "worker:1")
    deaf = group.connect("worker:1").send("Cancels", more=True)
    assert deaf.reply() == {}
    reader = group.connect("worker:1").send("Cancels", more=True)
    assert reader.reply() == {}
    reason = "\x01" * 500
    for _ in range(5):
        c.call("SubmitMany", tasks=[{}] * 1000, queue="q")
        items = [a.work() for _ in range(1000)]
        assert c.refused("Cancel", queue="q", reason=reason, timeout_ms=0).name == "DeadlineExceeded"
        heard = [reader.reply() for _ in items]
        assert {h["lease"] for h in heard} == {i["lease"] for i in items}
        assert {h["reason"] for h in heard} == {heard[0]["reason"]} and "\x01" in heard[0]["reason"]
        for item in items:
            a.send("Finish", lease=item["lease"])
        for item in items:
            assert a.error().name == "Aborted"
    told = 0
    while True:
        message = deaf.receive()
        if message.get("error"):
            break
        told += 1
    assert message["error"] == QUEUE_IFACE + "ResourceExhausted" and 0 < told < 5000
    # It may ask again.
    assert deaf.send("Cancels", more=True).reply() == {}
    c.call("Release", tasks=list(range(1, 5001)))
    serves(c, a)
    group.close()


# --- who asks for too much -------------------------------------------------------------------------


def test_a_flood_of_everything_is_answered_in_order(three):
    group, c, a, _ = three
    flood = group.connect("worker:2")
    for i in range(3000):
        flood.send("Submit", payload=str(i))
    assert [flood.reply()["task"] for _ in range(3000)] == list(range(1, 3001))
    for i in range(100):
        flood.send("Work", timeout_ms=0)
    got = [flood.receive() for _ in range(100)]
    errors = [m for m in got if m.get("error")]
    assert len(errors) == 99 and {e["error"] for e in errors} == {QUEUE_IFACE + "ResourceExhausted"}
    lease = next(m for m in got if not m.get("error"))["parameters"]["item"]["lease"]
    for _ in range(1000):
        flood.send("Finish", lease=lease, value="")
    assert flood.reply() == {}
    assert {flood.error().name for _ in range(999)} == {"Aborted"}
    assert c.call("Cancel")["cancelled"] == 2999
    serves(c, a)


def test_queues_resources_and_calls_have_limits_that_are_named(three):
    _, c, a, b = three
    for i in range(64):
        c.call("CreateResource", name=f"r{i}")
    e = c.refused("CreateResource", name="one-more")
    assert e.name == "ResourceExhausted" and "64" in e.message
    for i in range(64):
        c.call("DropResource", name=f"r{i}")
    # Each is there for its task; after them all are forgotten.
    for i in range(1024):
        c.send("Submit", queue=f"q{i}", payload="", wait_ms=0)
    for i in range(1024):
        c.reply()
    e = c.refused("Submit", queue="one-more", payload="", wait_ms=0)
    assert e.name == "ResourceExhausted" and "queues" in e.message
    tasks = list(c.states(limit=5000))
    assert len(tasks) == 1024
    assert sum(c.call("Cancel", tasks=tasks[i:i + 100])["cancelled"] for i in range(0, 1024, 100)) == 1024
    assert c.call("Release", tasks=tasks)["released"] == 1024
    serves(c, a)
    # Of what waits for room there is only so much.
    assert c.stats()["bytes"] == 0


def test_many_tasks_in_one_call_are_taken_as_far_as_they_are_looked_at(daemon):
    group = group_of(daemon, replicas=1)
    (c,) = group.all("worker:0")
    answer = c.call("SubmitMany", tasks=[{}] * 70000)
    assert answer == {"first": 1, "accepted": 65536}
    assert c.stats()["queued"] == 65536
    assert c.call("Cancel")["cancelled"] == 65536
    e = c.refused("FetchMany", tasks=[1] * ((1 << 20) + 1))
    assert e.name == "InvalidArgument" and "tasks" in e.message
    group.close()


def test_lists_look_through_any_number_of_tasks(daemon):
    """A piece at a time; who vanishes meanwhile is forgotten, and the others go on."""
    group = group_of(daemon, replicas=2)
    c, a = group.all("worker:0", "worker:1")
    # As many as take several turns of the agent's loop, and a few that are wanted.
    for _ in range(2):
        assert c.call("SubmitMany", tasks=[{}] * 50000, queue="crowd")["accepted"] == 50000
    rare = c.submit(queue="rare")
    item = a.finish(a.work(), next=True)["item"]
    lists = [group.connect("worker:0") for _ in range(4)]
    for conn in lists:
        for _ in range(3):
            conn.send("List", queue="rare")
            conn.send("List", states=["running"])
            conn.send("List", queue="none")
    lists[0].close()
    for conn in lists[1:]:
        for _ in range(3):
            assert [t["task"] for t in conn.reply()["tasks"]] == [rare]
            assert [t["task"] for t in conn.reply()["tasks"]] == [item["task"]]
            assert conn.reply() == {"tasks": [], "more": False}
    page = c.call("List", after=99990, limit=20)
    assert [t["task"] for t in page["tasks"]] == list(range(99991, 100002)) and page["more"] is False
    page = c.call("List", states=["queued", "succeeded"], limit=3)
    assert [t["task"] for t in page["tasks"]] == [1, 3, 4] and page["more"] is True
    lists[1].send("List", queue="rare")  # it is left open
    group.close()


def join_is_up(c):
    """Whether nothing comes in any more; what did is taken out."""
    try:
        task = c.submit(wait_ms=0, queue="joined")
    except c.ERROR as e:
        assert e.name == "ResourceExhausted", e
        return True
    return not c.call("Cancel", tasks=[task])


def test_tasks_that_wait_are_held_up_to_a_limit(daemon):
    group = group_of(daemon, replicas=2, max=3)
    c, a, probe = group.all("worker:0", "worker:1", "worker:0")
    c.submit(queue="joined")
    item = a.work()
    c.send("Join", queue="joined")
    wait_for(lambda: join_is_up(probe), what="the join")
    many = [{"payload": "x" * MIB}] * 7
    text = json.dumps({"method": QUEUE_IFACE + "SubmitMany",
                       "parameters": {"queue": "joined", "tasks": many}}).encode() + b"\0"
    waiting = []
    for i in range(50):
        w = group.connect("worker:0")
        w.send_raw(text)
        waiting.append(w)
    # 36 of them fit into 256 MiB; their answers come when they are called off.
    s = probe.until(lambda s: s["waiting"] == 36)
    assert s["queued"] == 0
    refused = 0
    for w in waiting:
        w.sock.settimeout(0.01)
        try:
            message = w.receive()
        except TimeoutError:
            continue
        assert message["error"] == QUEUE_IFACE + "ResourceExhausted", message
        refused += 1
    assert refused <= 14
    # Those for which there is room are in, though the rest cannot wait.
    answer = probe.call("SubmitMany", queue="other", tasks=many)
    assert answer["accepted"] == 3
    assert sorted(probe.states(queue="other")) == list(range(answer["first"], answer["first"] + 3))
    wait_for(lambda: resident(group) < 900 * MIB, what="memory of the agent")
    for w in waiting:
        w.close()
    probe.until(lambda s: s["waiting"] == 0)
    a.finish(item)
    assert c.reply() == {}
    group.close()


# --- connections -----------------------------------------------------------------------------------


def test_thousands_of_coordinators_wait_at_once(daemon):
    """At agent.sock, where elasticd's connections come from."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(4000, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most + 500), hard))
    group = group_of(daemon, replicas=1, max=1)
    try:
        c = group.connect("worker:0")
        first = c.submit()
        waiting = []
        for i in range(most):
            w = group.agent()
            w.send("Submit", payload=str(i))
            waiting.append(w)
        s = c.until(lambda s: s["waiting"] >= min(most, 400))
        served = s["waiting"]
        item = c.work()
        assert item["task"] == first
        for i in range(served):
            item = c.finish(item, next=True)["item"]
            assert item["task"] == first + i + 1
        c.finish(item)
    finally:
        group.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_at_the_agents_socket_callers_are_no_workers(three):
    group, c, a, _ = three
    agent = group.agent()
    assert agent.submit("from outside", job=group.name) == 1
    for method, more in (("Work", {}), ("Finish", {"lease": 1}), ("PutBack", {"lease": 1}),
                         ("Look", {"lease": 1}),
                         ("Fail", {"lease": 1, "code": "Internal", "message": ""})):
        e = agent.refused(method, **more)
        assert e.name == "FailedPrecondition" and "ELASTICD_WORKER_SOCKET" in e.message
    assert agent.send("Cancels", more=True).error().name == "FailedPrecondition"
    item = a.work()
    assert item["payload"] == "from outside"
    a.finish(item, "done")
    assert agent.fetch(1)["value"] == "done"
    assert agent.refused("Submit", payload="", job="another").name == "NotFound"
