# SPDX-License-Identifier: Apache-2.0
"""Rows of preemption: from the notice to the step agreed, from the last save to the end of the job, and a
step meanwhile. The floor is a plain signal to as many processes that do nothing else than die of it."""

import json
import signal
import statistics
import time

import harness
from trainees import preempt

C = str(harness.BUILD / "bench/preempt")
TASKS = 64


class Preemption:
    """Measures for a Bench."""

    def __init__(self, bench):
        self.bench = bench
        self.daemon = bench.box.new_daemon(name="preemption").start()
        self.rounds = 0

    def submit(self, replicas, *args):
        return self.daemon.submit({"roles": [{"replicas": replicas, "command": [C, *map(str, args)]}]})

    def one(self):
        """Milliseconds: notice to step agreed, to the last save, and from there to the end of the job."""
        directory = self.bench.box.path(f"preempt.{self.rounds}")
        directory.mkdir()
        self.rounds += 1
        name, run = self.submit(TASKS, "train", directory)
        self.daemon.watch(run, lambda j, _: j["state"] == "running")
        while not all(t.get("step", 0) > 0 for t in self.daemon.status(run, live=True)["workers"]):
            time.sleep(0.05)
        begun = time.time_ns()
        preempt(self.daemon, name)
        job = self.daemon.wait(run)
        if job["state"] != "preempted":
            raise RuntimeError(f"expected a job that was preempted: {job['verdict']}")
        agreed = next(e for e in self.daemon.events(run) if e["event"] == "agreed")["time_us"] * 1000
        saved = max(int((directory / f"saved.{rank}").read_text()) for rank in range(TASKS))
        return (agreed - begun) / 1e6, (saved - begun) / 1e6, (job["ended_us"] * 1000 - saved) / 1e6

    def floor(self):
        """Milliseconds until as many processes have died of a signal and are reaped."""
        programs = [self.bench.box.start("sleep", "600", name="floor") for _ in range(TASKS)]
        time.sleep(0.3)
        begun = time.monotonic()
        for p in programs:
            p.signal(signal.SIGTERM)
        for p in programs:
            p.popen.wait(60)
        return (time.monotonic() - begun) * 1e3

    def notice(self):
        agreed, saved, ended = zip(*(self.one() for _ in range(self.bench.rounds(12))))
        floor = statistics.median(self.floor() for _ in range(self.bench.rounds(4)))
        ms = statistics.median(agreed)
        self.bench.add(f"notice -> step agreed, {TASKS} tasks", ms, "ms", "< 5 ms", ms < 5,
                       note="from before the call")
        ms = statistics.median(saved)
        self.bench.add("  -> the last of them has saved", ms, "ms", "none: steps take 1 ms", None)
        ms = statistics.median(ended)
        self.bench.add("  the last save -> the end of the job", ms, "ms", "< 50 ms", ms < 50, floor,
                       "SIGTERM to as many", floor / ms)

    def step(self):
        def one():
            _, run = self.submit(2, "step", 20000000)
            job = self.daemon.wait(run)
            text = self.daemon.log(job, 0, 0).read_text()
            if job["state"] != "preempted" or not text:
                raise RuntimeError(f"expected a figure, and a job that was preempted: {json.dumps(job)}")
            return float(text)

        ns = statistics.median(one() for _ in range(self.bench.rounds(8)))
        self.bench.add("step with a notice up, below the step agreed", ns, "ns", "< 20 ns", ns < 20)

    def close(self):
        self.daemon.stop()
