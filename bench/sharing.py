# SPDX-License-Identifier: Apache-2.0
"""Rows of what workers share: beats, barriers, keys, a death. Peers are torch's TCPStore, where torch is
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
    """Of the environment that torchrun is in."""
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
        ns = statistics.median(ask(PYTHON, PEER, "elasticd", "beats", 1, n, env={**os.environ, **PACKAGE}) / n
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
        quick = self.bench.quick
        for clients, n in ((1, 2000 if quick else 20000), (64, 100 if quick else 1000)):
            c, python = (clients * n / statistics.median(self.job(clients, command) for _ in range(3)) * 1e9
                         for command in ([C, "pairs", n], [PYTHON, PEER, "elasticd", "pairs", clients, n]))
            who = f"{clients} client{'s' if clients > 1 else ''}"
            peer = clients * n / ask(self.torch, PEER, "tcpstore", "pairs", clients, n) * 1e9 \
                if self.torch else None
            for ours, language, target in ((python, "Python", ">= 5 times"),
                                           (c, "C", "none: C beside Python")):
                good = ours / peer >= 5 if peer and language == "Python" else None
                self.bench.add(f"put+get pairs, {who}, {language}", ours, "/s", target, good, peer,
                               "TCPStore, Python" if peer else None, ours / peer if peer else None)
            if clients == 1:
                floor = n / ask(sys.executable, PEER, "socket", "pairs", 1, n) * 1e9
                self.bench.add("  pairs of bare round trips on a socket, Python", floor, "/s",
                               "none: the floor", None)

    def death(self):
        times = [self.job(8, [C, "detect"], stop={"signal": "CONT", "timeout": "60s"}) / 1e6
                 for _ in range(self.bench.rounds(12))]
        ms = statistics.median(times)
        self.bench.add("a worker's death -> others' barrier fails", ms, "ms", "< 2 ms", ms < 2,
                       note="from before the kill")

    def close(self):
        self.daemon.stop()
