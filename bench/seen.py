# SPDX-License-Identifier: Apache-2.0
"""Rows of what people and monitoring systems look at: metrics that are read each second, top, and the picture
of a long run. The targets are shares of a processor and sizes; no peer has the like."""

import json
import os
import pty
import resource
import struct
import subprocess
import termios
import threading
import time
from fcntl import ioctl

import harness
from unix_http import UnixHttp

SCREEN = struct.pack("HHHH", 24, 80, 0, 0)


def cpu_s(pids):
    """What these processes have used so far, all threads together."""
    total = 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
                total += int(f.read().split()[0])
    return total / 1e9


class Seen:
    def __init__(self, bench):
        self.bench, self.box = bench, bench.box

    def daemon(self, name, jobs, workers):
        """An elasticd with so many jobs that run."""
        daemon = self.box.new_daemon(name=name).start()
        runs = [daemon.submit(harness.spec("hang", name=f"j{i}", replicas=workers,
                                           logs={"dir": "/dev/null"}))[1] for i in range(jobs)]
        for run in runs:
            daemon.wait(run, until="running", timeout=120)
        return daemon

    def end(self, daemon):
        daemon.call("Shutdown", stop_jobs=True)
        daemon.program.popen.wait(120)

    def metrics(self):
        """Whole periods of 30 s: in each of them elasticd asks all agents once."""
        daemon = self.daemon("read", 100, 8)
        reader = UnixHttp(daemon.runtime / "metrics.sock")

        def read():
            reader.request("GET", "/metrics")
            return reader.getresponse().read()

        read()
        begun, used = time.monotonic(), cpu_s([daemon.pid])
        for i in range(1, 31 if self.bench.quick else 61):
            time.sleep(max(0, begun + i - time.monotonic()))
            size = len(read())
        percent = (cpu_s([daemon.pid]) - used) / (time.monotonic() - begun) * 100
        mb = harness.pss_kb(daemon.pid) / 1024
        self.bench.add("metrics of 100 jobs, read each second", percent, "%", "< 0.1 % of a processor",
                       percent < 0.1, note=f"{size} bytes")
        self.bench.add("  elasticd's memory (PSS) then", mb, "MB", "< 4 MB", mb < 4)
        self.end(daemon)

    def top(self):
        daemon = self.daemon("topped", 50, 40)
        pids = [daemon.pid] + [p for p in harness.descendants(daemon.pid)
                               if "elastic-agent" in harness.cmdline(p)]
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, SCREEN)
        shown = subprocess.Popen([harness.CTL, f"--socket={daemon.socket}", "top"], stdin=theirs,
                                 stdout=theirs, env=dict(self.bench.env, TERM="xterm"),
                                 start_new_session=True)
        os.close(theirs)
        drawn = threading.Thread(target=self.drain, args=(ours,), daemon=True)
        drawn.start()
        seconds = 10 if self.bench.quick else 20
        for what, key in (("list of jobs", b""), ("one job open", b"\r")):
            os.write(ours, key)
            time.sleep(2)
            begun, used = time.monotonic(), cpu_s(pids)
            time.sleep(seconds)
            percent = (cpu_s(pids) - used) / (time.monotonic() - begun) * 100
            self.bench.add(f"top, 50 jobs, 2,000 workers: {what}", percent, "%", "< 1 % of a processor",
                           percent < 1, note="elasticd and agents")
        os.write(ours, b"qq")
        shown.wait(30)
        drawn.join(30)
        os.close(ours)
        self.end(daemon)

    @staticmethod
    def drain(fd):
        while True:
            try:
                if not os.read(fd, 1 << 16):
                    return
            except OSError:  # the other side is closed
                return

    def plot(self):
        log = self.box.path("long", "events.jsonl")
        log.parent.mkdir()
        with open(log, "w") as f:
            for event in long_run(64, 100, 1000):
                f.write(json.dumps(event) + "\n")
        walls, cpus = [], []
        for _ in range(3):
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            picture = subprocess.run([harness.CTL, "plot", str(log)], check=True, capture_output=True).stdout
            walls.append(time.monotonic() - begun)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        s, mb = min(walls), len(picture) / 1e6
        self.bench.add("plot, 64 workers, 100 attempts, 100,000 events", s, "s", "< 1 s", s < 1,
                       note=f"{min(cpus):.2f} s of CPU")
        self.bench.add("  size of the picture", mb, "MB", "< 2 MB", mb < 2)


def long_run(workers, attempts, events):
    """Events of attempts that last a thousand seconds each, so many events in each of them."""
    seq, now = 0, 1_700_000_000_000_000

    def event(name, attempt, text, at, **more):
        nonlocal seq
        seq += 1
        return {"seq": seq, "time_us": at, "event": name, "job": "long", "run": "long_00000000",
                "attempt": attempt, "text": text, **more}

    for a in range(attempts):
        for state, before in (("starting", "backoff"), ("running", "starting")):
            yield event("state", a, state, now, data={"from": before, "to": state})
        yield event("started", a, f"{workers} workers", now, data={"ranks": f"0-{workers - 1}"})
        for i in range(events - workers - 5):
            rank = i * 7 % workers
            name = ("saved", "heartbeat-missed", "signalled")[i % 3]
            yield event(name, a, f"worker:{rank} {name}", now + 1_000_000 * i, rank=rank)
        end = now + 1_000_000_000
        yield event("worker-failed", a, "worker:3: exit code 1", end, rank=3, data={"rank": 3, "attempt": a})
        for rank in range(workers):
            yield event("worker-ended", a, f"worker:{rank}: exit code 1", end, rank=rank, data={
                "role": "worker", "index": rank, "rank": rank, "state": "failed",
                "started_us": now + 1000 * rank, "ended_us": end, "exit": {"code": 1}})
        yield event("state", a, "backoff", end, data={"from": "running", "to": "backoff"})
        now = end + 10_000_000
