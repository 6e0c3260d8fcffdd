# SPDX-License-Identifier: Apache-2.0
"""Rows of groups of several hosts. One agent on this machine stands for each host, as one torchrun with c10d
does beside it. Workers write the time at which they execute. Figures of ours begin before a launcher is
executed; those of torchrun begin with the line of its log that says that it goes to the rendezvous, so that
the start of its interpreter does not count."""

import contextlib
import datetime
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time

import harness
from sharing import C as SHARING, PEER, ask, peer_python

STAMP = str(harness.BUILD / "bench/stamp")
LOOP = str(harness.BUILD / "bench/spawn_loop")
JOINS = re.compile(r"^I(\d{4} \d\d:\d\d:\d\d\.\d+) .*Rendezvous'ing worker group", re.M)
LEASE_S = 2
NEVER_S = 60  # how long torchrun has to start again after the loss of a host
PATIENCE_S = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def links(port, pid):
    """Connections that are established at this port, in the network namespace of a process."""
    with open(f"/proc/{pid}/net/tcp") as f:
        rows = [line.split() for line in f]
    return sum(r[3] == "01" and r[1].endswith(f":{port:04X}") for r in rows)


class Late(RuntimeError):
    """Something did not come in time."""


class Ended(RuntimeError):
    """A launcher has ended that should be there."""


