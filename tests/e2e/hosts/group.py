# SPDX-License-Identifier: Apache-2.0
"""A group of real agents on the hosts of net.py, whose workers must not live twice (tests/tools/solo.c)."""

import collections
import json
import os
import signal

from harness import BUILD, CTL, SLOWER, Unmet, alive, children, wait_for, wait_gone
from net import make_net

SOLO = str(BUILD / "tests/tools/solo")
LEASE_MS = 1000 * SLOWER

Worker = collections.namedtuple("Worker", "round rank host pid world attempt restarts")


class Round:
    """The workers of one round, by the hosts' numbers."""

    def __init__(self, number):
        self.number, self.workers = number, {}

    def add(self, worker):
        """Another host may have had its rank before."""
        self.workers = {i: w for i, w in self.workers.items() if w.rank != worker.rank}
        self.workers[int(worker.host.removeprefix("node"))] = worker

    def hosts(self):
        return set(self.workers)

    def runs_on(self, hosts):
        """Whether all workers of these hosts, and no others, are there and live."""
        mine = list(self.workers.values())
        return (self.hosts() == set(hosts) and sorted(w.rank for w in mine) == list(range(len(mine)))
                and all(w.world == len(mine) and alive(w.pid) for w in mine))


class Group:
    """One worker on each host, which has a child. Node 0 can listen at the endpoint, so it leads."""

    def __init__(self, box, count, nodes, lease_ms=LEASE_MS, restart=None, child=True, **rendezvous):
        self.box, self.net = box, make_net(box, count)
        self.dir = box.path("solo")
        self.dir.mkdir()
        self.records = self.dir / "records"
        self.records.touch()
        self.runs = [None] * count
        self.document = {
            "name": "g",
            "roles": [{"replicas": 1, "command": [SOLO, str(self.dir), *["child"] * child]}],
            "stop": {"timeout": "200ms"},
            "restart": restart or {"max": 0},
            "rendezvous": {
                "nodes": nodes, "endpoints": f"{self.net.address(0)}:29400", "id": "tests",
                "lease": f"{lease_ms}ms", "last_call": "100ms", "join_delay": "50ms", "join_timeout": "60s",
                "prepare_timeout": "10s", **rendezvous,
            },
        }

    # Hosts

    def start(self, *hosts, change=None, **rendezvous):
        """Starts the run of these hosts, with other keys of the specification where given; None: without."""
        for i in hosts or range(len(self.runs)):
            document = json.loads(json.dumps(self.document))
            document["rendezvous"].update(rendezvous)
            document.update(change or {})
            for key in [k for k, v in rendezvous.items() if v is None]:
                del document["rendezvous"][key]
            path = self.box.path(f"spec{i}.json")
            path.write_text(json.dumps(document))
            run = [CTL, "run", f"--log-dir={self.box.path('logs')}", f"--spec={path}"]
            self.runs[i] = self.box.start(*self.net.nodes[i].command(*run), name=f"node{i}")
        return self

    def agent(self, i):
        """The agent's process number; that of run is its guard's."""
        found = children(self.runs[i].pid)
        assert len(found) == 1, f"node{i} has the agents {found}"
        return found[0]

    def kill_agent(self, i, signo=signal.SIGKILL):
        os.kill(self.agent(i), signo)

    def kill_worker(self, worker, signo):
        os.kill(worker.pid, signo)

    def wait_event(self, text, host=0, count=1):
        """Waits until events of that host have that text so often."""
        logs, pattern = self.box.path("logs"), f"g.node{host}_*"
        what = f"an event of node{host} with {text!r}"
        dirs = wait_for(lambda: list(logs.glob(pattern)), self.box.dir, logs, what=what)

        def events():
            return "".join(path.read_text() for path in logs.glob(f"{pattern}/events.jsonl"))

        wait_for(lambda: events().count(text) >= count, logs, *dirs, what=what)

    # Workers

    def lines(self, what):
        rows = [line.split() for line in self.records.read_text().splitlines()]
        return [row[1:] for row in rows if row[0] == what]

    def rounds(self):
        """All so far; the last one that began is the last of them."""
        found = {}
        for number, rank, host, *others in self.lines("start"):
            of = found.setdefault(number, Round(number))
            of.add(Worker(int(number), int(rank), host, *[int(o) for o in others]))
        return list(found.values())

    def wait_round(self, *hosts, after=None, timeout=None):
        """Waits until just these hosts run a round that is not that one; returns it."""

        def there():
            rounds = self.rounds()
            if not rounds or not rounds[-1].runs_on(hosts):
                return None
            return rounds[-1] if not after or rounds[-1].number != after.number else None

        try:
            return wait_for(there, self.dir, timeout=timeout, what=f"workers on just the hosts {hosts}")
        except Unmet:
            raise Unmet(f"no round of just the hosts {hosts}:\n{self.records.read_text()}") from None

    def wait_end_of(self, worker):
        wait_gone(worker.pid)

    def check(self):
        """No two rounds have lived at once."""
        assert not self.lines("twice"), self.records.read_text()

    # The end

    def stop(self, head=0):
        """Stops the group at its head; returns the results of all runs."""
        self.check()
        self.runs[head].signal(signal.SIGTERM)
        results = [run.wait() for run in self.runs if run]
        self.check()
        assert not self.net.processes()
        return results
