# SPDX-License-Identifier: Apache-2.0
"""Queues of their own that coordinators outside the job keep: they go with their coordinator, and with
nothing else, whatever becomes of elasticd."""

import os
import signal
import sys
import textwrap
import time

import pytest

from harness import spec
from python_package import ENV
from queue_workers import PATIENCE, Coordinator, Hands, QueueError


@pytest.fixture
def hands(daemon):
    group = Hands(daemon, spec("hang", replicas=2))
    yield group
    if not daemon.running():
        daemon.start()
    group.close()


def handed_on(group):
    """What elasticd does behind its answers, it has done when it answers the next one."""
    with Coordinator(group.daemon.socket, group.name) as c:
        c.stats()


def keep(group, queue="mine"):
    c = Coordinator(group.daemon.socket, group.name)
    group.open.append(c)
    next(c.stream("Keep", queue=queue))
    handed_on(group)
    return c


def ask_until(condition):
    """Nobody tells when a connection has ended."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline


def queued(c, queue="mine"):
    return c.stats(queue=queue)["queued"]


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM])
def test_a_queue_is_kept_while_elasticd_is_away(hands, signo):
    keeper, agent = keep(hands), hands.coordinator()
    tasks = agent.submit_many(["a", "b", "c"], queue="mine")
    for _ in range(2):
        hands.daemon.restart(signo)
        c = Coordinator(hands.daemon.socket, hands.name)
        assert queued(c) == 3
        c.close()
    w = hands.hand("worker:0")
    w.finish(w.work(), "done")
    assert agent.fetch(tasks[0])["value"] == "done"
    keeper.sock.settimeout(0)
    with pytest.raises(BlockingIOError):
        keeper.sock.recv(1)
    keeper.sock.settimeout(PATIENCE)
    keeper.close()
    ask_until(lambda: queued(agent) == 0)
    assert all(agent.refused("Fetch", task=t).name == "NotFound" for t in tasks)


def test_it_goes_with_its_last_keeper_while_elasticd_is_away(hands):
    keepers, agent = [keep(hands) for _ in range(3)], hands.coordinator()
    w = hands.hand("worker:0")
    told = hands.hand("worker:0").stream("Cancels")
    assert next(told) == {}
    tasks = agent.submit_many(["runs", "waits"], queue="mine")
    lease = w.work()["lease"]
    hands.daemon.kill()
    for k in keepers[:-1]:
        k.close()
    assert queued(agent) == 1
    keepers[-1].close()
    assert next(told)["lease"] == lease
    assert w.refused("PutBack", lease=lease).name == "Aborted"
    ask_until(lambda: queued(agent) == 0)
    assert all(agent.refused("Fetch", task=t).name == "NotFound" for t in tasks)


@pytest.mark.parametrize("away", [False, True])
def test_a_keeper_sees_the_end_of_its_agent(hands, away):
    keeper = keep(hands)
    pid = hands.daemon.agent_pid(hands.name)
    if away:
        hands.daemon.kill()
    os.kill(pid, signal.SIGKILL)
    if away:
        assert keeper.receive_raw() is None
    else:
        assert keeper.error().name == "Unavailable"


def test_bytes_from_a_keeper_cost_the_agent_nothing(hands):
    """Nobody reads it while elasticd is away."""
    keeper, agent = keep(hands), hands.coordinator()
    agent.submit(queue="mine")
    hands.daemon.kill()
    keeper.send_raw(b"x" * 1000)

    pid = agent.call("io.elasticd.Manager.Status", job=hands.name)["job"]["agent_pid"]

    def ticks():
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))

    assert queued(agent) == 1
    before = ticks()
    time.sleep(1)  # a loop that never waits would use what there is of this time
    assert ticks() - before < 5
    keeper.close()
    ask_until(lambda: queued(agent) == 0)


def fails(hands, hand, queue):
    """A task of the queue fails, and somebody waits for it in Join, through an elasticd that then ends."""
    c = Coordinator(hands.daemon.socket, hands.name)
    hands.open.append(c)
    c.submit("x", queue=queue)
    item = hand.work()
    c.send("Join", queue=queue, once=5)
    agent = hands.coordinator()

    def joined():
        try:
            agent.call("Cancel", tasks=[agent.submit(queue=queue, wait_ms=0)])
        except QueueError as e:
            assert e.name == "ResourceExhausted", e
            return True
        return False

    ask_until(joined)
    os.kill(hands.daemon.pid, signal.SIGSTOP)
    hand.fail(item, "it is broken")
    hands.daemon.kill()


def test_the_error_of_a_queue_is_told_to_who_did_not_hear_it(hands):
    hand = hands.hand("worker:0")
    fails(hands, hand, "q")
    c = hands.coordinator()
    for _ in range(2):
        e = c.refused("Join", queue="q", once=5)
        assert e.name == "QueueFailed" and e.text == "it is broken"
    assert c.call("Join", queue="q") == {}, "it is told once"
    assert c.call("Join", queue="q", once=6) == {}
    assert c.call("Join", queue="other", once=5) == {}, "another queue, another number"


def test_two_queues_are_kept_by_one_connection(hands):
    keeper, agent = Coordinator(hands.daemon.socket, hands.name), hands.coordinator()
    hands.open.append(keeper)
    for queue in ("a", "b"):
        agent.submit(queue=queue)
        keeper.send("Keep", queue=queue, more=True)
    assert keeper.receive()["continues"]
    ask_until(lambda: agent.stats()["queued"] == 2)
    handed_on(hands)
    hands.daemon.kill()
    assert (queued(agent, "a"), queued(agent, "b")) == (1, 1)
    keeper.close()
    ask_until(lambda: agent.stats()["queued"] == 0)


def test_descriptors_do_not_pile_up(hands):
    agent = hands.coordinator()
    pid = hands.daemon.agent_pid(hands.name)

    def descriptors():
        return len(os.listdir(f"/proc/{pid}/fd"))

    agent.stats()  # it is connected
    before = descriptors()
    for _ in range(50):
        keep(hands).close()
    ask_until(lambda: descriptors() <= before)
    assert agent.stats()["queued"] == 0


def test_a_submit_that_is_made_again_is_in_once(hands):
    c = hands.coordinator()
    first = c.submit("a", once=7)
    assert c.submit("b") == first + 1
    assert hands.coordinator().submit("a", once=7) == first
    many = {"tasks": [{"payload": "c"}, {"payload": "d"}], "once": (1 << 63) - 1}
    answers = [c.call("SubmitMany", **many) for _ in range(2)]
    assert answers == [{"first": first + 2, "accepted": 2}] * 2
    assert c.stats()["queued"] == 4
    for wrong in (0, -1):
        assert "once" in str(c.refused("Submit", payload="", once=wrong).parameters)


def test_a_repeated_call_is_answered_with_the_tasks_of_the_first(daemon):
    group = Hands(daemon, spec("hang", queue={"max": 2}))
    c, gone = group.coordinator(), group.coordinator()
    call = {"tasks": [{"payload": str(n)} for n in range(5)], "once": 11}
    gone.send("SubmitMany", **call)
    ask_until(lambda: c.stats()["waiting"] == 1)
    gone.close()
    ask_until(lambda: c.stats()["waiting"] == 0)
    assert c.call("SubmitMany", **call) == {"first": 1, "accepted": 2}
    assert c.stats()["queued"] == 2
    group.close()


WORKER = """
    import os, time
    import elasticd
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)

    def work(task):
        print("did", task.payload, flush=True)
        return task.payload

    with elasticd.init() as job:
        job.work(work)
