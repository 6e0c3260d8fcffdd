# SPDX-License-Identifier: Apache-2.0
"""Several agents of this host, each of which is a host of one group."""

import contextlib
import errno
import json
import random
import socket

from harness import wait_for, wait_text

_taken = []  # sockets whose names tell the tests of other processes which ports this one uses


def free_ports(count):
    """The first of so many neighbours that are free, and that no other test uses as long as this process
    lives. They lie below the ports that the kernel gives to programs that ask for any, and below those that
    agents choose."""
    for first in random.sample(range(10000, 20000 - count), 1000):
        with contextlib.ExitStack() as stack:
            names = []
            try:
                for port in range(first, first + count):
                    names.append(stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)))
                    names[-1].bind(f"\0elasticd-e2e-port-{port}")
                    with socket.socket() as s:
                        s.bind(("", port))
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
                continue
            stack.pop_all()
            _taken.extend(names)
            return first
    raise RuntimeError(f"1000 tries found no {count} free ports")


def free_port():
    return free_ports(1)


class Group:
    """A group whose hosts are started one by one."""

    def __init__(self, box, nodes, *flags, port=None, **conf):
        self.box, self.nodes, self.flags = box, nodes, flags
        self.endpoint = f"127.0.0.1:{port or free_port()}"
        self.conf = {"last_call_timeout": 0, "join_timeout": 30, **conf}
        self.hosts = []

    def job(self, steps, replicas=2, **top):
        """A file of the job, for keys that have no flag."""
        rdzv = {"nodes": self.nodes, "endpoints": self.endpoint, "id": "group", "last_call": "0",
                "join_timeout": "30s", **top.pop("rendezvous", {})}
        path = self.box.path(f"job{len(self.hosts)}.json")
        roles = top.pop("roles", None) or [{"name": "worker", "replicas": replicas, "command": steps}]
        path.write_text(json.dumps({"name": "job", "roles": roles, "rendezvous": rdzv, **top}))
        return path

    def host(self, *argv, env=None):
        """Starts elasticctl run on one more host."""
        n = len(self.hosts)
        program = self.box.run_start(f"--log-dir={self.box.path(f'logs{n}')}", *argv, env=env or {})
        self.hosts.append(program)
        return program

    def start(self, steps, replicas=2, **top):
        """The same with a job file. The first host leads, and is a member before the next one starts."""
        host = self.host("--spec", self.job(steps, replicas, **top))
        if len(self.hosts) == 1:
            logs = self.box.path("logs0")
            events = wait_for(lambda: list(logs.glob("*/events.jsonl")), self.box.dir, logs, what="events")
            wait_text(events[0], '"host-joined"')
        return host

    def wait(self):
        """How the hosts' runs end, in the order of their starts."""
        return [h.wait() for h in self.hosts]


def agent_of(program):
    """The process id of the agent below the guard, which is the program itself."""
    def child():
        with open(f"/proc/{program.pid}/task/{program.pid}/children", encoding="ascii") as f:
            return f.read().split()
    return int(wait_for(child, what="the agent")[0])


def variables(path):
    """What a puppet's env: step has written."""
    with open(path, "rb") as f:
        return dict(v.decode().split("=", 1) for v in f.read().split(b"\0") if b"=" in v)