def wait_until(condition, what, seconds=PATIENCE_S):
    """Looks from time to time: to be woken by each line that a worker writes would slow the workers."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Late(f"not in {seconds} s: {what}")
        time.sleep(0.02)
    return value


class Group:
    """Launchers of one kind, "ours" or "torchrun", each as one host of the group."""

    count = 0
    elects = False  # any host may lead

    def __init__(self, bench, kind, nodes, workers=1, worker=None, address="127.0.0.1", log_dir=None,
                 conf=""):
        Group.count += 1
        self.bench, self.kind = bench, kind
        self.port = free_port()
        self.stamps = bench.box.path(f"hosts.{Group.count}")
        self.stamps.touch()
        self.worker = worker or [STAMP, self.stamps]
        self.flags = [f"--nnodes={nodes}", f"--nproc-per-node={workers}", "--max-restarts=1000",
                      f"--rdzv-endpoint={address}:{self.port}", f"--rdzv-id=bench{Group.count}",
                      "--rdzv-backend=c10d"]
        self.conf = f"join_timeout=100,last_call_timeout=1{conf}"
        self.log_dir = log_dir
        self.hosts, self.lost = [], []

    def start(self, address="127.0.0.1", prefix=(), env=None, ctl=harness.CTL):
        is_host = "false" if self.hosts else "true"  # torchrun does not know all addresses of its own
        conf = self.conf if self.elects else f"{self.conf},is_host={is_host}"
        flags = [*self.flags, f"--local-addr={address}", f"--rdzv-conf={conf}", *self.worker]
        if self.kind == "ours":
            argv = [ctl, *self.bench.run_argv(*flags, log_dir=self.log_dir or "/dev/null")[1:]]
        else:
            argv = self.bench.torchrun_argv(*flags, log_dir=self.log_dir)
            env = {"LOGLEVEL": "INFO"}
        p = self.bench.box.start(*prefix, STAMP, self.stamps, *argv, name=self.kind, env=env or {})
        self.hosts.append(p)
        return p

    def agent(self, host):
        """The process of the agent itself; ours has a guard above it."""
        return harness.children(host.pid)[0] if self.kind == "ours" else host.pid

    def joined(self, host):
        """When torchrun went to its first rendezvous; None: not yet."""
        found = JOINS.search(host.err)
        if not found:
            return None
        year = datetime.datetime.now(datetime.timezone.utc).year
        at = datetime.datetime.strptime(f"{year}{found[1]} +0000", "%Y%m%d %H:%M:%S.%f %z")
        return int(at.timestamp() * 1e6) * 1000

    def begun(self, host):
        """When this host began to join."""
        if self.kind == "torchrun":
            return wait_until(lambda: self.joined(host), "torchrun goes to the rendezvous")
        return next(ns for pid, rank, ns in self.lines() if rank == "-" and pid == host.pid)

    def lines(self):
        text = self.stamps.read_text()
        return [(int(pid), rank, int(ns)) for pid, rank, ns in
                (line.split() for line in text[:text.rfind("\n") + 1].splitlines())]

    def starts(self, after, least, seconds=PATIENCE_S):
        """Waits for so many starts of workers after a moment; returns [(time, pid)] of the first ones."""
        def enough():
            for p in self.hosts:
                if p not in self.lost and p.popen.poll() is not None:
                    raise Ended(f"{p.argv} ended with {p.popen.returncode}: {p.err[-2000:]}")
            got = sorted((ns, pid) for pid, rank, ns in self.lines() if rank != "-" and ns > after)
            return got[:least] if len(got) >= least else None

        return wait_until(enough, f"{least} workers of {self.kind} execute", seconds)

    def wait_joined(self, count):
        """Waits until so many hosts are on their way to the rendezvous; they are there a moment later."""
        if self.kind == "ours":
            wait_until(lambda: links(self.port, self.hosts[0].pid) >= count, f"{count} links")
        else:
            for p in self.hosts[:count]:
                self.begun(p)
        time.sleep(0.1 if self.kind == "ours" else 0.5)

    def end(self):
        """Ours leave in order; torchrun, and what was lost on purpose, is killed."""
        ordered = [p for p in self.hosts if p not in self.lost] if self.kind == "ours" else []
        for p in ordered:
            if p.popen.poll() is None:
                p.signal(signal.SIGTERM)
        for p in ordered:
            with contextlib.suppress(AssertionError):
                p.wait(15)
        pids = {p.pid for p in self.hosts if p.popen.poll() is None}
        pids |= {d for pid in pids for d in harness.descendants(pid)}
        with contextlib.suppress(OSError):
            pids |= {pid for pid, rank, _ in self.lines() if rank != "-" and harness.alive(pid) and
                     str(self.stamps) in harness.cmdline(pid)}  # else another process has the number
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for p in self.hosts:
            p.popen.wait(60)


class Wire:
    """Two network namespaces, joined by a bridge, that can be cut apart without a word."""

    HERE, THERE = "10.77.0.1", "10.77.0.2"

    def __init__(self, box):
        self.holders = [box.start("unshare", "--net", "sleep", "3600", name="netns") for _ in range(2)]
        own = os.readlink("/proc/self/ns/net")
        for p in self.holders:
            wait_until(lambda p=p: self.apart(p, own), f"a network namespace: {p.err}", 10)
        here, there = self.holders
        for p, line in ((here, "link set lo up"), (here, "link add br0 type bridge"),
                        (here, f"addr add {self.HERE}/24 dev br0"), (here, "link set br0 up"),
                        (here, f"link add v0 type veth peer name v1 netns {there.pid}"),
                        (here, "link set v0 master br0 up"), (there, "link set lo up"),
                        (there, f"addr add {self.THERE}/24 dev v1"), (there, "link set v1 up")):
            self.ip(p, line)

    @staticmethod
    def apart(p, own):
        if p.popen.poll() is not None:
            raise RuntimeError(f"no network namespace: {p.err.strip()}")
        return os.readlink(f"/proc/{p.pid}/ns/net") != own and harness.cmdline(p.pid).startswith("sleep")

    @staticmethod
    def enter(p):
        return ["nsenter", f"--net=/proc/{p.pid}/ns/net"]

    def ip(self, p, line):
        subprocess.run([*self.enter(p), "ip", *line.split()], check=True, capture_output=True)

    def cut(self):
        self.ip(self.holders[0], "link set v0 down")

    def heal(self):
        self.ip(self.holders[0], "link set v0 up")

    def close(self):
        for p in self.holders:
            p.signal(signal.SIGKILL)
            p.popen.wait(10)


class Hosts:
    """Measures for a Bench."""

    def __init__(self, bench, torchrun):
        self.bench = bench
        self.kinds = ["ours"] + (["torchrun"] if torchrun else [])
        self.torch = peer_python(torchrun)
        if not torchrun:
            print("groups of several hosts: without a peer, there is no torchrun here", flush=True)

    @contextlib.contextmanager
    def group(self, kind, nodes, **kwargs):
        group = Group(self.bench, kind, nodes, **kwargs)
        try:
            yield group
        finally:
            group.end()

    def rounds(self, ours, theirs):
        return {"ours": 5 if self.bench.quick else ours, "torchrun": max(1, theirs // 4)
                if self.bench.quick else theirs}

    def beside(self, what, took, target, good, at_least, note=None):
        """A row of ours, and one of the ratio where torchrun was measured."""
        ms = statistics.median(took["ours"]) / 1e6
        peer = statistics.median(took["torchrun"]) / 1e6 if took.get("torchrun") else None
        self.bench.add(what, ms, "ms", target, good(ms), note=note)
        if peer:
            self.bench.add("  beside torchrun", ms, "ms", f">= {at_least} times faster",
                           peer / ms >= at_least, peer, "torchrun", peer / ms)

    # --- rows

    def join_once(self, kind, n):
        """Nanoseconds from the last host's start to the last start of a worker."""
        with self.group(kind, n) as group:
            for _ in range(n - 1):
                group.start()
            group.wait_joined(n - 1)
            last = group.start()
            starts = group.starts(0, n)
            return starts[-1][0] - group.begun(last)

    def floor(self, n):
        """Nanoseconds that it takes to start and reap so many programs."""
        def one():
            begun = time.monotonic_ns()
            subprocess.run([LOOP, str(n), shutil.which("true")], check=True)
            return time.monotonic_ns() - begun

        return statistics.median(one() for _ in range(20))

    def join(self):
        for n in (2, 4, 8) if self.bench.quick else (2, 4, 8, 16):
            took = {kind: [self.join_once(kind, n) for _ in range(self.rounds(20, 32 // n)[kind])]
                    for kind in self.kinds}
            floor = self.floor(n) / 1e6
            self.beside(f"the last of {n} hosts starts -> all workers execute", took, "< 20 ms + spawn",
                        lambda ms, floor=floor: ms < 20 + floor, 20,
                        note=f"{floor:.1f} ms to spawn as many")

    def failure_gaps(self, kind, n, times):
        gaps = []
        with self.group(kind, n) as group:
            for _ in range(n):
                group.start()
                if kind == "ours" or len(group.hosts) == 1:
                    group.wait_joined(1)
            after, starts = 0, group.starts(0, n)
            for i in range(times):
                time.sleep(0.3 if kind == "ours" else 1.5)  # the group has come to rest
                after = time.time_ns()
                os.kill(starts[i % n][1], signal.SIGKILL)
                starts = group.starts(after, n)
                gaps.append(starts[-1][0] - after)
        return gaps

    def failure(self):
        for n in (2, 8) if self.bench.quick else (2, 8, 16):
            took = {kind: self.failure_gaps(kind, n, self.rounds(20, 12)[kind]) for kind in self.kinds}
            self.beside(f"a worker on one of {n} hosts fails -> all execute again", took, "< 20 ms",
                        lambda ms: ms < 20, 20, note="with the death of the others, who do not resist")

    def loss(self, kind, lose, wire=None, conf=""):
        """Nanoseconds from the loss of the last of three hosts to the start of the other two's workers; or
        what torchrun does instead."""
        here, there = (wire.enter(p) for p in wire.holders) if wire else ((), ())
        addresses = (wire.HERE, wire.HERE, wire.THERE) if wire else ("127.0.0.1",) * 3
        if wire:
            wire.heal()
        with self.group(kind, "2:3", address=addresses[0], conf=conf) as group:
            for prefix, address in zip((here, here, there), addresses):
                group.start(address, prefix)
                if len(group.hosts) == 1:
                    group.wait_joined(1)
            group.starts(0, 3)
            # The group comes to rest; the loss comes at any time between two beats.
            time.sleep(2 if kind == "torchrun" else random.uniform(0.5, 0.5 + LEASE_S / 5))
            group.lost.append(group.hosts[2])
            begun = time.time_ns()
            lose(group, group.hosts[2])
            try:
                return group.starts(begun, 2, NEVER_S)[-1][0] - begun
            except (Late, Ended) as e:
                if kind == "ours":
                    raise
                return f"never in {NEVER_S} s" if isinstance(e, Late) else "the others ended"

    def losses(self, what, lose, lease_s=0, wire=None, peer=True):
        # torchrun's shortest; it does not get over a worker's failure reliably with it
        conf = f",keep_alive_interval=1,keep_alive_max_attempt={lease_s}" if lease_s else ""
        limit, note = 200 if lease_s else 500, "with the death of the others"
        ours = [self.loss("ours", lose, wire, conf) for _ in range(3 if self.bench.quick else 10)]
        ms, worst = (f(ours) / 1e6 - lease_s * 1e3 for f in (statistics.median, max))
        note, theirs = f"at most {worst:.1f}, {note}", None
        if peer and "torchrun" in self.kinds:
            theirs = self.loss("torchrun", lose, wire, conf)
            if isinstance(theirs, str):
                note, theirs = f"{note}; torchrun: {theirs}", None
            else:
                theirs = theirs / 1e6 - lease_s * 1e3
        self.bench.add(what, ms, "ms", f"< {limit} ms", ms < limit, theirs, "torchrun" if theirs else None,
                       theirs / ms if theirs else None, note=note)

    def agent_killed(self):
        self.losses("kill -9 of a member's agent -> the others execute again",
                    lambda group, host: os.kill(group.agent(host), signal.SIGKILL))

    def silence(self):
        def stop(group, host):
            for pid in dict.fromkeys((host.pid, group.agent(host))):
                os.kill(pid, signal.SIGSTOP)

        self.losses("agent and guard stopped -> others execute, beyond lease", stop, LEASE_S, peer=False)
        try:
            wire = Wire(self.bench.box)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as e:
            print(f"link down: no network namespaces with a bridge here: {e}", flush=True)
            return
        try:
            self.losses("link down -> the others execute, beyond lease", lambda *_: wire.cut(), LEASE_S, wire)
        finally:
            wire.close()

    # --- sharing

    def shared(self, hosts, workers, *commands):
        """Nanoseconds, as rank 0 printed them. The first host leads; the last command is all others'."""
        with self.group("ours", hosts, workers=workers) as group:
            for i in range(hosts):
                group.worker = ["--no-python", SHARING, *map(str, commands[min(i, len(commands) - 1)])]
                group.start()
                if i == 0:
                    group.wait_joined(1)
            out = group.hosts[0].wait(PATIENCE_S).out
            numbers = re.findall(r"\b\d+\s*$", out)
            if not numbers:
                raise RuntimeError(f"{commands} printed no time: {out} {group.hosts[0].err}")
            return float(numbers[-1])

    def sharing(self):
        n = 20 if self.bench.quick else 200
        ours = statistics.median(self.shared(16, 4, ("barrier", n)) for _ in range(3)) / 1e6
        peer = ask(self.torch, PEER, "tcpstore", "barrier", 64, n) / 1e6 if self.torch else None
        self.bench.add("barrier of 64 workers on 16 hosts, median", ours, "ms", ">= 5 times faster",
                       peer / ours >= 5 if peer else None, peer, "tcpstore" if peer else None,
                       peer / ours if peer else None)
        n = 2000 if self.bench.quick else 20000
        rates = {"put, get": [], "put that does not wait, get": []}
        theirs = []
        for _ in range(3):
            for what, more in (("put, get", ()), ("put that does not wait, get", ("nowait",))):
                ns = self.shared(2, 1, ("pairs", 0), ("pairs", n, *more))
                rates[what].append(n / ns * 1e9)
            if self.torch:
                theirs.append(n / ask(self.torch, PEER, "tcpstore", "pairs", 1, n) * 1e9)
        peer = statistics.median(theirs) if theirs else None
        for what, rate in rates.items():
            ours, nowait = statistics.median(rate), "does not wait" in what
            self.bench.add(f"pairs from a host that does not lead: {what}", ours, "/s",
                           "at least as fast" if nowait else "none",
                           ours >= peer if nowait and peer else None, peer, "set, get" if peer else None,
                           ours / peer if peer else None)

    # --- memory

    def foreign_build(self):
        """Copies of the programs and their libraries, so that other hosts share no pages with the one that is
        measured; returns (elasticctl, environment)."""
        to = self.bench.log_root / "foreign"
        if not to.exists():
            to.mkdir()
            for path in (harness.CTL, harness.AGENT):
                shutil.copy(path, to)
                out = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
                for library in re.findall(r"=> (/\S+)", out):
                    shutil.copy(library, to)
        return str(to / "elasticctl"), {"ELASTIC_AGENT": str(to / "elastic-agent"),
                                        "LD_LIBRARY_PATH": str(to)}

    def host_memory(self, kind, nodes, which, workers, *steps):
        """MB of one host's launcher."""
        up = self.bench.box.path(f"hosts-up.{Group.count}")
        up.mkdir()
        ctl, env = self.foreign_build()
        with self.group(kind, nodes, workers=workers, log_dir=self.bench.log_root / kind,
                        worker=["--no-python", harness.PUPPET, *steps, f"touch:{up}/%r", "hang"]) as group:
            group.flags.append("--tee=3")
            for i in range(nodes):
                foreign = kind == "ours" and i != which
                p = group.start(**({"ctl": ctl, "env": env} if foreign else {}))
                if i == which:
                    host = p
                if i == 0:
                    group.wait_joined(1)
            wait_until(lambda: len(list(up.iterdir())) >= nodes * workers, f"{nodes * workers} workers")
            time.sleep(0.5)  # the tee has shown the last lines
            pids = [host.pid] + [d for d in harness.descendants(host.pid)
                                 if not harness.cmdline(d).startswith(harness.PUPPET)]
            return sum(harness.pss_kb(pid) for pid in pids) / 1024

    def memory(self):
        lines = "lines:200:80"
        ours = self.host_memory("ours", 2, 1, 8, lines)
        peer = self.host_memory("torchrun", 1, 0, 8, lines) if "torchrun" in self.kinds else None
        self.bench.add("memory (PSS) of a member, 8 workers with tee", ours, "MB", "< 4 MB", ours < 4, peer,
                       "torchrun" if peer else None, peer / ours if peer else None)
        for n in (8, 64):
            ours = self.host_memory("ours", n, 0, 1)
            self.bench.add(f"memory (PSS) of the head of {n} hosts, 1 worker", ours, "MB",
                           "< 10 MB" if n == 64 else "none", ours < 10 if n == 64 else None)