"""


def workers(box, **top):
    return {"name": "work", "roles": [{
        "replicas": 2, "command": [sys.executable, "-c", textwrap.dedent(WORKER)],
        "env": {**ENV, "GO": str(box.path("go"))}}], **top}


def coordinator(box, daemon, text, *args, **more):
    script = box.path("work/outside.py")
    script.parent.mkdir(exist_ok=True)
    script.write_text(textwrap.dedent(text))
    return box.start(sys.executable, str(script), *args, env={**ENV, "ELASTICD_SOCKET": str(daemon.socket)},
                     **more)


SCRIPT = """
    import sys, time
    import elasticd

    with elasticd.connect_queue("work") as q:
        handles = [q.submit(str(n)) for n in range(50)]
        print("submitted", flush=True)
        if sys.argv[1] == "fetches":
            assert handles[0].fetch() == "0"
        elif sys.argv[1] == "joins":
            q.join()
        else:
            sys.stdin.readline()
        handles += [q.submit(str(n)) for n in range(50, 100)]
        assert [h.fetch() for h in handles] == [str(n) for n in range(100)]
        q.join()
        assert q.done()
    print("well")
"""


@pytest.mark.parametrize("what", ["fetches", "joins", "comes back", "is early"])
def test_a_coordinator_in_python_goes_on_behind_a_restart_of_elasticd(box, daemon, what):
    group = Hands(daemon, workers(box))
    r, w = os.pipe()
    p = coordinator(box, daemon, SCRIPT, what, stdin=r)
    os.close(r)
    p.wait_out("submitted\n")
    daemon.kill()
    if what == "is early":
        os.write(w, b"\n")
    daemon.start()
    box.path("go").touch()
    os.write(w, b"\n" if what == "comes back" else b"")
    os.close(w)
    result = p.wait()
    assert result.rc == 0 and result.out.endswith("well\n"), result
    group.close()


MANY = """
    import elasticd

    with elasticd.connect_queue("work") as q:
        handles = []
        for n in range(400):
            handles.append(q.submit(str(n)))
            if n % 100 == 99:
                print("submitted", n, flush=True)
        handles += q.map([str(n) for n in range(400, 800)])
        assert [h.fetch() for h in handles] == [str(n) for n in range(800)]
    print("well")
