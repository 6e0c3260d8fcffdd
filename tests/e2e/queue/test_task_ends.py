# SPDX-License-Identifier: Apache-2.0
"""elasticctl task submit, and the queue behind it, where a call has no answer or one that takes back what was
in; and words of the command line that no queue can have."""

import contextlib
import json
import os
import select
import signal
import socket
import threading
import time

import pytest

from harness import CTL, spec
from queues import QueueGroup

NO_UTF8 = b"caf\xe9"


@contextlib.contextmanager
def in_place_of_elasticd(path, answer=None):
    """For one caller: each of its calls has this error, or no answer. Yields what the first one sets."""
    called = threading.Event()

    def serve(server):
        connection, _ = server.accept()
        # It may leave with something unread.
        with connection, contextlib.suppress(ConnectionError):
            while data := connection.recv(65536):
                called.set()
                for _ in range(data.count(b"\0") if answer else 0):
                    connection.sendall(json.dumps(answer).encode() + b"\0")

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield called
        thread.join(timeout=60)
        assert not thread.is_alive()


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


# --- what was in as its queue failed


@pytest.mark.parametrize("once", [{}, {"once": 7}], ids=["plain", "once"])
def test_a_failed_submit_of_many_counts_the_accepted_tasks(daemon, once):
    with contextlib.closing(QueueGroup(daemon, spec("hang", queue={"max": 1}))) as group:
        many = {"tasks": [{"payload": p} for p in "xyz"], **once}
        c, a = group.agent(), group.connect("worker:0")
        c.submit("bad")
        bad = a.work()
        c.send("SubmitMany", **many)
        group.agent().until(lambda s: s["queued"] == 1 and s["waiting"] == 1)
        a.fail(bad)
        e = c.error()
        assert e.name == "QueueFailed" and e.parameters["error"]["task"] == 1
        assert e.parameters["forgotten"] == 1 and c.states() == {1: "failed"}
        if once:  # who has not heard it asks again
            assert c.refused("SubmitMany", **many).parameters == e.parameters


def test_a_failed_submit_through_elasticd_counts_them_too(daemon):
    with contextlib.closing(QueueGroup(daemon, spec("hang", queue={"max": 1}))) as group:
        c, a = group.at(daemon.socket), group.connect("worker:0")
        c.call("Submit", job=group.name, payload="bad")
        bad = a.work()
        c.send("SubmitMany", job=group.name, tasks=[{}, {}])
        group.agent().until(lambda s: s["queued"] == 1 and s["waiting"] == 1)
        a.fail(bad)
        e = c.error()
        assert e.name == "QueueFailed" and e.parameters["forgotten"] == 1


@pytest.mark.parametrize("forgotten,more", [
    (None, ""), (1, "elasticctl: 1 task was accepted, and its result is lost\n"),
    (2, "elasticctl: 2 tasks were accepted, and their results are lost\n")], ids=["none", "one", "two"])
def test_task_submit_counts_them_apart(box, forgotten, more):
    parameters = {"error": {"code": "Internal", "message": "no luck", "task": 4, "worker": "worker:0"}}
    if forgotten:
        parameters["forgotten"] = forgotten
    path = box.path("work/fake.sock")
    with in_place_of_elasticd(path, {"error": "io.elasticd.Queue.QueueFailed", "parameters": parameters}):
        result = box.sh(CTL, f"--socket={path}", "task", "submit", "j", "1", "2", "3")
    assert result.rc == 1 and "task 4 on worker:0: Internal: no luck" in result.err, result
    assert result.err.endswith(f"no luck\n{more}"), result


def test_a_submit_to_a_job_that_has_ended_says_nothing_of_tasks(box, daemon):
    daemon.submit({"name": "j", "roles": [{"command": ["true"]}]})
    daemon.wait("j", until="ended")
    result = box.ctl("task", "submit", "j", "1", "2")
    assert result.rc == 1 and result.out == "" and "accepted" not in result.err, result


# --- an agent that stands still


def test_a_submit_to_a_stopped_agent_times_out(box, daemon):
    daemon.submit({"name": "j", "roles": [{"command": ["sleep", "100000"]}]})
    daemon.wait("j", until="running")
    with stopped(daemon.agent_pid("j")):
        result = box.ctl("task", "submit", "--timeout=100ms", "j", "1")
    assert result.rc == 124 and "timed out after 0.1 s" in result.err, result
    assert "interrupted: the queue has not answered\n" in result.err, result


