# SPDX-License-Identifier: Apache-2.0
"""Rows of the work queue: empty tasks through 64 workers, one task's way, memory, a short queue. Peers are
concurrent.futures' process pool and, where TensorFlow is installed, its coordinator."""

import os
import statistics
import subprocess
import sys

import harness
from sharing import PACKAGE, PYTHON

C = str(harness.BUILD / "bench/work_queue")
PEER = str(harness.ROOT / "bench/work_queue_peer.py")
TENSORFLOW = os.environ.get("ELASTIC_TF_PYTHON", "/opt/venv-tf/bin/python3")
WORKERS, BYTES, WINDOW = 64, 100, 4096


class Queue:
    """Measures for a Bench."""

    def __init__(self, bench):
        self.bench = bench
        self.daemon = bench.box.new_daemon(name="queue").start()

    def job(self, coordinator, worker=(), workers=WORKERS, **queue):
        """Runs a job; returns what its coordinator printed."""
        roles = [{"name": "coordinator", "leader": True, "command": [str(c) for c in coordinator],
                  "env": PACKAGE}]
        if worker:
            roles.append({"name": "worker", "replicas": workers, "env": PACKAGE,
                          "command": [str(c) for c in worker]})
        done = self.daemon.run({"roles": roles, "queue": queue, "compat": {"tf_config": False}})
        text = self.daemon.log(done, 0, 0).read_text()
        if not text:
            raise RuntimeError(f"{coordinator} printed nothing: {done['verdict']}")
        return float(text)

    def many(self, n, window, **queue):
        """Tasks a second, from C."""
        took = statistics.median(self.job([C, "many", n, 0, window, WORKERS], [C, "work"], **queue)
                                 for _ in range(3))
        return n / took * 1e9

    def peer(self, python, kind, workers, n):
        out = subprocess.run([python, PEER, kind, str(workers), str(n), str(BYTES)], check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=600).stdout
        return float(out)

    def rate(self):
        n = 40000 if self.bench.quick else 400000
        rate = self.many(n, WINDOW)
        self.bench.add("empty tasks, 64 workers, C", rate, "/s", "> 50,000 /s", rate > 50000)
        short = self.many(n // 4, WINDOW, max=2)
        self.bench.add("  the same with a queue of 2", short, "/s", "none: beside 64 under way", None,
                       self.many(n // 4, 64), "no limit, 64 under way", None)

    def ours(self, kind, n):
        """Tasks a second, from Python."""
        took = statistics.median(self.job([PYTHON, PEER, kind, WORKERS, n, BYTES],
                                          [PYTHON, PEER, "worker", WORKERS, n, BYTES]) for _ in range(3))
        return n / took * 1e9

    def python(self):
        rate = self.ours("coordinator", 20000 if self.bench.quick else 100000)
        m = 4000 if self.bench.quick else 20000
        single = m / self.peer(PYTHON, "executor", WORKERS, m) * 1e9
        chunks = m / self.peer(PYTHON, "chunks", WORKERS, m) * 1e9
        self.bench.add("tasks of 100 bytes, 64 workers, Python, map() and fetch() of all", rate, "/s",
                       ">= 5 times", rate / single >= 5, single,
                       "ProcessPoolExecutor, submit() and result() one by one", rate / single)
        self.bench.add("  the same beside chunks", rate, "/s", "none: both send many at a time", None, chunks,
                       "ProcessPoolExecutor.map(chunksize=64)", rate / chunks)
        each = self.ours("one_by_one", m)
        self.bench.add("  submit() and fetch() one by one", each, "/s", "none: both send one at a time", None,
                       single, "ProcessPoolExecutor, submit() and result() one by one", each / single)
        if os.path.exists(TENSORFLOW):
            m = 500 if self.bench.quick else 2000
            peer = m / self.peer(TENSORFLOW, "tensorflow", 4, m) * 1e9
            self.bench.add("  map() and fetch() of all, beside TensorFlow with 4 workers", rate, "/s",
                           ">= 10 times", rate / peer >= 10, peer,
                           "ClusterCoordinator, schedule() one by one and fetch() of all", rate / peer)

    def latency(self):
        n = 2000 if self.bench.quick else 20000
        us = statistics.median(self.job([C, "one", n, 1], [C, "work"], 1) for _ in range(3)) / 1e3
        floor = self.peer(sys.executable, "hops", 1, n) / 1e3
        self.bench.add("one task from submit to value, median, C", us, "us", "< 100 us", us < 100, floor,
                       "bare sockets, Python", floor / us)

    def memory(self):
        n = 262144
        full = self.job([C, "fill", n, BYTES]) / 1e6
        idle = self.job([C, "fill", 0, 0]) / 1e6
        self.bench.add("agent with 262,144 tasks of 100 bytes", full, "MB", "< 64 MB", full < 64, idle,
                       "without a task", None)

    def close(self):
        self.daemon.stop()
