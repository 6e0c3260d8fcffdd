# SPDX-License-Identifier: Apache-2.0
"""elasticctl doctor, and a stranger that speaks with it as another host would (io.elasticd.Doctor)."""

import json
import socket
import threading
import time

from harness import CTL, PATIENCE, descriptors


class Found:
    """What doctor --json printed."""

    def __init__(self, result):
        self.result, self.all = result, result.json
        self.checks = self.all["checks"]
        states = [c["state"] for c in self.checks]
        assert set(states) <= {"ok", "warning", "problem"}
        assert self.all["problems"] == states.count("problem")
        assert self.all["warnings"] == states.count("warning")
        assert result.rc == (1 if "problem" in states else 0), result

    def all_of(self, check):
        return [c for c in self.checks if c["check"] == check]

    def of(self, check, about=None):
        found = [c for c in self.all_of(check) if about in (None, c["about"])]
        assert len(found) == 1, (check, about, self.checks)
        return found[0]

    def expect(self, check, state, *texts, about=None):
        c = self.of(check, about)
        assert c["state"] == state, c
        for text in texts:
            assert text in f"{c['found']}; {c['advice']}", c
        return c


def doctor(box, *args, **kwargs):
    return Found(box.ctl("doctor", "--json", *args, **kwargs))


def doctors(box, *lines, within=()):
    """Several at once, each with arguments of its own; within: the commands of namespaces to be in."""
    started = []
    for i, line in enumerate(lines):
        program = within[i].command(CTL) if within else [CTL]
        started.append(box.start(*program, "doctor", "--json", *line, name=f"doctor{i}"))
    return [Found(program.wait()) for program in started]


def wait_until_leading(program):
    """Waits until the doctor listens at loopback, where they meet."""
    deadline = time.monotonic() + PATIENCE
    listens = False
    while not listens:
        assert program.popen.poll() is None and time.monotonic() < deadline, (program.out, program.err)
        time.sleep(0.02)
        mine = set(descriptors(program.pid).values())
        with open("/proc/net/tcp", encoding="ascii") as f:
            rows = [line.split() for line in f]
        listens = any(row[1].startswith("0100007F:") and row[3] == "0A" and f"socket:[{row[9]}]" in mine
                      for row in rows)


def doctors_with_leader(box, leader, *lines):
    """doctors() where one leads before the others begin: the others only have to reach the leader within
    their timeout."""
    first = box.ctl_start("doctor", "--json", *leader)
    wait_until_leading(first)
    return [*doctors(box, *lines), Found(first.wait())]


class Stranger:
    """Joins a meeting at that port of loopback, and answers what tries the way to it."""

    def __init__(self, port, group="", nodes="2:2", **host):
        self.clock_us, self.id, self.payload = 0, "stranger", True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = {"id": "stranger", "host": "far", "version": "0.0.1", "address": "127.0.0.1",
                     "port": self.listener.getsockname()[1], **host}
        self.group, self.nodes, self.port = group, nodes, port
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, connection.makefile("rb") as file:
            while (call := read(file)):
                answer = {"id": self.id, "time_us": time.time_ns() // 1000 + self.clock_us}
                payload = call["parameters"].get("payload")
                if payload and not self.payload:
                    continue
                write(connection, {"parameters": {**answer, **({"payload": payload} if payload else {})}})

    def meet(self, ways=None, seconds=30):
        """Joins, then reports these ways, or none and leaves. Returns the hosts, or the error's message."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", self.port))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)  # until the other one listens
        with connection, connection.makefile("rb") as file:
            write(connection, {"method": "io.elasticd.Doctor.Join", "parameters": {
                "host": self.host, "group": self.group, "nodes": self.nodes, "wait_ms": seconds * 1000}})
            answer = read(file)
            if "error" in answer:
                return answer["parameters"]["message"]
            hosts = answer["parameters"]["hosts"]
            if ways is not None:
                other = next(h["id"] for h in hosts if h["id"] != self.host["id"])
                write(connection, {"method": "io.elasticd.Doctor.Report", "parameters": {
                    "id": self.host["id"], "ways": [{"id": other, **ways}]}})
                assert "error" not in read(file)
            return hosts


def write(connection, message):
    connection.sendall(json.dumps(message).encode() + b"\0")


def read(file):
    """One message; None at the end."""
    text = b""
    while (byte := file.read(1)) not in (b"", b"\0"):
        text += byte
    return json.loads(text) if text else None
