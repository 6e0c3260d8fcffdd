# SPDX-License-Identifier: Apache-2.0
"""Varlink by hand, for tests and for scripts that run as workers: the standard library is all it needs."""

import json
import socket


class Error(Exception):
    PREFIXES = ()

    def __init__(self, error, parameters):
        super().__init__(f"{error} {json.dumps(parameters)}")
        self.error = error
        self.name = error
        for prefix in self.PREFIXES:
            self.name = self.name.removeprefix(prefix)
        self.parameters = parameters or {}
        self.message = self.parameters.get("message", "")
        self.missing = self.parameters.get("missing", [])


class Connection:
    """One connection, every message by hand: JSON ended by a NUL byte. Calls may be sent first and their
    answers taken later."""

    INTERFACE = ""
    ERROR = Error

    def __init__(self, path, timeout):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        # With a time limit it would fail at once where many others wait for a server that is slow.
        self.sock.connect(str(path))
        self.sock.settimeout(timeout)
        self.buffer = bytearray()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_raw(self, data):
        self.sock.sendall(data)

    def send(self, method, more=False, oneway=False, **parameters):
        if "." not in method:
            method = self.INTERFACE + method
        message = {"method": method, "parameters": parameters}
        if more:
            message["more"] = True
        if oneway:
            message["oneway"] = True
        self.send_raw(json.dumps(message).encode() + b"\0")
        return self

    def receive_raw(self):
        """The next message as bytes, or None at the end of the connection."""
        looked = 0
        while (end := self.buffer.find(b"\0", looked)) < 0:
            looked = len(self.buffer)
            try:
                data = self.sock.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.buffer += data
        message = bytes(self.buffer[:end])
        del self.buffer[:end + 1]
        return message

    def receive(self):
        raw = self.receive_raw()
        if raw is None:
            raise ConnectionError("the connection was closed")
        return json.loads(raw)

    def _checked(self):
        message = self.receive()
        if message.get("error"):
            raise self.ERROR(message["error"], message.get("parameters"))
        return message

    def reply(self):
        return self._checked().get("parameters") or {}

    def call(self, method, **parameters):
        return self.send(method, **parameters).reply()

    def stream(self, method, **parameters):
        """Yields the parameters of each answer to a "more" call."""
        self.send(method, more=True, **parameters)
        more = True
        while more:
            message = self._checked()
            more = message.get("continues")
            yield message.get("parameters") or {}