"""


def test_each_task_is_done_once_whenever_elasticd_ends(box, daemon):
    """The queue is full most of the time: submits wait in elasticd, and their answers go lost with it."""
    group = Hands(daemon, workers(box, queue={"max": 3}))
    box.path("go").touch()
    p = coordinator(box, daemon, MANY)
    for n in (99, 199, 299, 399):
        p.wait_out(f"submitted {n}\n")
        daemon.restart()
    daemon.restart()
    result = p.wait()
    assert result.rc == 0 and result.out.endswith("well\n"), result
    job = daemon.status(group.name)
    done = [line for rank in range(2) for line in daemon.log(job, 0, rank).read_text().splitlines()]
    assert sorted(done) == sorted(f"did {n}" for n in range(800))
    group.close()


AWAY = """
    import sys, threading, time
    import elasticd

    work = elasticd.connect("work")
    q, kept = work.queue("named"), work.queue("named")
    q.submit("x")
    print("ready", flush=True)
    sys.stdin.readline()
    for call in (lambda seconds: q.submit("y", timeout=seconds), lambda seconds: q.join(timeout=seconds)):
        for seconds in (0, 0.5):
            begun = time.monotonic()
            try:
                call(seconds)
                raise AssertionError("there is no elasticd")
            except elasticd.Unavailable as e:
                assert time.monotonic() - begun >= 0.9 * seconds, e
    threading.Timer(0.2, work.close).start()
    try:
        kept.join()
        raise AssertionError("there is no elasticd")
    except elasticd.Cancelled:
        print("well")
"""


def test_calls_wait_for_elasticd_no_longer_than_their_limits(box, daemon):
    group = Hands(daemon, workers(box))
    r, w = os.pipe()
    p = coordinator(box, daemon, AWAY, stdin=r)
    os.close(r)
    p.wait_out("ready\n")
    daemon.kill()
    os.close(w)
    result = p.wait()
    assert result.rc == 0 and result.out.endswith("well\n"), result
    daemon.start()
    group.close()
