# SPDX-License-Identifier: Apache-2.0
"""A connection to a group's head, every message of io.elasticd.Peer by hand."""

import json

PEER = "io.elasticd.Peer."


class Stranger:
    def __init__(self, group, node, **hello):
        self.sock = group.net.nodes[node].socket()
        self.sock.settimeout(60)
        self.sock.connect((group.net.address(0), 29400))
        self.buffer, self.n = b"", 0
        self.hello = {"major": 1, "minor": 0, "group": "tests", "agent": "a" * 32, "boot": "b" * 36,
                      "host": f"stranger{node}", "version": "1", "session": "5" * 32, "resume": 0, **hello}

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

    def wait_end(self):
        """Returns why the head refuses, None where it just closes."""
        why = None
        while message := self.receive():
            if message[0] == "Refuse":
                why = message[1]
        return why
