# SPDX-License-Identifier: Apache-2.0
"""A connection to a group's head, every message of io.elasticd.Peer by hand."""

import contextlib
import json
import socket

from group import Group
from harness import wait_for

PEER = "io.elasticd.Peer."


class Stranger:
    def __init__(self, group, node, **hello):
        self.group, self.node = group, node
        self.sock = wait_for(self._connect, group.box.path("out"), what="a head that listens")
        self.sock.settimeout(60)
        self.buffer, self.n = b"", 0
        self.hello = {"major": 1, "minor": 0, "group": "tests", "agent": "a" * 32, "boot": "b" * 36,
                      "host": f"stranger{node}", "version": "1", "session": "5" * 32, "resume": 0, **hello}

    def _connect(self):
        s = self.group.net.nodes[self.node].socket()
        with contextlib.suppress(ConnectionRefusedError):
            s.connect((self.group.net.address(0), 29400))
            return s
        s.close()
        return None

    def send_raw(self, data):
        """Returns whether the head still takes it."""
        try:
            self.sock.sendall(data)
            return True
        except OSError:
            return False

    @staticmethod
    def frame(method, **parameters):
        message = {"method": PEER + method, "oneway": True, "parameters": parameters}
        return json.dumps(message).encode() + b"\0"

    def send(self, method, **parameters):
        return self.send_raw(self.frame(method, **parameters))

    def say(self, method, **parameters):
        """A message with a number."""
        self.n += 1
        return self.send(method, n=self.n, ack=0, **parameters)

    def say_at_once(self, *messages):
        """Messages with numbers, (method, parameters) each, which come together."""
        frames = []
        for method, parameters in messages:
            self.n += 1
            frames.append(self.frame(method, n=self.n, ack=0, **parameters))
        return self.send_raw(b"".join(frames))

    def receive(self):
        """(method, parameters) of the next message; None where the connection has ended."""
        while b"\0" not in self.buffer:
            try:
                data = self.sock.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        return message["method"].removeprefix(PEER), message["parameters"]

    def has_ended(self):
        """Reads what comes in a moment; whether the connection has ended."""
        try:
            data = self.sock.recv(65536)
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        self.buffer += data
        return not data

    def wait(self, wanted):
        """Drops other messages; returns the parameters of that one."""
        while True:
            message = self.receive()
            assert message, f"the connection ended without {wanted}"
            if message[0] == wanted:
                return message[1]

    def say_hello(self):
        self.send("Hello", **self.hello)
        return self.wait("Welcome")

    def join(self, **changes):
        """Says what an agent of this node would say, whose run is there for this moment."""
        listener = self.group.net.nodes[self.node].socket()
        listener.bind((self.group.net.address(self.node), 29400))
        listener.listen()
        self.group.start(self.node, endpoints=self.group.net.address(self.node))
        agent = object.__new__(Stranger)
        agent.sock, agent.buffer, agent.n = listener.accept()[0], b"", 0
        agent.wait("Hello")
        ours = ("major", "minor", "group", "agent", "boot", "host", "version", "resume")
        agent.send("Welcome", run="r", head="d" * 32, word="e" * 32, lease_ms=60000,
                   **{key: self.hello[key] for key in ours})
        join = agent.wait("Join")
        for s in (agent.sock, listener):
            s.close()
        self.group.kill_agent(self.node)
        self.group.runs[self.node].wait()
        self.group.runs[self.node] = None
        self.say_hello()
        self.joined = {k: v for k, v in join.items() if k not in ("n", "ack")}
        self.say("Join", **self.joined, **changes)
        self.wait("Admitted")

    def wait_end(self):
        """Returns why the head refuses, None where it just closes."""
        why = None
        while message := self.receive():
            if message[0] == "Refuse":
                why = message[1]
        return why


class FalseHead(Stranger):
    """Listens at the endpoint of the group, on node 0, and has one member."""

    def __init__(self, group):  # noqa: no connection of its own
        self.group, self.buffer, self.n = group, b"", 0
        self.listener = group.net.nodes[0].socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((group.net.address(0), 29400))
        self.listener.listen()
        self.listener.settimeout(60)

    def has_another(self):
        """Whether a member has connected once more."""
        self.listener.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            self.listener.accept()[0].close()
            return True
        return False

    def admit(self):
        """Returns the Join of a member."""
        self.sock = self.listener.accept()[0]
        self.sock.settimeout(60)
        hello = self.wait("Hello")
        ours = ("major", "minor", "group", "agent", "boot", "host", "version", "resume")
        self.send("Welcome", run="r", head="d" * 32, word="e" * 32, lease_ms=60000,
                  **{key: hello[key] for key in ours})
        join = self.wait("Join")
        self.say("Admitted", known_round=0)
        return join

    def assign(self, join, **changes):
        role = join["roles"][0]["role"]
        self.say("Assign", **{
            "round": 1, "attempt": 0, "restarts": 0, "group_rank": 0, "group_size": 2, "world_size": 2,
            "places": [{"role": role, "replicas": 1, "rank": 0, "role_rank": 0, "role_size": 2}],
            "ports": 0, "master": True, **changes})

    def have_run(self, join):
        """Has the workers of the member run."""
        self.assign(join)
        prepared = self.wait("Prepared")
        self.say("Start", round=1, master_addr=prepared["master_addr"], master_port=prepared["master_port"])
        self.wait("Started")


def third_of_three(box, **keys):
    """A stranger as the third host of a round that runs, with its group and the round's number; keys of the
    specification."""
    group = Group(box, 3, "2:3", last_call="30s")
    group.document.update(keys)
    group.start(0, 1)
    s = Stranger(group, 2)
    # The stranger sends nothing until the round begins, so the head would lose it if others joined later than
    # a lease.
    group.wait_event('"host-joined"', count=2)
    s.join()
    n = s.wait("Assign")["round"]
    s.say("Prepared", round=n)
    s.wait("Start")
    s.say("Started", round=n, time_us=1)
    return group, s, n
