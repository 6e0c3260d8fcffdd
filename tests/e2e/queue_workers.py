# SPDX-License-Identifier: Apache-2.0
"""The work queue by raw varlink: coordinators, and workers that a test is itself, since a task is known by
its token. Scripts that run as workers import this file, too: it needs nothing but the standard library."""

import json
import os
import signal

import raw_varlink
from workers import PATIENCE, PYTHON, STANDARD_IFACE, WORKER_IFACE, Group, Worker, blob, script  # noqa: F401

QUEUE_IFACE = "io.elasticd.Queue."


class QueueError(raw_varlink.Error):
    PREFIXES = (QUEUE_IFACE, WORKER_IFACE, STANDARD_IFACE)

    @property
    def code(self):
        """Of the error that a queue failed with."""
        return self.parameters["error"]["code"]

    @property
    def text(self):
        return self.parameters["error"]["message"]


class Coordinator(raw_varlink.Connection):
    """A connection to agent.sock, control.sock (then the job must be named) or, by Hand, worker.sock."""

    INTERFACE = QUEUE_IFACE
    ERROR = QueueError

    def __init__(self, path, job=None):
        super().__init__(path, PATIENCE)
        self.more = {"job": job} if job else {}

    def send(self, method, **parameters):
        return super().send(method, **self.more, **parameters)

    def refused(self, method, **parameters):
        return self.send(method, **parameters).error()

    def error(self):
        """The next answer, which must be an error."""
        try:
            answer = self.reply()
        except QueueError as e:
            return e
        raise AssertionError(f"expected an error, got {answer}")

    def submit(self, payload="", **more):
        return self.call("Submit", **payload_of(payload), **more)["task"]

    def submit_many(self, payloads, **more):
        answer = self.call("SubmitMany", tasks=[payload_of(p) for p in payloads], **more)
        assert answer["accepted"] == len(payloads)
        return list(range(answer["first"], answer["first"] + len(payloads)))

    def fetch(self, task, **more):
        return self.call("Fetch", task=task, **more)["outcome"]

    def fetch_all(self, tasks, **more):
        found = []
        while len(found) < len(tasks):
            found += self.call("FetchMany", tasks=tasks[len(found):], **more)["outcomes"]
        return found

    def stats(self, **more):
        return self.call("Stats", **more)["stats"]


class Hand(Coordinator):
    """A task of the job, on worker.sock."""

    def __init__(self, path, token):
        super().__init__(path)
        self.call(WORKER_IFACE + "Hello", token=str(token))

    def work(self, **more):
        return self.call("Work", **more)["item"]

    def finish(self, item, value="", **more):
        return self.call("Finish", lease=item["lease"], **blob(value), **more).get("item")

    def fail(self, item, message="asked to", code="Internal", **more):
        return self.call("Fail", lease=item["lease"], code=code, message=message, **more).get("item")


class Hands(Group):
    """A running job all of whose tasks a test can be."""

    def hand(self, name):
        env = self.environment(name)
        hand = Hand(env["ELASTICD_WORKER_SOCKET"], env["ELASTICD_TOKEN"])
        self.open.append(hand)
        return hand

    def coordinator(self):
        c = Coordinator(self.daemon.agent_sock(self.name))
        self.open.append(c)
        return c

    def kill(self, name, signo=signal.SIGKILL):
        """Kills the task's process; returns its pid."""
        pid = self.task(name)["pid"]
        os.kill(pid, signo)
        return pid

    def until(self, condition):
        """Waits until condition(job) is true."""
        return self.daemon.watch(self.name, lambda job, _: condition(job))

    def again(self, name, old):
        """Waits for another process of the task than old."""
        def runs(job):
            return any(f"{t['role']}:{t['index']}" == name and t["state"] == "running" and t.get("pid") != old
                       for t in job["workers"])
        self.until(runs)
        return self.hand(name)


def payload_of(payload):
    """Parameters for a payload."""
    more = blob(payload)
    return {"payload": more["value"]} if "value" in more else more


def my_hand():
    """In a worker script: its own task."""
    return Hand(os.environ["ELASTICD_WORKER_SOCKET"], os.environ["ELASTICD_TOKEN"])


def do(hand, item, state):
    """What the scripts below understand: the words of a payload."""
    word, _, rest = item.get("payload", "").partition(" ")
    if item["kind"] == "init":
        state["init"] = item.get("payload")
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "fail":
        hand.fail(item, rest or "asked to")
    else:
        state["done"] = state.get("done", 0) + 1
        value = dict(state, pid=os.getpid(), echo=rest, index=item["index"],
                     start=item["start"])
        hand.finish(item, json.dumps(value))


def serve():
    """The loop of a worker script: does what payloads say until there will be nothing any more."""
    hand, state = my_hand(), {}
    while True:
        try:
            item = hand.work()
        except QueueError as e:
            if e.name == "Closed":
                return
            raise
        do(hand, item, state)


def server():
    """The command of a worker that does that."""
    return script("from queue_workers import *\nserve()\n")
