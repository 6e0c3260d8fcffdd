# SPDX-License-Identifier: Apache-2.0
"""Rows of the head of a very large group: one program (head_load.c) speaks for all hosts but the
head's own."""

import collections
import contextlib
import json
import os
import pathlib
import resource
import signal
import subprocess

import harness
from hosts import free_port

LOAD = str(harness.BUILD / "bench/head_load")
LIBWORKER = str(harness.BUILD / "tests/tools/libworker")
PATIENCE_S = 120

# Milliseconds: wall time, and processor time of the head's agent and of the load program. mb: the agent's
# memory (PSS) after that step. messages, bytes: of the load program's hosts and the head, for each other.
Step = collections.namedtuple("Step", "name wall head load messages bytes mb")


def raise_descriptors(needed):
    """Raises this process's limit, which others inherit. Returns why that is not enough, or None."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        return f"{needed} descriptors are needed, the hard limit is {hard}"
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return None


class Head:
    """A real head with real workers on its host, and the load program."""

    def __init__(self, box, hosts, workers, log_dir, lease="10s"):
        self.workers, port, log_dir = workers, free_port(), pathlib.Path(log_dir)
        up, spec = box.path(f"{log_dir.name}-up"), box.path(f"{log_dir.name}.json")
        up.mkdir()
        spec.write_text(json.dumps({
            "name": "head", "restart": {"max": 1},
            "roles": [{"replicas": workers, "command": [
                LIBWORKER, f"touch:{up}/%a.%r", "if-attempt:0:barrier:all", "if-attempt:0:get:k", "hang"]}],
            "rendezvous": {"nodes": str(hosts), "endpoints": f"127.0.0.1:{port}", "id": "head",
                           "join_timeout": "5m", "lease": lease}}))
        self.up, self.steps = up, {}
        self.run = box.start(harness.CTL, "run", f"--log-dir={log_dir}", f"--spec={spec}", name="head")
        harness.wait_for(lambda: any('"host-joined"' in f.read_text()
                                     for f in log_dir.glob("*/events.jsonl")),
                         log_dir.parent, what="the head is a member")
        self.agent = harness.children(self.run.pid)[0]
        self.load = harness.Popen([LOAD, str(spec), str(port), str(self.agent)], stdin=-1, stdout=-1,
                                  text=True)

    def step(self, name):
        self.load.stdin.write(name + "\n")
        self.load.stdin.flush()
        line = self.load.stdout.readline().split()
        if len(line) != 6 or line[0] != name:
            raise RuntimeError(f"{name}: the load program ended with {self.load.wait()}: {self.run.err}")
        self.steps[name] = Step(name, *map(float, line[1:]), harness.pss_kb(self.agent) / 1024)
        return self.steps[name]

    def wait_own(self, attempt):
        """The workers of the head's own host execute."""
        harness.wait_for(lambda: len(list(self.up.glob(f"{attempt}.*"))) == self.workers, self.up,
                         timeout=PATIENCE_S)

    def life(self, *more):
        """Two attempts, the first of which ends by a failure; more: steps of the second one before the
        group is stopped. Returns how run ended."""
        for name in ("join", "start"):
            self.step(name)
        self.wait_own(0)
        for name in ("arrive", "barrier", "read", "put", "fail", "again"):
            self.step(name)
        self.wait_own(1)
        for name in (*more, "stop", "end", "leave"):
            self.step(name)
        self.load.stdin.close()
        self.load.wait(PATIENCE_S)
        return self.run.wait(PATIENCE_S)

    def close(self):
        self.load.kill()
        self.load.wait()
        with contextlib.suppress(BrokenPipeError):
            self.load.stdin.close()
        self.load.stdout.close()
        harness._ours.discard(self.load.pid)
        if self.run.popen.poll() is None:  # a step has failed
            for pid in (self.run.pid, *harness.descendants(self.run.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.run.popen.wait(PATIENCE_S)


class HeadRows:
    """Measures for a Bench."""

    DESCRIPTORS = 256  # of a head, beside those of its links

    def __init__(self, bench):
        self.bench = bench
        self.hosts, self.workers = 1000 if bench.quick else 4000, 8

    def row(self, what, ours, unit, limit, note):
        """Targets are those of 4,000 hosts; a smaller group has to reach them, too."""
        self.bench.add(what, ours, unit, f"< {limit:,} {unit}", ours < limit, note=note)

    def life(self, name, *more):
        head = Head(self.bench.box, self.hosts, self.workers, self.bench.log_root / name)
        try:
            head.life(*more)
        finally:
            head.close()
        return head.steps

    def measure(self):
        why = raise_descriptors(self.hosts + self.DESCRIPTORS)
        if why:
            print(f"a head of {self.hosts:,} hosts: {why}", flush=True)
            return
        # Each step counts where it took less time; on a notice a stop has more to tell.
        first, second = self.life("head"), self.life("noticed", "notice", "step")
        steps = {name: min(first.get(name, step), step, key=lambda s: s.wall)
                 for name, step in second.items()}
        hosts, workers = f"{self.hosts:,} hosts", f"{self.hosts * self.workers:,} workers"
        for name, what, limit in (
                ("start", f"the last of {hosts} joins -> last START", 1000),
                ("fail", f"a failure -> last STOP, {hosts}", 100),
                ("stop", f"a stop -> last STOP, {hosts}", 100),
                ("barrier", f"the last of {workers} at a barrier -> last answer", 1000),
                ("put", f"{workers} wait for a key: put -> last answer", 1000)):
            step = steps[name]
            self.row(what, step.wall, "ms", limit,
                     f"CPU: {step.head:.0f} ms of the head, {step.load:.0f} ms of the load program")
        self.bench.add(f"{workers} ask at which step to save: CPU of the head", steps["step"].head, "ms",
                       "none", None)
        for name, what in (("arrive", "come to a barrier"), ("read", "begin to wait for a key")):
            self.row(f"{workers} {what}: CPU of the head", steps[name].head, "ms", 1000,
                     "each call by itself")
        most = max(step.mb for step in steps.values())
        self.row(f"memory (PSS) of the head of {hosts}", steps["start"].mb, "MB", 64,
                 f"at most {most:.0f} MB, when all {workers} had called and were started again")

    SIMULATOR = str(harness.BUILD / "tests/unit/agent/hosts/test_simulator")

    def simulate(self):
        """Rounds in virtual time, by all messages and nothing else."""
        rounds = 20 if self.bench.quick else 200
        if not os.path.exists(self.SIMULATOR):
            print("rounds in virtual time: configured without check", flush=True)
            return
        begun = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([self.SIMULATOR], check=False, capture_output=True, text=True, env={
            **os.environ, "SIMULATED_HOSTS": str(self.hosts), "SIMULATED_ROUNDS": str(rounds),
            "SIMULATED_FIGURES": "1", "CK_TIMEOUT_MULTIPLIER": "150"})
        took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begun
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        f = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
        self.row(f"{rounds} rounds of {self.hosts:,} hosts in virtual time: CPU", took, "s",
                 60 * rounds / 200, f"{f['disturbed']} disturbed, {f['tries']} tries at most")
        self.row("messages of a round for each host, at most", f["host_messages"], "", 6 + 10 / self.hosts,
                 f"disturbed {f['disturbed_messages']:.1f}")
        self.row("bytes of a round for each host, at most", f["host_bytes"], "B", 1024,
                 f"disturbed {f['disturbed_bytes']:,.0f}")
