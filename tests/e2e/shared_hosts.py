# SPDX-License-Identifier: Apache-2.0
"""workers.Group with the workers of a job on several hosts: a test of one host's group runs on it, too."""

import copy
import math
import os

from harness import wait_for
from queue_workers import Hands
from queues import QueueGroup
from several_hosts import free_port
from trainees import Trainees, preempt
from workers import Group, Worker

HOSTS = 3


class HostsWorker(Worker):
    """A worker of any host. Where a test puts a key to have the calls before it read, it means those of
    all hosts."""

    group = None

    def put(self, key, value, **more):
        if self.group:
            self.group.flush()
        return super().put(key, value, **more)


class Hosts:
    """The daemons of all hosts, as one: a call about a worker goes to the host that has it."""

    def __init__(self, daemons, name):
        self.daemons, self.name = daemons, name

    def status(self, job, live=False):
        jobs = [d.status(job, live=live) for d in self.daemons]
        return {**jobs[0], "workers": [w for j in jobs for w in j["workers"]]}

    def of(self, worker):
        role, index = worker.split(":")
        return next(d for d in self.daemons for w in d.status(self.name, live=True)["workers"]
                    if w["role"] == role and w["index"] == int(index))

    def call(self, method, **parameters):
        d = self.of(parameters["workers"]) if "workers" in parameters else self.daemons[0]
        return d.call(method, **parameters)

    def wait(self, job, until="ended", timeout=None):
        return self.daemons[0].wait(self.name, until=until, timeout=timeout)

    def events(self, job):
        return [e for d in self.daemons for e in d.events(self.name)]

    def agent_sock(self, job):
        return self.daemons[0].agent_sock(job)

    def agent_sock_of(self, worker):
        return self.of(worker).agent_sock(self.name)

    def watch(self, job, condition, timeout=None):
        def there():
            seen = self.status(job, live=True)
            return seen if condition(seen, None) else None
        return wait_for(there, *[d.box.dir for d in self.daemons], timeout=timeout, what="a state of the job")

    def wait_event(self, job, name, timeout=None, count=1):
        def there():
            return [e for d in self.daemons for e in d.events(job) if e["event"] == name][count - 1:]
        return wait_for(there, self.daemons[0].box.dir, timeout=timeout, what=f"the event {name}")[0]

    def until_attempt(self, job, attempt):
        for d in self.daemons:
            d.until_attempt(job, attempt)


class HostsGroup(Group):
    """The replicas of each role are shared out among up to HOSTS hosts; a leader is on the first."""

    def __init__(self, box, document, hosts=None, started=None):
        counts = [r.get("replicas", 1) for r in document["roles"] if not r.get("leader")]
        self.hosts = hosts or next(h for h in range(HOSTS, 0, -1) if math.gcd(*counts) % h == 0)
        if self.hosts == 1:
            raise AssertionError(f"replicas of {counts} cannot be shared out among hosts")
        document = copy.deepcopy(document)
        for role in document["roles"]:
            if not role.get("leader"):
                role["replicas"] = role.get("replicas", 1) // self.hosts
        document.setdefault("name", "job")
        document["rendezvous"] = {"nodes": str(self.hosts), "endpoints": f"127.0.0.1:{free_port()}",
                                  "id": "group", "join_timeout": "60s", **document.get("rendezvous", {})}
        self.name = document["name"]
        self.open, self.near = [], []
        self.box, self.document = box, document
        self.daemon = Hosts([], self.name)
        for _ in range(started or self.hosts):
            self.add_host()
        for d in self.daemon.daemons:
            d.wait(self.name, until="running")

    def add_host(self):
        """Ranks are in the order of joining; the first host leads."""
        i = len(self.daemon.daemons)
        d = self.box.new_daemon(name=f"host{i}")
        d.start()
        _, run = d.submit(self.document)
        self.run = self.run if i else run
        self.daemon.daemons.append(d)
        self.daemon.daemons[0].wait_event(self.name, "host-joined", count=i + 1)

    def at(self, path, token=None):
        worker = HostsWorker(path, token)
        worker.group = self
        self.open.append(worker)
        return worker

    def flush(self):
        """Has the head read all calls that workers of any host have sent."""
        if not self.near:
            first = [d.status(self.name, live=True)["workers"][0] for d in self.daemon.daemons]
            for w in first:
                worker = self.connect(f"{w['role']}:{w['index']}")
                worker.group = None
                self.near.append(worker)
        for worker in self.near:
            worker.call("States")


class QueueHostsGroup(HostsGroup):
    """queues.QueueGroup with the workers of a job on several hosts."""

    at = QueueGroup.at
    agent = QueueGroup.agent

    def flush(self):
        raise NotImplementedError("tests of the queue wait for its numbers")


class HostsHands(HostsGroup):
    """queue_workers.Hands with the workers of a job on several hosts."""

    hand, coordinator = Hands.hand, Hands.coordinator
    kill, until, again = Hands.kill, Hands.until, Hands.again


class HostsTrainees(HostsGroup):
    """trainees.Trainees with the workers of a job on several hosts: n on each of them."""

    trainee, team, events, agent = Trainees.trainee, Trainees.team, Trainees.events, Trainees.agent

    def __init__(self, box, hosts, n=1, started=None, **document):
        self.fifos, base = [], box.path("fifo")
        for rank in range(hosts * n):
            os.mkfifo(f"{base}.{rank}")
            self.fifos.append(os.open(f"{base}.{rank}", os.O_RDWR | os.O_CLOEXEC))
        command = ["/bin/sh", "-c", f'read code < "{base}.$RANK"; exit "$code"']
        document.setdefault("stop", {"timeout": "10s"})
        roles = [{"command": command, "replicas": hosts * n}]
        super().__init__(box, {"roles": roles, **document}, hosts, started)

    def at(self, path, token=None):
        worker = Worker(path, token)
        self.open.append(worker)
        return worker

    def preempt(self, host, **parameters):
        return preempt(self.daemon.daemons[host], self.name, **parameters)

    def ended(self):
        """The job as each host has it in the end."""
        return [d.wait(self.name) for d in self.daemon.daemons]

    def close(self):
        super().close()
        for fifo in self.fifos:
            os.close(fifo)


class HostsToCome:
    """The daemons of a job that a test has yet to start."""

    def __init__(self, box):
        self.box, self.hosts = box, None

    def start(self, document):
        group = HostsHands(self.box, document)
        self.hosts = group.daemon
        return group

    def __getattr__(self, name):
        return getattr(self.hosts, name)


def queue_group(daemon, document):
    """In place of queues.QueueGroup."""
    return QueueHostsGroup(daemon.box, document)
