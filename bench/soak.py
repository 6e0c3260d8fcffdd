#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets 200 jobs run for an hour while whatever can go wrong does, and draws what elasticd and its agents
took meanwhile.

Two workers of each job make steps, log floods, meet at barriers, fail and crash (restless.c). A chance
seeded by --seed kills and stops workers, agents and guards, stops, restarts and preempts jobs, leaves
followers hanging and sends rubbish; elasticd itself is killed twice in the warm-up and once at the end.
No line of a log may be missing or torn, no process may be left, each call has to be answered; memory,
descriptors and what is written must be the same in the last part of the time as in the first."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/e2e"))

import harness  # noqa: E402
from processes import (become_subreaper, cmdline, descendants, pss_kb, reap_strangers,  # noqa: E402
                       stat_of)

WORKER = str(harness.BUILD / "bench/restless")
CONFIG = "[logs]\nkeep_runs = 300\n"
SAID = rb" step, loss and whatever else a training program says on each line of its log"
LINE = re.compile(rb"(\d+)" + SAID)
AGAIN = re.compile(rb"(0)" + SAID + rb"$")  # after a part of the line in which its last start was killed
RUBBISH = (b"\0", b"{}\0", b"[1,2\0", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 1000, b"{" * 5000 + b"\0",
           b'{"method":"io.elasticd.Manager.Start","parameters":{"spec":{"roles":7}}}\0',
           b'{"method":"io.elasticd.Manager.Watch","parameters":{"job":"s1"},"more":true}')
Panel = collections.namedtuple("Panel", "key title unit flat")
# flat: how far the last part may be above the first one, as a share of it and besides.
PANELS = (
    Panel("daemon_kb", "elasticd, memory (PSS)", "KiB", (0.25, 500)),  # its heap has more holes or fewer
    Panel("daemon_fds", "elasticd, descriptors", "", (0.05, 10)),
    Panel("agent_kb", "an agent, memory (PSS, median)", "KiB", (0.10, 100)),
    Panel("agent_max_kb", "the largest agent", "KiB", (0.25, 500)),
    Panel("agent_fds", "an agent, descriptors (mean)", "", (0.05, 1)),
    Panel("processes", "processes of elasticd, agents and guards", "", (0.02, 4)),
    Panel("said_rate", "messages of elasticd and agents, events", "B/s", (0.25, 200)),
    Panel("call_ms", "the slowest call of these seconds", "ms", None),
    Panel("state_kb", "records of runs", "KiB", None),
    Panel("faults", "faults so far", "", None),
)


