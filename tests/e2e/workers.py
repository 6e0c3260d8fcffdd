# SPDX-License-Identifier: Apache-2.0
"""A worker's side of what workers share, by raw varlink: a test can be any task of a job, since a task is
known by its token, and drive all of them in an order of its own. Scripts that run as workers import this
file, too: it needs nothing but the standard library."""

import base64
import json  # noqa: F401 (this one and socket are for the scripts)
import os
import pathlib
import socket  # noqa: F401
import sys
import time

import raw_varlink

WORKER_IFACE = "io.elasticd.Worker."
STANDARD_IFACE = "org.varlink.service."
PATIENCE = int(os.environ.get("ELASTIC_PATIENCE", 120))
PYTHON = sys.executable
TASK_ENV = ("ELASTICD_WORKER_SOCKET", "ELASTICD_BOARD", "ELASTICD_SLOT", "ELASTICD_TOKEN")


class WorkerError(raw_varlink.Error):
    PREFIXES = (WORKER_IFACE, STANDARD_IFACE)


class Worker(raw_varlink.Connection):
    """One connection to worker.sock."""

    INTERFACE = WORKER_IFACE
    ERROR = WorkerError

    def __init__(self, path, token=None):
        super().__init__(path, PATIENCE)
        self.path, self.token = path, token
        self.hello = self.call("Hello", token=str(token)) if token is not None else None

    def error(self):
        """The next answer, which must be an error."""
        try:
            answer = self.reply()
        except WorkerError as e:
            return e
        raise AssertionError(f"expected an error, got {answer}")

    def refused(self, method, **parameters):
        return self.send(method, **parameters).error()

    def waits(self):
        """True where nothing has come and everything that was sent has been looked at. Only for a
        connection whose first call waits: a second one goes behind it."""
        self.sock.setblocking(False)
        try:
            data = self.sock.recv(1 << 20)
        except BlockingIOError:
            return not self.buffer
        finally:
            self.sock.settimeout(PATIENCE)
        self.buffer += data
        return False

    # What tests say most.

    def put(self, key, value, **more):
        return self.call("Put", key=key, **blob(value), **more)["revision"]

    def get(self, key, **more):
        return entry_bytes(self.call("Get", key=key, **more)["entry"])

    def keys(self, key=""):
        return [e["key"] for e in self.call("List", key=key)["entries"]]


def blob(value):
    """Parameters for bytes, or for text as it is."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return {"value": value}


def entry_bytes(entry):
    if entry.get("base64") is not None:
        return base64.b64decode(entry["base64"])
    return entry["value"].encode()


def environment(pid):
    deadline = time.monotonic() + PATIENCE
    data = b""
    # In the middle of execve() a process shows none at all for a moment, and nothing tells its end.
    while b"ELASTICD_RUN=" not in data and time.monotonic() < deadline:
        data = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    return dict(e.decode(errors="replace").split("=", 1) for e in data.split(b"\0") if b"=" in e)


def me(greet=True):
    """In a worker script: a connection of its own task."""
    token = os.environ["ELASTICD_TOKEN"] if greet else None
    return Worker(os.environ["ELASTICD_WORKER_SOCKET"], token)


def script(body):
    """The command of a worker that runs body (Python) with this module's names."""
    here = str(pathlib.Path(__file__).parent)
    prelude = (f"import sys, os, json, time, signal\nsys.path.insert(0, {here!r})\n"
               "from workers import *\n")
    return [PYTHON, "-u", "-c", prelude + body]


class Group:
    """A running job under a daemon, all of whose tasks a test can be."""

    def __init__(self, daemon, document):
        self.daemon = daemon
        self.name, self.run = daemon.submit(document)
        self.open = []
        daemon.wait(self.name, until="running")

    def task(self, name):
        role, index = name.split(":")
        # As the agent has it: elasticd may not have heard yet of what a test has just seen in Watch.
        for t in self.daemon.status(self.name, live=True)["workers"]:
            if t["role"] == role and t["index"] == int(index):
                return t
        raise AssertionError(f"no task {name}")

    def environment(self, name):
        return environment(self.task(name)["pid"])

    def connect(self, name, greet=True):
        env = self.environment(name)
        return self.at(env["ELASTICD_WORKER_SOCKET"], env["ELASTICD_TOKEN"] if greet else None)

    def at(self, path, token=None):
        worker = Worker(path, token)
        self.open.append(worker)
        return worker

    def all(self, *names):
        return [self.connect(n) for n in names]

    def close(self):
        for worker in self.open:
            worker.close()
