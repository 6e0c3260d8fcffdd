#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what elasticd has to reach, each row beside its peer in the same run where that is installed
(torchrun, supervisord): a table with ratios and verdicts, and JSON.

Rows are measured in turns, ours and the peer's, and the median counts. ELASTIC_BUILD names the build,
ELASTIC_TORCHRUN and ELASTIC_SUPERVISORD the peers."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/e2e"))

import harness  # noqa: E402
from etcd import EtcdRows  # noqa: E402
from head import HeadRows  # noqa: E402
from hosts import Hosts  # noqa: E402
from preempt import Preemption  # noqa: E402
from seen import Seen  # noqa: E402
from sharing import Sharing  # noqa: E402
from work_queue import Queue  # noqa: E402

BUILD = harness.BUILD
TRUE = shutil.which("true")
LIBWORKER = str(BUILD / "tests/tools/libworker")
WORKERS = ("puppet", "libworker")  # programs that are no part of what is measured
TOOL = {name: str(BUILD / "bench" / name) for name in ("head_load", "mortal", "preempt", "restart_loop",
                                                        "sharing", "spawn_loop", "stamp", "status_client",
                                                        "writer")}


def find(variable, *candidates):
    for path in (os.environ.get(variable), *candidates):
        if path and os.access(path, os.X_OK):
            return path
    return None


TORCHRUN = find("ELASTIC_TORCHRUN", "/opt/venv-torch/bin/torchrun", shutil.which("torchrun"))
SUPERVISORD = find("ELASTIC_SUPERVISORD", shutil.which("supervisord"))