def test_a_queue_that_is_full_until_the_limit_is_no_refusal(box):
    """Each call is answered right before the end of its own wait, which is no longer than what is left."""
    path = box.path("full.sock")

    def serve(server):
        connection, _ = server.accept()
        full = {"error": "io.elasticd.Queue.ResourceExhausted", "parameters": {"message": "it is full"}}
        answer = {"parameters": {"first": 1, "accepted": 1}}
        # It may leave with a call unanswered.
        with connection, contextlib.suppress(ConnectionError):
            while data := connection.recv(65536):
                waits = json.loads(data[:-1])["parameters"]["wait_ms"]
                time.sleep(max(0, waits - 15) / 1000)
                connection.sendall(json.dumps(answer).encode() + b"\0")
                answer = full

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        result = box.sh(CTL, f"--socket={path}", "task", "submit", "--timeout=300ms", "j", "1", "2")
        thread.join(timeout=60)
    assert result.rc == 124 and "timed out after 0.3 s" in result.err, result
    assert result.out == "1\n" and "interrupted: 1 task was accepted" in result.err, result


def test_one_signal_ends_who_is_not_answered(box):
    path = box.path("work/fake.sock")
    with in_place_of_elasticd(path) as called:
        program = box.start(CTL, f"--socket={path}", "task", "submit", "j", "1")
        assert called.wait(60)
        program.signal(signal.SIGTERM)
        result = program.wait()
    assert result.rc == 143 and "interrupted: the queue has not answered\n" in result.err, result


# --- words that are no text


def test_an_argument_that_is_no_text_is_named(box, daemon):
    daemon.submit({"name": "j", "roles": [{"command": ["sleep", "100000"]}]})
    daemon.wait("j", until="running")
    bad = os.fsdecode(NO_UTF8)
    for args, rc, text in (
            (("submit", f"--queue={bad}", "j", "1"), 1, "queue: expected at most 64 of the characters"),
            (("submit", f"--resource={bad}", "j", "1"), 1, "there is no resource caf\ufffd"),
            (("submit", f"--format={bad}", "j", "1"), 2, "--format: expected text in UTF-8"),
            (("submit", bad, "1"), 1, "caf\ufffd"),
            (("resource", "create", "j", bad, "1"), 1, "name: expected"),
            (("resource", "create", f"--format={bad}", "j", "r", "1"), 2, "--format: expected text in UTF-8"),
            (("join", bad), 1, "caf\ufffd")):
        result = box.ctl("task", *args)
        assert result.rc == rc and text in result.err and "memory" not in result.err, (args, result)
    result = box.ctl("call", f"--workers={bad}", "j")
    assert result.rc == 1 and "caf\ufffd" in result.err, result
    result = box.ctl("call", f"--format={bad}", "j", "1")
    assert result.rc == 2 and "--format: expected text in UTF-8" in result.err, result
    # These are read by people, and what they said is kept as far as it goes.
    assert box.ctl("task", "submit", "j", "1").rc == 0
    assert box.ctl("task", "cancel", f"--reason={bad}", "--all", "j").out == "cancelled 1\n"
    assert "caf\ufffd" in box.ctl("task", "fetch", "j", "1").err
    # A payload may be any bytes.
    assert box.ctl("task", "submit", "j", bad).rc == 0


def test_nothing_is_submitted_before_it_is_known_what_was_there(box):
    """What came in between would count as somebody else's, or as done."""
    path = box.path("held.sock")
    methods, connections = [], []

    def serve(server):
        readable, answered, looks = [server], False, None
        while True:
            # The first look is not answered while there might be another call.
            ready, _, _ = select.select(readable, [], [], None if answered or not methods else 0.5)
            if server in ready:
                connections.append(server.accept()[0])
                readable.append(connections[-1])
            for c in [c for c in ready if c is not server]:
                data = c.recv(65536)
                if not data:
                    return
                methods.extend(json.loads(m)["method"].rpartition(".")[2] for m in data.split(b"\0")[:-1])
                if methods[-1] == "Stats":
                    looks = c
                else:
                    c.sendall(json.dumps({"parameters": {"first": 8, "accepted": 1}}).encode() + b"\0")
            if not ready and not answered and looks:
                answered = True
                looks.sendall(b'{"parameters":{"stats":{"queued":7,"running":0}}}\0')

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        result = box.start(CTL, "--socket", str(path), "task", "submit", "--progress", "j", "1").wait()
        thread.join(timeout=60)
    for c in connections:
        c.close()
    assert result.rc == 0 and result.out == "8\n", result
    assert methods[:2] == ["Stats", "SubmitMany"], methods
    assert "7 queued  0 running  0 done" in result.err, result