class Followers:
    """Connections that follow something and read little of it."""

    def __init__(self, daemon, rng):
        self.daemon, self.rng, self.open = daemon, rng, []

    def add(self, method, **parameters):
        v = self.daemon.connect(30)
        v.send(method, more=True, **parameters)
        self.open.append(v)

    def read_some(self):
        for v in self.rng.sample(self.open, len(self.open) // 2):
            with contextlib.suppress(OSError):
                v.sock.setblocking(False)
                v.sock.recv(1 << 16)
        while len(self.open) > 20:
            self.open.pop(self.rng.randrange(len(self.open))).close()

    def close(self):
        for v in self.open:
            v.close()
        self.open = []


class Logs:
    """Looks through logs of attempts that are over: each line once, whole, in order."""

    def __init__(self):
        self.lines, self.files, self.wrong = 0, 0, []

    def check_run(self, log_dir, but=None):
        """All attempts but the one that runs."""
        for attempt in pathlib.Path(log_dir).glob("attempt_*"):
            if but is None or attempt.name != f"attempt_{but}":
                for rank in attempt.iterdir():
                    if (rank / "stdout.log").exists():
                        self.check(rank)

    @staticmethod
    def parts(rank):
        """Closed ones first, each with its number; those in the middle may be gone."""
        closed = sorted(((int(p.name.split(".")[2]), p) for p in rank.glob("stdout.log.*")
                         if not p.name.endswith(".tmp")), key=lambda p: p[0])
        for number, path in closed:
            raw = path.read_bytes()
            if path.suffix == ".zst":
                raw = subprocess.run(["zstd", "-dcq"], input=raw, check=True, stdout=subprocess.PIPE).stdout
            yield number, path, raw
        yield (closed[-1][0] + 1 if closed else 1), rank / "stdout.log", (rank / "stdout.log").read_bytes()

    def check(self, rank):
        expected, previous = 0, 0
        for number, path, raw in self.parts(rank):
            gap = number != previous + 1
            previous = number
            self.files += 1
            *whole, rest = raw.split(b"\n")
            for at, line in enumerate(whole):
                found = LINE.fullmatch(line) or AGAIN.search(line)
                if found is None:
                    if re.fullmatch(rb"end \d+", line):
                        expected = 0  # the agent may start the worker again, which counts from 0
                        continue
                    self.wrong.append(f"{path}:{at + 1}: {line[:200]!r}")
                    return
                n = int(found.group(1))
                if n != expected and n != 0 and not gap:
                    self.wrong.append(f"{path}:{at + 1}: line {n}, expected {expected}")
                    return
                gap, expected = False, n + 1
                self.lines += 1
            if rest and path.name != "stdout.log":
                self.wrong.append(f"{path}: ends in the middle of a line")


class Soak:
    def __init__(self, options):
        self.o, self.rng = options, random.Random(options.seed)
        self.box = harness.Box("soak")
        self.daemon = self.box.new_daemon(name="soak", config=CONFIG).start()
        self.followers = Followers(self.daemon, self.rng)
        self.logs = Logs()
        self.counts, self.samples, self.checked = collections.Counter(), [], set()
        self.sizes, self.slowest = {}, 0
        self.stopped = []  # (when to continue, pid)

    # --- jobs

    def document(self, i):
        doc = {"name": f"s{i}", "roles": [{"replicas": 2, "command": [WORKER]}],
               "restart": {"max": 1000000, "backoff": "200ms", "backoff_max": "2s",
                           "scope": "worker" if i % 3 == 0 else "group"},
               "stop": {"timeout": "2s"}}
        if i % 2:
            doc["logs"] = {"max_size": "256K", "keep": 3}
        return doc

    def jobs(self, ended=False):
        return self.daemon.call("List", ended=ended)["jobs"]

    def keep(self):
        """Starts the jobs that have ended again, and looks through their logs."""
        running = set()
        for job in self.jobs(ended=True):
            if job["state"] in ("succeeded", "failed", "stopped", "preempted"):
                if job["run"] not in self.checked:
                    self.checked.add(job["run"])
                    self.counts[f"ended: {job['state']}"] += 1
                    self.logs.check_run(self.daemon.logs / job["run"])
            else:
                running.add(job["name"])
        for i in range(self.o.jobs):
            if f"s{i}" not in running:
                self.call("Start", spec=self.document(i))

    def call(self, method, **parameters):
        """A call that may come too late, or too early."""
        begun = time.monotonic()
        try:
            return self.daemon.call(method, **parameters)
        except harness.VarlinkError as e:
            self.counts[f"{method}: {e.name}"] += 1
            return None
        finally:
            self.slowest = max(self.slowest, time.monotonic() - begun)

    # --- what goes wrong

    def any_job(self):
        jobs = [j for j in self.jobs() if j.get("agent_pid", 0) > 0]
        return self.rng.choice(jobs) if jobs else None

    def any_worker(self):
        job = self.any_job()
        found = job and self.call("Status", job=job["run"])
        pids = [w["pid"] for w in found["job"]["workers"] if w.get("pid", 0) > 0] if found else []
        return self.rng.choice(pids) if pids else 0

    def send(self, pid, signo, what):
        if pid and stat_of(pid) and what in cmdline(pid):
            os.kill(pid, signo)

    def kill_worker(self):
        self.send(self.any_worker(), self.rng.choice((signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)),
                  "restless")

    def stop_worker(self):
        pid = self.any_worker()
        self.send(pid, signal.SIGSTOP, "restless")
        self.stopped.append((time.monotonic() + self.rng.uniform(1, 20), pid))

    def kill_agent(self):
        job = self.any_job()
        self.send(job["agent_pid"] if job else 0, signal.SIGKILL, "elastic-agent")

    def kill_guard(self):
        job = self.any_job()
        around = descendants(job["agent_pid"]) if job else []
        guards = [p for p in around if "elastic-agent" in cmdline(p)]
        self.send(self.rng.choice(guards) if guards else 0, signal.SIGKILL, "elastic-agent")

    def stop_job(self):
        self.with_job("Stop", timeout_ms=self.rng.choice((0, 500, 5000)))

    def restart_job(self):
        self.with_job("Restart")

    def preempt_job(self):
        self.with_job("Preempt", grace_ms=3000)

    def remove_runs(self):
        ended = [j for j in self.jobs(ended=True) if j["run"] in self.checked]
        for job in self.rng.sample(ended, min(3, len(ended))):
            self.call("Remove", job=job["run"], logs=True)

    def with_job(self, method, **parameters):
        job = self.any_job()
        if job:
            self.call(method, job=job["run"], **parameters)

    def follow(self):
        job = self.any_job()
        if job:
            method, more = self.rng.choice((("Logs", {"follow": True, "lines": 100}), ("Watch", {}),
                                            ("Events", {"follow": True})))
            self.followers.add(method, job=job["run"], **more)
        self.followers.read_some()

    def ask(self):
        """Those that people ask most."""
        for method in self.rng.sample(("Errors", "Why", "Results", "Dump", "Spec"), 2):
            self.with_job(method)

    def rubbish(self):
        agents = list(self.daemon.runtime.glob("jobs/*/agent.sock"))
        path = self.rng.choice([self.daemon.socket, self.daemon.runtime / "metrics.sock", *agents])
        with contextlib.suppress(OSError), harness.Varlink(path, 5) as v:
            v.send_raw(self.rng.choice(RUBBISH))
            if self.rng.random() < 0.5:
                v.sock.recv(1 << 16)

    FAULTS = (kill_worker,) * 6 + (stop_worker,) * 2 + (kill_agent,) * 2 + (kill_guard, stop_job) + \
        (restart_job,) * 2 + (preempt_job, remove_runs, rubbish, ask) + (follow,) * 3

    def fault(self):
        fault = self.rng.choice(self.FAULTS)
        self.counts[fault.__name__] += 1
        fault(self)
        for due, pid in [s for s in self.stopped if s[0] <= time.monotonic()]:
            self.stopped.remove((due, pid))
            self.send(pid, signal.SIGCONT, "restless")

    def kill_daemon(self):
        self.followers.close()
        before = {j["run"] for j in self.jobs()}
        self.daemon.restart()
        lost = before - {j["run"] for j in self.jobs(ended=True)}
        assert not lost, f"elasticd does not know these any more: {lost}"

    # --- what it took

    def sample(self):
        """While no follower reads: up to 4 MiB wait for each reader that is slow."""
        self.followers.close()
        time.sleep(1)
        ours = collections.defaultdict(list)
        for pid in descendants(os.getpid()):
            name = cmdline(pid).split(" ")[0].rpartition("/")[2]
            if name.startswith("elastic"):
                ours[name].append(pid)
        agents = [a for pid in ours["elastic-agent"] if (a := self.taken(pid))]
        daemon = self.taken(self.daemon.pid)
        sizes = {p: size_of(p) for p in self.daemon.state.rglob("*") if p.is_file()}
        now = time.monotonic()
        last = self.begun + self.samples[-1]["s"] if self.samples else self.begun
        grown = self.written(sizes) / (now - last)
        self.samples.append({
            "s": round(now - self.begun, 1), "daemon_kb": daemon[0], "daemon_fds": daemon[1],
            "agent_kb": statistics.median(a[0] for a in agents), "agent_max_kb": max(a[0] for a in agents),
            "agent_fds": round(statistics.mean(a[1] for a in agents), 2),
            "processes": len(agents) + 1, "said_rate": round(grown), "state_kb": sum(sizes.values()) // 1024,
            "call_ms": round(self.slowest * 1000),
            "faults": sum(n for name, n in self.counts.items() if hasattr(self, name)),
            "restarts": sum(j["restarts"] for j in self.jobs()), "load": os.getloadavg()[0]})
        self.slowest = 0
        print(json.dumps(self.samples[-1]), file=self.o.samples, flush=True)

    def written(self, sizes):
        """Bytes that elasticd and agents have said since the last look; runs come and go meanwhile."""
        said = {p: s for p, s in sizes.items() if p.name in ("agent.log", "events.jsonl")}
        said.update((p, size_of(p)) for p in self.box.path("out").iterdir())
        grown = sum(max(0, s - self.sizes.get(p, 0)) for p, s in said.items())
        self.sizes = said
        return grown

    @staticmethod
    def taken(pid):
        """KiB and descriptors; None for one that has just ended."""
        try:
            return pss_kb(pid), len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, AssertionError):
            return None

    # --- the hour

    def run(self):
        self.begun = time.monotonic()
        self.keep()
        next_keep = next_sample = self.begun + 10
        kills = [self.begun + self.o.seconds * share for share in (0.04, 0.08)]
        while (now := time.monotonic()) < self.begun + self.o.seconds:
            self.fault()
            reap_strangers()
            if kills and now >= kills[0]:
                kills.pop(0)
                self.kill_daemon()
            if now >= next_keep:
                self.keep()
                next_keep = now + 3
            if now >= next_sample:
                self.sample()
                next_sample = now + self.o.every
            time.sleep(self.rng.uniform(0, 2 * self.o.pause))
        self.end()

    def end(self):
        """Nobody is left, and no line is missing."""
        self.kill_daemon()
        for _, pid in self.stopped:
            self.send(pid, signal.SIGCONT, "restless")
        for job in self.jobs():
            self.logs.check_run(self.daemon.logs / job["run"], but=job["attempt"])
        self.daemon.call("Shutdown", stop_jobs=True)
        self.daemon.program.popen.wait(300)
        left = [p for p in descendants(os.getpid()) if "elastic" in cmdline(p) or "restless" in cmdline(p)]
        for run in self.daemon.logs.iterdir():
            if run.name not in self.checked:
                self.logs.check_run(run)
        self.wrong = [f"left: {p} {cmdline(p)}" for p in left] + self.logs.wrong + self.growth()

    def part(self, key, begin, end):
        last = self.samples[-1]["s"]
        return statistics.mean(s[key] for s in self.samples if begin * last <= s["s"] <= end * last)

    def growth(self):
        """After the warm-up, the first part beside the last."""
        wrong = []
        for p in PANELS:
            first, last = self.part(p.key, 0.2, 0.4), self.part(p.key, 0.8, 1)
            print(f"{p.title:<45} {first:10.1f} {last:10.1f} {p.unit}")
            if p.flat and last > first * (1 + p.flat[0]) + p.flat[1]:
                wrong.append(f"{p.title}: {first:.1f} {p.unit} at first, {last:.1f} at last")
        return wrong