class Cost:
    """What a program and all it waited for took."""

    def __init__(self, argv, env=None, stdout=subprocess.DEVNULL, cwd=None):
        begun = time.monotonic()
        p = harness.Popen([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, cwd=cwd)
        self.err = p.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(p.pid, 0)
        self.wall = time.monotonic() - begun
        p.stderr.close()
        p.returncode = os.waitstatus_to_exitcode(status)
        harness._ours.discard(p.pid)
        self.rc = p.returncode
        self.cpu = usage.ru_utime + usage.ru_stime
        if self.rc != 0:
            raise RuntimeError(f"{argv} ended with {self.rc}: {self.err[-2000:]}")


def interleave(rounds, **kinds):
    """Runs each kind once a round, in turns; returns lists of what they returned."""
    results = {name: [] for name in kinds}
    for i in range(rounds):
        names = list(kinds)
        if i % 2:
            names.reverse()
        for name in names:
            if kinds[name]:
                results[name].append(kinds[name]())
    return results


class Bench:
    def __init__(self, quick):
        self.quick = quick
        self.rows = []
        self.box = harness.Box("bench")
        self.env = self.box.env
        self.log_root = pathlib.Path(tempfile.mkdtemp(
            prefix="e2e-bench-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))

    def rounds(self, n):
        return max(3, n // 4) if self.quick else n

    def add(self, what, ours, unit, target, good, peer=None, peer_name=None, ratio=None, note=None):
        row = {"what": what, "ours": ours, "unit": unit, "target": target,
               "good": good if good is None else bool(good),  # None: no target
               "peer": peer, "peer_name": peer_name, "ratio": ratio, "note": note}
        self.rows.append(row)
        print(format_row(row), flush=True)

    def run_argv(self, *args, log_dir="/dev/null"):
        return [harness.CTL, "run", f"--log-dir={log_dir}", *args]

    def torchrun_argv(self, *args, log_dir=None):
        return [TORCHRUN, "--no-python", *([f"--log-dir={log_dir}"] if log_dir else []), *args]

    def timed(self, argv):
        return lambda: Cost(argv, env=self.env).wall

    # --- rows

    def two_trivial_workers(self):
        ours = self.timed(self.run_argv("--nproc-per-node=2", TRUE))
        ours()
        times = interleave(self.rounds(40), ours=ours)["ours"]
        peer = None
        if TORCHRUN:
            theirs = self.timed(self.torchrun_argv("--nproc-per-node=2", TRUE))
            theirs()
            both = interleave(self.rounds(8), ours=ours, theirs=theirs)
            times += both["ours"]
            peer = statistics.median(both["theirs"]) * 1e3
        ms = statistics.median(times) * 1e3
        self.add("run of 2 trivial workers, whole", ms, "ms", "< 20 ms", ms < 20)
        if peer:
            self.add("  beside torchrun", ms, "ms", ">= 50 times faster", peer / ms >= 50, peer,
                     "torchrun", peer / ms)

    def many_trivial_workers(self):
        ours = self.timed(self.run_argv("--nproc-per-node=256", TRUE))
        loop = self.timed([TOOL["spawn_loop"], "256", TRUE])
        ours(), loop()
        got = interleave(self.rounds(20), ours=ours, loop=loop)
        a, b = (statistics.median(got[k]) * 1e3 for k in ("ours", "loop"))
        self.add("256 trivial workers launched and reaped", a, "ms", "< 1.15 x spawn loop", a / b < 1.15, b,
                 "posix_spawn loop", a / b)

    def restarts(self, argv):
        """Milliseconds from the moment before a worker dies to the next attempt's first worker, and to its
        last, for each restart."""
        path = self.box.path("stamps")
        path.unlink(missing_ok=True)
        lives = 5 if self.quick else 12
        Cost([*argv(lives), TOOL["mortal"], path, str(lives), "60"], env=self.env)
        starts, death = {}, {}
        for line in path.read_text().splitlines():
            what, _, attempt, ns = line.split()
            if what == "s":
                starts.setdefault(int(attempt), []).append(int(ns))
            else:
                death[int(attempt)] = int(ns)
        return [[(which(starts[a + 1]) - death[a]) / 1e6 for which in (min, max)] for a in range(lives)]

    def death_to_restart(self):
        def medians(argv):
            return lambda: [statistics.median(gaps) for gaps in zip(*self.restarts(argv))]

        got = interleave(self.rounds(12),
                         ours=medians(lambda n: self.run_argv("--nproc-per-node=8", f"--max-restarts={n}")),
                         loop=medians(lambda n: [TOOL["restart_loop"], "8"]))
        (ms, whole), (_, loop) = ([statistics.median(c) for c in zip(*got[k])] for k in ("ours", "loop"))
        peer = None
        if TORCHRUN:
            peer = medians(lambda n: self.torchrun_argv("--nproc-per-node=8", f"--max-restarts={n}"))()[0]
        self.add("worker death -> next attempt, 8 workers", ms, "ms", "< 5 ms", ms < 5, peer,
                 "torchrun" if peer else None, peer / ms if peer else None,
                 note="with the death of the other 7, who do not resist")
        self.add("  until all 8 execute again", whole, "ms", "< 1.2 x such a loop in C", whole / loop < 1.2,
                 loop, "kill, reap, spawn loop", whole / loop)

    def agent_memory(self):
        for count, limit in ((8, 3), (64, 5)):
            ours = self.group_pss(self.run_argv("-t", "3", f"--nproc-per-node={count}",
                                                log_dir=self.log_root / "m"), count)
            peer = None
            if TORCHRUN:
                peer = self.group_pss(self.torchrun_argv("-t", "3", f"--nproc-per-node={count}",
                                                         log_dir=self.log_root / "t"), count)
            self.add(f"agent memory (PSS), {count} workers with tee", ours, "MB", f"< {limit} MB",
                     ours < limit, peer, "torchrun" if peer else None, peer / ours if peer else None)
        argv = self.run_argv("-t", "3", "--nproc-per-node=64", log_dir=self.log_root / "m")
        ours = self.group_pss(argv, 64, LIBWORKER, "put:k/%r=v", "barrier:all", "get:k/0", "step:1")
        self.add("agent memory (PSS), 64 workers that all share", ours, "MB", "< 5 MB", ours < 5)

    def group_pss(self, argv, count, *worker):
        """MB of everything but the workers, which print lines, or do the steps of worker's first program."""
        up = self.box.path("up")
        up.mkdir(exist_ok=True)
        for f in up.iterdir():
            f.unlink()
        p = self.box.start(*argv, *(worker or (harness.PUPPET, "lines:200:80")), f"touch:{up}/%r", "hang",
                           name="memory")
        harness.wait_for(lambda: len(list(up.iterdir())) >= count, up, timeout=60)
        if not worker:
            p.wait_out("199 ", 60)
        pids = [p.pid] + [d for d in harness.descendants(p.pid) if not exe(d).startswith(WORKERS)]
        mb = sum(harness.pss_kb(pid) for pid in pids) / 1024
        p.signal(signal.SIGTERM)
        p.popen.wait(60)
        return mb

    def daemon_memory(self):
        daemon = self.box.new_daemon(name="hundred").start()
        runs = [daemon.submit(harness.spec("hang", name=f"j{i}", logs={"dir": "/dev/null"}))[1]
                for i in range(100)]
        for run in runs:
            daemon.wait(run, until="running", timeout=60)
        for run in runs:
            daemon.status(run)
        ours = harness.pss_kb(daemon.pid) / 1024
        peer = self.supervisord_memory() if SUPERVISORD else None
        self.add("elasticd memory (PSS), 100 jobs", ours, "MB", "< 8 MB", ours < 8, peer,
                 "supervisord" if peer else None, peer / ours if peer else None)
        for run in runs:
            daemon.call("Stop", job=run, timeout_ms=0)
        for run in runs:
            daemon.wait(run)
        daemon.stop()

    @contextlib.contextmanager
    def supervisord(self, programs):
        conf = self.box.path("supervisord.conf")
        text = [f"[supervisord]\nnodaemon=true\nlogfile=/dev/null\nlogfile_maxbytes=0\n"
                f"pidfile={self.box.path('s.pid')}\nuser=root\n[unix_http_server]\n"
                f"file={self.box.path('s.sock')}\n[rpcinterface:supervisor]\n"
                "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n"]
        up = self.box.path("sup-up")
        shutil.rmtree(up, ignore_errors=True)
        up.mkdir()
        for i in range(programs):
            text.append(f"[program:p{i}]\ncommand={harness.PUPPET} touch:{up}/{i} hang\n"
                        "stdout_logfile=NONE\nstderr_logfile=NONE\nautorestart=true\n")
        conf.write_text("".join(text))
        p = self.box.start(SUPERVISORD, "-n", "-c", conf, name="supervisord")
        try:
            harness.wait_for(lambda: len(list(up.iterdir())) >= programs, up, timeout=120)
            yield p
        finally:
            p.signal(signal.SIGTERM)
            p.popen.wait(60)

    def supervisord_memory(self):
        with self.supervisord(100) as p:
            return harness.pss_kb(p.pid) / 1024

    def idle_calls(self):
        if not shutil.which("strace"):
            print("idle system calls: no strace here", flush=True)
            return
        daemon = self.box.new_daemon(name="idle").start()
        up = self.box.path("idle-up")
        up.mkdir()
        _, run = daemon.submit(harness.spec("print:x", f"touch:{up}/%r", "hang", replicas=4,
                                            logs={"tee": 3, "redirects": 3}))
        harness.wait_for(lambda: len(list(up.iterdir())) == 4, up)
        daemon.wait(run, until="running")
        pids = [daemon.pid] + [p for p in harness.descendants(daemon.pid) if "puppet" not in exe(p)]
        ours = self.count_calls(pids)
        peer, name = None, None
        if SUPERVISORD:
            with self.supervisord(4) as p:
                peer, name = self.count_calls([p.pid]), "supervisord"
        elif TORCHRUN:
            p = self.box.start(*self.torchrun_argv("--nproc-per-node=4"), harness.PUPPET,
                               f"touch:{up}/t%r", "hang", name="torchrun")
            harness.wait_for(lambda: len(list(up.iterdir())) == 8, up, timeout=60)
            peer, name = self.count_calls([p.pid]), "torchrun"
            p.signal(signal.SIGTERM)
            p.popen.wait(60)
        self.add(f"system calls, idle, in {self.idle_seconds()} s (elasticd, guard, agent)", ours, "",
                 "0", ours == 0, peer, name)
        daemon.call("Stop", job=run)
        daemon.wait(run)
        daemon.stop()

    def idle_seconds(self):
        return 3 if self.quick else 10

    def count_calls(self, pids):
        settled = 0.5  # an attached process finds its wait interrupted and goes back to it
        select.select([], [], [], 1.5)  # what was begun a moment ago comes to rest
        out = self.box.path("calls")
        argv = ["strace", "-f", "-q", "-ttt", "-o", str(out)]
        for pid in pids:
            argv += ["-p", str(pid)]
        p = harness.Popen(argv, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        begun = time.time() + settled
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(self.idle_seconds() + settled)
        p.send_signal(signal.SIGINT)
        p.communicate()
        return sum(float(line.split()[1]) > begun and "<detached" not in line
                   for line in out.read_text().splitlines())

    def write_rate(self):
        mib, size = (64, 256) if self.quick else (256, 256)
        result = self.box.path("rates")
        target = self.log_root / "w"

        def rate(argv, stdout):
            def one():
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                result.unlink(missing_ok=True)
                Cost([*argv, TOOL["writer"], result, str(mib), str(size)], env=self.env, stdout=stdout())
                return mib / (int(result.read_text().split()[0]) / 1e9)
            return one

        def direct_file():
            return open(target / "direct.log", "ab")

        def nothing():
            return subprocess.DEVNULL

        got = interleave(self.rounds(24), direct=rate([], direct_file),
                         ours=rate(self.run_argv("-r", "3", log_dir=target), nothing))
        ours, direct = (statistics.median(got[k]) for k in ("ours", "direct"))
        self.add("redirect: the worker's write rate", ours, "MB/s", "> 0.98 of a plain file",
                 ours / direct > 0.98, direct, "same worker, file", ours / direct)

    def tee(self):
        """A training script's print() is the yardstick; a writer at memory speed shows the limit."""
        count = 100000 if self.quick else 500000
        script = f"import sys\nfor i in range({count}): print('%094d' % i)"
        python = ["--no-python", sys.executable, "-c", script]
        fastest = ["--no-python", harness.PUPPET, f"lines:{count}:95"]
        console = self.log_root / "console"
        log = self.log_root / "tee"

        def one(argv):
            shutil.rmtree(log, ignore_errors=True)
            with open(console, "wb") as out:
                cost = Cost(argv, env=self.env, stdout=out)
            with open(console, "rb") as f:
                lines = sum(block.count(b"\n") for block in iter(lambda: f.read(1 << 22), b""))
            return cost.wall, cost.cpu, lines

        def ours(flag, worker):
            return lambda: one(self.run_argv(flag, "3", "--nproc-per-node=4", *worker, log_dir=log))

        for worker, what, target, rounds in (
                (python, "print()", "< 1.3 x redirect, complete", 5),
                (fastest, "at memory speed", "none: the cost of copying", 10)):
            got = interleave(self.rounds(rounds), tee=ours("-t", worker), redirect=ours("-r", worker))
            tee_wall = statistics.median(w for w, _, _ in got["tee"])
            red_wall = statistics.median(w for w, _, _ in got["redirect"])
            complete = all(n == 4 * count for _, _, n in got["tee"])
            good = complete and tee_wall < 1.3 * red_wall
            if worker is fastest and complete:
                good = None
            self.add(f"tee of 4 x {count:,} lines {what}, wall", tee_wall, "s", target, good,
                     red_wall, "our redirect", tee_wall / red_wall,
                     note=None if complete else "lines were lost on the console")
        rate = statistics.median(4 * count / c for _, c, _ in got["tee"]) / 1e6
        if TORCHRUN:
            argv = self.torchrun_argv("-t", "3", "--nproc-per-node=4", *fastest, log_dir=log)
            theirs = [one(argv) for _ in range(self.rounds(4))]
            peer = statistics.median(4 * count / c for _, c, _ in theirs) / 1e6
            self.add("  lines per CPU second (launcher and workers)", rate, "M/s",
                     ">= 5 times torchrun's", rate / peer >= 5, peer, "torchrun", rate / peer)

    def status_calls(self):
        daemon = self.box.new_daemon(name="status").start()
        _, run = daemon.submit(harness.spec("hang", replicas=2, name="one", logs={"dir": "/dev/null"}))
        daemon.wait(run, until="running")
        calls = 20000 if self.quick else 100000
        client = [TOOL["status_client"], str(daemon.socket), "one"]

        def ask(*args):
            out = subprocess.run([*client, *map(str, args)], check=True, capture_output=True, text=True)
            return [float(x) for x in out.stdout.split()]

        ask("rate", 2000)
        rate = statistics.median(ask("rate", calls)[0] for _ in range(self.rounds(8)))
        self.add("status calls on one connection, pipelined", rate, "/s", "> 20,000 /s", rate > 20000)
        got = interleave(self.rounds(8), alone=lambda: ask("latency", calls // 20),
                         held=lambda: ask("latency", calls // 20, 1000))
        for i, name in enumerate(("median", "99th percentile")):
            alone, held = (statistics.median(x[i] for x in got[k]) / 1e3 for k in ("alone", "held"))
            self.add(f"status latency, 1000 connections held, {name}", held, "us", "< 3 x without",
                     held / alone < 3, alone, "without them", held / alone)
        daemon.call("Stop", job=run)
        daemon.wait(run)
        daemon.stop()

    def sharing(self, what):
        rows = Sharing(self, TORCHRUN)
        try:
            getattr(rows, what)()
        finally:
            rows.close()

    def sharing_beats(self):
        self.sharing("beats")

    def sharing_barriers(self):
        self.sharing("barriers")

    def sharing_pairs(self):
        self.sharing("pairs")

    def sharing_death(self):
        self.sharing("death")

    def preemption(self, what):
        rows = Preemption(self)
        try:
            getattr(rows, what)()
        finally:
            rows.close()

    def preemption_notice(self):
        self.preemption("notice")

    def preemption_step(self):
        self.preemption("step")

    def queue(self, what):
        rows = Queue(self)
        try:
            getattr(rows, what)()
        finally:
            rows.close()

    def queue_rate(self):
        self.queue("rate")

    def queue_python(self):
        self.queue("python")

    def queue_latency(self):
        self.queue("latency")

    def queue_memory(self):
        self.queue("memory")

    def hosts_join(self):
        Hosts(self, TORCHRUN).join()

    def hosts_failure(self):
        Hosts(self, TORCHRUN).failure()

    def hosts_agent_killed(self):
        Hosts(self, TORCHRUN).agent_killed()

    def hosts_silence(self):
        Hosts(self, TORCHRUN).silence()

    def hosts_sharing(self):
        Hosts(self, TORCHRUN).sharing()

    def hosts_memory(self):
        Hosts(self, TORCHRUN).memory()

    def hosts_etcd(self):
        EtcdRows(self, TORCHRUN).rows()

    def hosts_head(self):
        HeadRows(self).measure()

    def hosts_rounds(self):
        HeadRows(self).simulate()

    def seen_metrics(self):
        Seen(self).metrics()

    def seen_top(self):
        Seen(self).top()

    def seen_plot(self):
        Seen(self).plot()

    ROWS = ("two_trivial_workers", "many_trivial_workers", "death_to_restart", "agent_memory",
            "daemon_memory", "idle_calls", "write_rate", "tee", "status_calls", "sharing_beats",
            "sharing_barriers", "sharing_pairs", "sharing_death", "preemption_notice",
            "preemption_step", "queue_rate", "queue_python", "queue_latency", "queue_memory",
            "hosts_join", "hosts_failure", "hosts_agent_killed", "hosts_silence", "hosts_sharing",
            "hosts_memory", "hosts_etcd", "hosts_head", "hosts_rounds", "seen_metrics", "seen_top",
            "seen_plot")

    def close(self):
        left = self.box.leftovers()
        self.box.close()
        shutil.rmtree(self.log_root, ignore_errors=True)
        return left


def exe(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def number(x):
    if x is None:
        return ""
    return f"{x:,.0f}" if abs(x) >= 1000 or x == int(x) else f"{x:.3g}"


def format_row(row):
    peer = f"{number(row['peer'])} ({row['peer_name']})" if row["peer"] is not None else "-"
    ratio = f"{row['ratio']:.3g}" if row["ratio"] else ""
    verdict = "-" if row["good"] is None else "ok" if row["good"] else "MISSED"
    line = (f"{row['what']:<54} {number(row['ours']):>9} {row['unit']:<5} {peer:>27} {ratio:>7}  "
            f"{row['target']:<27} {verdict}")
    return line + (f"  ({row['note']})" if row["note"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shorter ones")
    parser.add_argument("--only", metavar="TEXT", help="only rows whose method's name contains TEXT")
    parser.add_argument("--json", default=str(BUILD / "bench.json"), help="where the figures go")
    args = parser.parse_args()
    missing = [p for p in (harness.CTL, harness.DAEMON, harness.AGENT, harness.PUPPET, *TOOL.values())
               if not os.path.exists(p)]
    if missing:
        sys.exit(f"not built: {' '.join(missing)} (make programs tools)")
    harness.become_subreaper()
    print(f"{os.uname().machine}, {os.cpu_count()} CPUs, Linux {os.uname().release}; "
          f"torchrun: {TORCHRUN or 'not installed'}; supervisord: {SUPERVISORD or 'not installed'}")
    load = os.getloadavg()[0]
    if load > os.cpu_count() / 2:
        print(f"the machine is busy (load {load:.1f}): figures and ratios will suffer")
    print(f"{'what':<54} {'ours':>9} {'':<5} {'peer':>27} {'ratio':>7}  {'target':<27} verdict")
    bench, problems = Bench(args.quick), []
    try:
        for name in Bench.ROWS:
            if args.only and args.only not in name:
                continue
            try:
                getattr(bench, name)()
            except Exception as e:  # one row that cannot be measured does not hide the others
                problems.append(f"{name}: {type(e).__name__}: {e}")
                print(f"{name}: not measured: {e}", flush=True)
    finally:
        left = bench.close()
    problems += [f"left running: {p}" for p in left]
    torch = re.search(r"(\d+\.\d+\.\d+\S*)", version_of_torch() or "")
    with open(args.json, "w") as f:
        json.dump({"rows": bench.rows, "problems": problems, "cpus": os.cpu_count(),
                   "kernel": os.uname().release, "quick": args.quick, "load": load,
                   "torch": torch[1] if torch else None, "time": int(time.time())}, f, indent=1)
    rows = [r for r in bench.rows if r["good"] is not None]
    missed = [r["what"].strip() for r in rows if not r["good"]]
    print(f"{len(rows) - len(missed)} of {len(rows)} targets reached"
          + (f"; missed: {'; '.join(missed)}" if missed else "")
          + (f"; problems: {'; '.join(problems)}" if problems else ""))
    return 1 if missed or problems else 0


def version_of_torch():
    if not TORCHRUN:
        return None
    python = os.path.join(os.path.dirname(TORCHRUN), "python3")
    if not os.path.exists(python):
        return None
    out = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], check=False,
                         capture_output=True, text=True)
    return out.stdout


if __name__ == "__main__":
    sys.exit(main())
