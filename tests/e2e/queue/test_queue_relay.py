# SPDX-License-Identifier: Apache-2.0
"""The work queue on the control socket: coordinators from outside, whose calls go to the job's agent."""

import contextlib
import json
import os
import resource
import signal
import socket
import time

import pytest

from harness import as_user, is_root, other_user, spec
from queue_workers import QUEUE_IFACE, Coordinator, Hands, QueueError, server
from workers import PATIENCE, STANDARD_IFACE

MIB = 1 << 20
WORKERS = ["Work", "Finish", "Fail", "PutBack", "Look", "Cancels"]


@pytest.fixture
def hands(daemon):
    """A coordinator and two workers, and who opens more."""
    group = Hands(daemon, spec("hang", replicas=2))
    yield group
    group.close()


def outside(group, job=None):
    c = Coordinator(group.daemon.socket, job or group.name)
    group.open.append(c)
    return c


def ask_until(condition):
    """Nobody tells when a connection has ended."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline


def connections_to_agent(group, states=("03",)):
    """How many sockets its agent has accepted on agent.sock; with state 02 those that it is yet to accept."""
    path = str(group.daemon.agent_sock(group.name))
    with open("/proc/net/unix", encoding="ascii") as f:
        return sum(1 for line in f if line.rstrip().endswith(path) and line.split()[5] in states)


def test_a_task_goes_all_the_way(hands):
    c, w = outside(hands), hands.hand("worker:0")
    task = c.submit("what", format="text")
    item = w.work()
    assert (item["task"], item["payload"], item["format"]) == (task, "what", "text")
    c.send("Fetch", task=task)
    w.finish(item, "that")
    outcome = c.reply()["outcome"]
    assert (outcome["state"], outcome["value"], outcome["worker"]) == ("succeeded", "that", "worker:0")
    assert c.call("Join") == {}
    assert c.call("Done")["done"] is True
    assert c.stats()["succeeded"] == 1


def test_the_interface_is_described_there(daemon):
    with Coordinator(daemon.socket) as c:
        assert "io.elasticd.Queue" in c.call(STANDARD_IFACE + "GetInfo")["interfaces"]
        text = c.call(STANDARD_IFACE + "GetInterfaceDescription", interface="io.elasticd.Queue")
        assert "method Submit(" in text["description"]


def test_a_job_must_be_named_and_there(hands):
    with Coordinator(hands.daemon.socket) as c:
        e = c.refused("Stats")
        assert e.name == "InvalidArgument" and e.message.startswith("job: ")
        e = c.refused("Submit", job="nobody", payload="")
        assert e.name == "NotFound" and e.parameters["job"] == "nobody"
    assert outside(hands, hands.run).stats()["queued"] == 0


def test_methods_for_workers_are_refused_to_others(hands):
    c = outside(hands)
    for method in WORKERS:
        more = {"Finish": {"lease": 1}, "Fail": {"lease": 1, "code": "Internal", "message": ""},
                "PutBack": {"lease": 1}, "Look": {"lease": 1}}.get(method, {})
        with Coordinator(hands.daemon.socket) as plain:
            e = plain.refused(method, **more)
        assert e.error == QUEUE_IFACE + "PermissionDenied"
        assert method in e.message and "worker.sock" in e.message
    assert c.stats()["workers"] == 0


@pytest.mark.skipif(not is_root(), reason="needs another user")
def test_only_who_may_control_the_job_may_use_its_queue(hands, tmp_path):
    hands.daemon.box.open_to_all()
    os.chmod(hands.daemon.base, 0o755)
    # It may be refused before it writes.
    program = ("import contextlib, json, socket, sys\n"
               "s = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
               "with contextlib.suppress(BrokenPipeError):\n"
               "    s.sendall(json.dumps({'method': 'io.elasticd.Queue.Stats', 'parameters':"
               " {'job': sys.argv[2]}}).encode() + b'\\0')\nprint(s.recv(65536)[:-1].decode())\n")
    r = hands.daemon.box.sh(*as_user(other_user(), "python3", "-I", "-c", program,
                                     str(hands.daemon.socket), hands.name))
    assert "PermissionDenied" in r.out + r.err or "NotFound" in r.out or "Permission denied" in r.err, r
    assert "stats" not in r.out


def test_a_job_that_is_over_has_no_queue(daemon):
    job = daemon.run(spec("exit:0"))
    with Coordinator(daemon.socket, job["run"]) as c:
        e = c.refused("Submit", payload="x")
    assert e.name == "Unavailable" and "has ended" in e.message


def test_a_vanished_keeper_releases_its_queue(hands):
    c, look = outside(hands), outside(hands)
    keeper = Coordinator(hands.daemon.socket, hands.name)
    keeper.send("Keep", queue="mine", more=True)
    assert keeper.receive()["continues"]
    tasks = [c.submit(queue="mine") for _ in range(3)]
    assert look.stats(queue="mine")["queued"] == 3
    keeper.close()
    ask_until(lambda: look.stats(queue="mine")["queued"] == 0)
    assert all(look.refused("Fetch", task=t).name == "NotFound" for t in tasks)


def test_a_long_wait_ends_with_its_caller(hands):
    look = outside(hands)
    look.stats()
    before = connections_to_agent(hands)
    c = Coordinator(hands.daemon.socket, hands.name)
    task = c.submit("x")
    c.send("Fetch", task=task)
    assert connections_to_agent(hands) == before + 1
    c.close()
    ask_until(lambda: connections_to_agent(hands) == before)
    assert look.stats()["queued"] == 1


def test_many_calls_of_one_client_go_over_one_connection(hands):
    c = outside(hands)
    c.stats()
    before = connections_to_agent(hands)
    for _ in range(300):
        c.send("Submit", payload="p")
    tasks = [c.reply()["task"] for _ in range(300)]
    assert tasks == list(range(tasks[0], tasks[0] + 300))
    assert connections_to_agent(hands) == before


@pytest.mark.parametrize("size", [MIB, 1])
def test_answers_of_several_mebibytes_come_through(hands, size):
    c, w = outside(hands), hands.hand("worker:0")
    data = "\x01" * size
    tasks = [c.submit(data) for _ in range(3)]
    for _ in tasks:
        item = w.work()
        assert item["payload"] == data
        w.finish(item, data)
    for task in tasks:
        c.send("Fetch", task=task)
    for task in tasks:
        outcome = c.reply()["outcome"]
        assert outcome["task"] == task and outcome["value"] == data
    found = c.fetch_all(tasks)
    assert [o["value"] for o in found] == [data] * 3


def test_a_caller_that_does_not_read_holds_up_no_other(hands):
    c, w = outside(hands), hands.hand("worker:0")
    task = c.submit("x")
    w.finish(w.work(), "v" * MIB)
    lazy = outside(hands)
    for _ in range(30):
        lazy.send("Fetch", task=task)
    for _ in range(5):
        assert len(c.fetch(task)["value"]) == MIB
    for _ in range(30):
        assert len(lazy.reply()["outcome"]["value"]) == MIB
    assert lazy.stats()["succeeded"] == 1


def test_one_client_has_calls_to_several_jobs(daemon):
    groups = [Hands(daemon, spec("hang")) for _ in range(3)]
    with Coordinator(daemon.socket) as c:
        for _ in range(4):
            for g in groups:
                c.send("Submit", job=g.name, payload="p")
        assert [c.reply()["task"] for _ in range(12)] == [n for n in (1, 2, 3, 4) for _ in groups]
    for g in groups:
        g.close()


def submit_to_next(c, payload):
    """The socket on which the last agent listened may close a moment after the others."""
    while True:
        try:
            return c.submit(payload)
        except QueueError as e:
            assert e.name == "Unavailable" and "has gone" in e.message


def test_the_end_of_the_agent_ends_its_calls(daemon):
    hands = Hands(daemon, spec("hang", restart={"max": 3}))
    c = outside(hands)
    task = c.submit("x")
    c.send("Fetch", task=task)
    os.kill(hands.daemon.agent_pid(hands.name), signal.SIGKILL)
    e = c.error()
    assert e.name == "Unavailable" and "agent" in e.message
    # The next agent is found by itself.
    assert submit_to_next(c, "y") > task
    assert c.refused("Fetch", task=task).name == "NotFound"
    hands.close()


def test_a_call_to_a_job_that_has_just_been_started_is_answered(daemon):
    for _ in range(5):
        _, run = daemon.submit(spec("hang"))
        with Coordinator(daemon.socket, run) as c:
            assert c.submit("x") == 1
        daemon.call("Stop", job=run)


def test_workers_that_are_scripts_serve_many_from_outside(daemon):
    group = Hands(daemon, {"name": "serving", "roles": [{"replicas": 4, "command": server()}]})
    c = outside(group)
    tasks = c.submit_many([f"do {i}" for i in range(500)])
    assert [json.loads(o["value"])["echo"] for o in c.fetch_all(tasks)] == [str(i) for i in range(500)]
    c.call("Close")
    group.close()


# --- an agent that is there and takes no connections ------------------------------------------------------


class Full(contextlib.ExitStack):
    """The agent is stopped, and has as many connections to accept as there can be."""

    def __init__(self, hands):
        super().__init__()
        self.path = str(hands.daemon.agent_sock(hands.name))
        self.agent = hands.daemon.agent_pid(hands.name)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        self.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        os.kill(self.agent, signal.SIGSTOP)
        self.callback(self.go_on)
        try:
            while self.one_more():
                pass
        except BaseException:
            self.close()
            raise

    def one_more(self):
        s = self.enter_context(socket.socket(socket.AF_UNIX))
        s.setblocking(False)
        try:
            s.connect(self.path)
        except BlockingIOError:
            return False
        return True

    def go_on(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.agent, signal.SIGCONT)

    def empty(self, hands):
        """They are gone, and the agent goes on. It may take no more of them than it has room for, and nothing
        behind them: elasticd is not to come before it has seen their end."""
        elasticd = hands.daemon.pid
        os.kill(elasticd, signal.SIGSTOP)
        try:
            self.close()
            ask_until(lambda: connections_to_agent(hands, ("02", "03")) < 100)
        finally:
            os.kill(elasticd, signal.SIGCONT)


def test_an_agent_whose_backlog_is_full_is_waited_for(hands):
    c = outside(hands)
    with Full(hands) as full:
        for payload in "abc":
            c.send("Submit", payload=payload)
        late = outside(hands).refused("Join", timeout_ms=1)
        assert late.name == "Unavailable" and "takes no more connections" in late.message
        late = outside(hands).refused("Submit", payload="x", wait_ms=0)
        assert late.name == "Unavailable" and "takes no more connections" in late.message
        gone = outside(hands)
        gone.send("Submit", payload="nobody's")
        gone.close()
        c.send("Fetch", task=2)
        # Others are served meanwhile.
        with Coordinator(hands.daemon.socket) as other:
            assert other.refused("Stats", job="nobody").name == "NotFound"
        full.empty(hands)
        assert [c.reply()["task"] for _ in range(3)] == [1, 2, 3]
        w = hands.hand("worker:0")
        for value in "ab":
            w.finish(w.work(), value)
        assert c.reply()["outcome"]["value"] == "b"


def test_an_agent_that_is_lost_with_a_full_backlog_is_followed_by_the_next(daemon):
    hands = Hands(daemon, spec("hang", restart={"max": 3}))
    c = outside(hands)
    with Full(hands) as full:
        c.send("Submit", payload="x")
        assert outside(hands).refused("Join", timeout_ms=1).name == "Unavailable"
        os.kill(full.agent, signal.SIGKILL)
        # The last one's socket may close a moment after the others.
        try:
            assert c.reply()["task"] > 1
        except QueueError as e:
            assert e.name == "Unavailable" and "has gone" in e.message
    assert submit_to_next(c, "y") > 1
    hands.close()