def size_of(path):
    try:
        return path.stat().st_size
    except OSError:
        return 0


def number(n):
    return f"{n:,.0f}" if n >= 100 or n == int(n) else f"{n:.1f}"


def title(panel):
    return panel.title + (f", {panel.unit}" if panel.unit else "")


def svg(samples):
    """A panel above the other, all with the same time."""
    width, height, left = 900, 64, 90
    end = samples[-1]["s"]
    total = len(PANELS) * (height + 34) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" font-family="sans-serif"'
           ' font-size="12">', "<!-- SPDX-License-Identifier: Apache-2.0 -->",
           f'<rect width="{width}" height="{total}" fill="#fff"/>']
    for i, p in enumerate(PANELS):
        y = 24 + i * (height + 34)
        values = [s[p.key] for s in samples]
        top = max(values) * 1.1 or 1
        points = " ".join(f"{left + s['s'] / end * (width - left - 20):.1f},"
                          f"{y + height - s[p.key] / top * height:.1f}" for s in samples)
        out += [f'<text x="{left}" y="{y - 6}" fill="#222">{title(p)}</text>',
                f'<path d="M{left} {y}V{y + height}H{width - 20}" fill="none" stroke="#bbb"/>',
                f'<text x="{left - 6}" y="{y + 10}" text-anchor="end" fill="#666">{number(top)}</text>',
                f'<text x="{left - 6}" y="{y + height}" text-anchor="end" fill="#666">0</text>',
                f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>']
    for minute in range(0, int(end // 60) + 1, max(1, int(end // 600))):
        x = left + minute * 60 / end * (width - left - 20)
        out.append(f'<text x="{x:.1f}" y="{total - 10}" text-anchor="middle" fill="#666">{minute} min</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.7, help="mean time between two faults, in seconds")
    parser.add_argument("--every", type=float, default=10, help="time between two samples, in seconds")
    parser.add_argument("--out", type=pathlib.Path, default=harness.BUILD / "soak")
    options = parser.parse_args()
    if options.seconds < 20 * options.every:
        parser.error("--seconds: expected at least 20 times --every")
    options.out.mkdir(parents=True, exist_ok=True)
    options.samples = open(options.out / "samples.jsonl", "w")
    become_subreaper()  # agents whose elasticd is killed are still below this process
    soak = Soak(options)
    try:
        soak.run()
    finally:
        soak.box.reap_all()
    (options.out / "soak.svg").write_text(svg(soak.samples))
    soak.box.close()
    print(f"{soak.logs.lines:,} lines in {soak.logs.files:,} files looked through")
    for name, n in sorted(soak.counts.items()):
        print(f"{n:8,} {name}")
    for text in soak.wrong:
        print(f"WRONG: {text}")
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
