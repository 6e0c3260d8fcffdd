# SPDX-License-Identifier: Apache-2.0
"""The work queue by raw varlink: any task of a job may be a coordinator or a worker. Scripts that run as
workers import this file, too: it needs nothing but the standard library."""

import base64
import os
import time

from workers import PATIENCE, STANDARD_IFACE, WORKER_IFACE, Group, Worker, WorkerError

QUEUE_IFACE = "io.elasticd.Queue."


class QueueError(WorkerError):
    PREFIXES = (QUEUE_IFACE, STANDARD_IFACE, WORKER_IFACE)


class Queue(Worker):
    """One connection to worker.sock, agent.sock or control.sock."""

    INTERFACE = QUEUE_IFACE
    ERROR = QueueError

    def __init__(self, path, token=None):
        super().__init__(path)
        self.token = token
        if token is not None:
            self.hello = self.call(WORKER_IFACE + "Hello", token=str(token))

    # What tests say most.

    def submit(self, payload="", **more):
        return self.call("Submit", **carry("payload", payload), **more)["task"]

    def work(self, **more):
        return self.call("Work", **more)["item"]

    def finish(self, item, value="", **more):
        return self.call("Finish", lease=item["lease"], **carry("value", value), **more)

    def fail(self, item, code="Internal", message="no luck", **more):
        return self.call("Fail", lease=item["lease"], code=code, message=message, **more)

    def fetch(self, task, **more):
        return self.call("Fetch", task=task, **more)["outcome"]

    def stats(self, **more):
        return self.call("Stats", **more)["stats"]

    def states(self, **more):
        return {t["task"]: t["state"] for t in self.call("List", **more)["tasks"]}

    def until(self, condition, **more):
        """Stats that fit: asks again and again, there is nothing to wait for."""
        deadline = time.monotonic() + PATIENCE
        while True:
            stats = self.stats(**more)
            if condition(stats):
                return stats
            assert time.monotonic() < deadline, stats


def carry(name, value):
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return {name: value}


def carried(message, name):
    """The bytes of a payload or a value."""
    if message.get("base64") is not None:
        return base64.b64decode(message["base64"])
    return message[name].encode()


class QueueGroup(Group):
    """A running job whose tasks a test can be."""

    def at(self, path, token=None):
        queue = Queue(path, token)
        self.open.append(queue)
        return queue

    def agent(self):
        return self.at(self.daemon.agent_sock(self.name))


def mine(greet=True):
    """In a worker script: a connection of its own task."""
    return Queue(os.environ["ELASTICD_WORKER_SOCKET"], os.environ["ELASTICD_TOKEN"] if greet else None)
