# SPDX-License-Identifier: Apache-2.0
"""Rows about sharing: beats, barriers, keys, a death. Peers are torch's TCPStore, where torch is
installed, and multiprocessing's manager."""

import os
import statistics
import subprocess
import sys

import harness

C = str(harness.BUILD / "bench/sharing")
PEER = str(harness.ROOT / "bench/sharing_peer.py")
PYTHON = "/usr/bin/python3"
PACKAGE = {"PYTHONPATH": str(harness.ROOT / "worker/python"),
           "ELASTICD_LIBRARY": str(harness.BUILD / "libelasticd.so.0")}


def peer_python(torchrun):
    """The Python of the environment that torchrun is in."""
    python = os.path.join(os.path.dirname(torchrun), "python3") if torchrun else ""
    return python if os.path.exists(python) else None


def ask(*argv, env=None):
    out = subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.PIPE, text=True, env=env,
                         timeout=600).stdout
    return float(out)


class Sharing:
    """Measures for a Bench."""

    def __init__(self, bench, torchrun):
        self.bench = bench
        self.torch = peer_python(torchrun)
        self.daemon = bench.box.new_daemon(name="sharing").start()

    def job(self, replicas, command, **top):
        """Runs a job; returns what its rank 0 printed."""
        done = self.daemon.run({"roles": [{"replicas": replicas, "command": [str(c) for c in command],
                                           "env": PACKAGE}], **top})
        text = self.daemon.log(done, 0, 0).read_text()
        if not text:
            raise RuntimeError(f"{command} printed nothing: {done['verdict']}")
        return float(text)

    def beats(self):
        ns = statistics.median(ask(C, "board", 20000000) for _ in range(self.bench.rounds(8)))
        self.bench.add("step, beat and a look for notices, from C", ns, "ns", "< 20 ns", ns < 20)
        n = 200000
        ns = statistics.median(self.job(1, [PYTHON, PEER, "elasticd", "beats", 1, n]) / n
                               for _ in range(self.bench.rounds(8)))
        self.bench.add("step, beat and a look for notices, from Python", ns, "ns", "< 1,000 ns", ns < 1000)

    def barriers(self):
        n = 10 if self.bench.quick else 200
        ours = statistics.median(self.job(64, [C, "barrier", n]) for _ in range(3)) / 1e6
        peers = [("manager", sys.executable)] + ([("tcpstore", self.torch)] if self.torch else [])
        for kind, python in peers:
            peer = ask(python, PEER, kind, "barrier", 64, n) / 1e6
            self.bench.add(f"barrier of 64 tasks, median ({kind})", ours, "ms", ">= 5 times faster",
                           peer / ours >= 5, peer, kind, peer / ours)

    def pairs(self):
        for clients in (1, 64):
            self.pairs_of(clients)

    def peer_pairs(self, kind, clients, n, *more):
        """Per second; None where it is not there."""
        python = self.torch if kind == "tcpstore" else sys.executable
        if not python:
            return None
        ns = ask(python, PEER, kind, "pairs", clients, n, *more, env={**os.environ, "SHARING": C})
        return clients * n / ns * 1e9

    def own_pairs(self, language, clients, n, *more):
        command = [C, "pairs", n] if language == "C" else [PYTHON, PEER, "elasticd", "pairs", clients, n]
        return clients * n / self.job(clients, [*command, *more]) * 1e9

    def pairs_of(self, clients):
        """Plain pairs are two answered round trips of ours, and one of a TCPStore's, whose set() does not
        wait: the row of a put that does not wait compares like with like, as to the puts. A pipeline of one
        pair is one round trip, and both are answered."""
        n = (6400 if clients == 1 else 800) if self.bench.quick else 32000 if clients == 1 else 3200
        kinds = {(who, at_once): (at_once,) if at_once else ()
                 for who in ("Python", "C") for at_once in (0, 1, 16, "nowait")}
        kinds |= {("tcpstore", 0): (), ("tcpstore", 16): (16,), ("socket", 2): (2,), ("socket", 1): (1,)}
        took = {kind: [] for kind in kinds}
        for i in range(3):  # in turns, so that a busy moment slows no kind alone
            for kind in list(kinds)[::-1 if i % 2 else 1]:
                who = kind[0]
                measure = self.own_pairs if who in ("Python", "C") else self.peer_pairs
                took[kind].append(measure(who, clients, n, *kinds[kind]))
        rate = {kind: statistics.median(took[kind]) if None not in took[kind] else None for kind in kinds}
        plain, many = ("set, get", rate["tcpstore", 0]), ("multi_set/get of 16", rate["tcpstore", 16])
        who = f"{clients} client{'s' if clients > 1 else ''}"
        for at_once, name, peer in ((0, "put, get", plain), ("nowait", "put that does not wait, get", plain),
                                    (1, "both in a pipeline", plain), (16, "16 pairs at once", plain)):
            self.pairs_row(f"pairs, {who}, Python: {name}", rate["Python", at_once], peer,
                           1 if clients == 1 else 2)
            self.pairs_row(f"  from C: {name}", rate["C", at_once], peer, None)
        self.pairs_row("  from Python, beside many at once, too", rate["Python", 16], many, None)
        for trips in 2, 1:
            self.pairs_row(f"  floor: bare round trips, {trips} a pair", rate["socket", trips], plain, None)

    def pairs_row(self, what, ours, peer, target):
        name, value = peer
        ratio = ours / value if value else None
        self.bench.add(what, ours, "/s", f">= {target} times" if target else "none",
                       ratio >= target if target and ratio else None, value, name if value else None, ratio)

    def death(self):
        times = [self.job(8, [C, "detect"], stop={"signal": "CONT", "timeout": "60s"}) / 1e6
                 for _ in range(self.bench.rounds(12))]
        ms = statistics.median(times)
        self.bench.add("a worker's death -> others' barrier fails", ms, "ms", "< 2 ms", ms < 2,
                       note="from before the kill")

    def close(self):
        self.daemon.stop()
