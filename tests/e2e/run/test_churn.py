# SPDX-License-Identifier: Apache-2.0
"""A seeded churn of everything at once that ends with no descriptor, process or file too many."""

import contextlib
import os
import random
import signal

import pytest

from harness import (ALL, SANITIZED, VarlinkError, alive, cmdline, descendants, descriptors, pidfd_of,
                     pss_kb, spec, wait_for)

SEED = int(os.environ.get("ELASTIC_CHURN_SEED", 20240117))
STEPS = int(os.environ.get("ELASTIC_CHURN_STEPS", 400 if ALL else 160)) // (2 if SANITIZED else 1)


class Churn:
    def __init__(self, box, daemon):
        self.box, self.daemon = box, daemon
        self.rng = random.Random(SEED)
        self.active, self.done, self.number, self.log = [], [], 0, []

    def start(self):
        steps = self.rng.choice([
            ["hang"], ["ignore:TERM", "hang"], ["sleep:30", "exit:1"], ["print:x", "lines:200:80"],
            ["setsid-fork:hang", "sleep:20"], ["orphans:20", "hang"], ["daemon:hang", "hang"],
            ["sleep:10", "signal:SEGV"], ["burst:10", "sleep:5", "exit:42"],
        ])
        self.number += 1
        _, run = self.daemon.submit(spec(
            *steps, name=f"c{self.number}", replicas=self.rng.randint(1, 4),
            restart={"max": self.rng.randint(0, 3), "backoff": self.rng.choice([0, "10ms"]),
                     "codes": {"42": "count"}},
            stop={"timeout": self.rng.choice(["0s", "50ms", "200ms"])},
            logs=self.rng.choice([{}, {"tee": 3}, {"redirects": 3, "timestamps": True},
                                  {"redirects": 3, "max_size": "16KiB", "keep": 1}])))
        self.active.append(run)

    def one(self):
        return self.rng.choice(self.active) if self.active else None

    def act(self, name, *args, **kwargs):
        """A call that may come too late."""
        run = self.one()
        if run:
            try:
                self.daemon.call(name, *args, job=run, **kwargs)
            except VarlinkError as e:
                assert e.name in ("FailedPrecondition", "Unavailable", "NotFound", "DeadlineExceeded",
                                  "AlreadyExists"), (name, e)

    def stop(self):
        self.act("Stop")

    def restart(self):
        run = self.one()
        if run:
            try:
                new = self.daemon.call("Restart", job=run)["run"]
                if new not in self.active:
                    self.active.append(new)
            except VarlinkError as e:
                assert e.name in ("FailedPrecondition", "Unavailable", "AlreadyExists"), e

    def scale(self):
        self.act("Scale", replicas=self.rng.randint(1, 5))

    def kill_worker(self):
        self.act("Kill", signal=self.rng.choice(["KILL", "TERM", "USR1", "STOP", "CONT"]),
                 ranks="0")

    def look(self):
        self.act(self.rng.choice(["Status", "Why", "Errors", "Events"]))

    def read(self):
        run = self.one()
        if run:
            with self.daemon.connect() as v:
                v.send("Logs", more=True, job=run, follow=self.rng.random() < 0.5)
                if self.rng.random() < 0.5:
                    v.send("Watch", more=True, job=run)

    def kill_agent(self):
        run = self.one()
        pid = run and self.daemon.status(run).get("agent_pid")
        fd = pidfd_of(pid) if pid else None
        if fd is None:
            return
        # Its run may end meanwhile, and it with that.
        if alive(pid) and "elastic-agent" in cmdline(pid):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)

    def kill_daemon(self):
        self.daemon.restart(self.rng.choice([signal.SIGKILL, signal.SIGTERM]))

    def step(self):
        what = self.rng.choices(
            [self.start, self.stop, self.restart, self.scale, self.kill_worker, self.look, self.read,
             self.kill_agent, self.kill_daemon], [8, 3, 2, 2, 4, 3, 2, 1, 1])[0]
        if len(self.active) > 12:
            what = self.stop
        self.log.append(what.__name__)
        what()
        if self.rng.random() < 0.2:
            known = {j["run"]: j for j in self.daemon.call("List", ended=True)["jobs"]}
            for run in list(self.active):
                assert run in known, f"{run} was forgotten"
                if known[run].get("verdict"):
                    self.active.remove(run)
                    self.done.append(run)

    def finish(self):
        for run in self.active:
            try:
                self.daemon.call("Stop", job=run, timeout_ms=100)
            except VarlinkError as e:
                assert e.name in ("FailedPrecondition", "Unavailable"), e
        for run in self.active + self.done:
            job = self.daemon.wait(run)
            assert job["verdict"], f"{run} has no verdict"


@pytest.mark.slow
@pytest.mark.seconds(900)
def test_nothing_is_left_after_a_churn(box):
    daemon = box.new_daemon(config="[logs]\nkeep_runs = 100000\n").start()
    for _ in range(3):
        daemon.run(spec("print:warm up", logs={"tee": 3}))
    fds, memory = len(descriptors(daemon.pid)), pss_kb(daemon.pid)
    churn = Churn(box, daemon)
    box.note(f"churn seed {SEED}, {STEPS} steps (ELASTIC_CHURN_SEED, ELASTIC_CHURN_STEPS)")
    try:
        for _ in range(STEPS):
            churn.step()
        churn.finish()
    finally:
        box.note(" ".join(churn.log))
    others = [p for p in descendants(os.getpid()) if alive(p) and p != daemon.pid]
    wait_for(lambda: not [p for p in others if alive(p)],
             what=f"the agents to leave, still there: {[cmdline(p) for p in others if alive(p)]}")
    wait_for(lambda: len(descriptors(daemon.pid)) <= fds + 1,
             what=f"descriptors: {fds} before, now {descriptors(daemon.pid)}")
    wait_for(lambda: not any((daemon.runtime / "jobs").iterdir()), daemon.runtime / "jobs",
             what="the runtime directories to go")
    runs = [j["run"] for j in daemon.call("List", ended=True)["jobs"]]
    for run in runs:
        daemon.call("Remove", job=run, logs=True)
    left = [str(p) for d in (daemon.state / "jobs", daemon.logs) for p in d.rglob("*")]
    assert left == [], left[:20]
    if not SANITIZED:
        assert pss_kb(daemon.pid) < memory + 8192
