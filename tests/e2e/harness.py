# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests stand on: a box of their own for each test (directories, sockets, daemon),
a raw varlink client, and waiting for files and processes by the kernel's word, never by sleeping."""

import base64
import contextlib
import json
import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest

import raw_varlink
from processes import *  # noqa: F403
from processes import _libc, _ours  # noqa: F401


# --- waiting ---------------------------------------------------------------------------------------


class Watch:
    """Tells when something changes below directories (inotify). All share one instance: the kernel gives
    a user only 128 of them, and takes its time to count one that was closed."""

    _fd = -1
    _users = {}  # watch descriptor -> how many Watches have it

    def __init__(self, *dirs):
        if Watch._fd < 0:
            Watch._fd = _libc.inotify_init1(IN_CLOEXEC | IN_NONBLOCK)
        self.mine = set()
        for d in dirs:
            self.add(d)

    def add(self, d):
        """Returns whether it was not watched before."""
        wd = _libc.inotify_add_watch(Watch._fd, os.fsencode(str(d)), IN_ANY)
        if wd < 0 or wd in self.mine:
            return False
        self.mine.add(wd)
        Watch._users[wd] = Watch._users.get(wd, 0) + 1
        return True

    def wait(self, seconds):
        if Watch._fd < 0:  # none to be had: look again soon
            select.select([], [], [], min(seconds, 0.02))
        elif select.select([Watch._fd], [], [], max(0, seconds))[0]:
            with contextlib.suppress(BlockingIOError):  # another thread was quicker
                os.read(Watch._fd, 65536)

    def close(self):
        for wd in self.mine:
            Watch._users[wd] -= 1
            if not Watch._users[wd]:
                del Watch._users[wd]
                _libc.inotify_rm_watch(Watch._fd, wd)
        self.mine = set()


def wait_for(condition, *dirs, timeout=None, what=None):
    """Returns condition()'s first true value; it is asked again when something in dirs changes."""
    timeout = PATIENCE if timeout is None else timeout
    deadline = time.monotonic() + timeout
    watch = Watch(*dirs)
    try:
        while True:
            value = condition()
            if value:
                return value
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unmet(f"not in {timeout} s: {what or condition}")
            # A directory that was not there yet gets its watch now, and may have got a file before.
            if not [d for d in dirs if watch.add(d)]:
                watch.wait(min(left, 1))
    finally:
        watch.close()


def wait_file(path, timeout=None):
    path = pathlib.Path(path)
    wait_for(path.exists, path.parent, timeout=timeout, what=f"{path} to appear")
    return path


def wait_text(path, text, timeout=None):
    """Waits until a file contains text (bytes or str); returns the whole content as bytes."""
    path = pathlib.Path(path)
    needle = text.encode() if isinstance(text, str) else text

    def found():
        return path.exists() and needle in path.read_bytes()

    dirs = [path.parent] if not path.exists() else [path.parent, path]
    try:
        wait_for(found, *dirs, timeout=timeout)
    except Unmet:
        have = path.read_bytes()[-2000:] if path.exists() else None
        raise Unmet(f"{needle!r} not in {path}; it ends: {have!r}") from None
    return path.read_bytes()


def wait_lines(path, count, timeout=None):
    """Waits until a file has so many lines; returns them."""
    path = pathlib.Path(path)

    def lines():
        got = path.read_text().splitlines() if path.exists() else []
        return got if len(got) >= count else None

    wait_for(path.exists, path.parent, timeout=timeout, what=f"{path} to appear")
    return wait_for(lines, path.parent, path, timeout=timeout, what=f"{count} lines in {path}")


# --- varlink ---------------------------------------------------------------------------------------


class VarlinkError(raw_varlink.Error):
    PREFIXES = (IFACE,)


class Varlink(raw_varlink.Connection):
    INTERFACE = IFACE
    ERROR = VarlinkError

    def __init__(self, path, timeout=None):
        super().__init__(path, PATIENCE if timeout is None else timeout)


def line_bytes(line):
    """The bytes of a Line object."""
    if line.get("base64") is not None:
        return base64.b64decode(line["base64"])
    return line["text"].encode()


# --- programs --------------------------------------------------------------------------------------


class Result:
    def __init__(self, args, rc, out, err, seconds):
        self.args, self.rc, self.out_bytes, self.err_bytes = args, rc, out, err
        self.seconds = seconds

    @property
    def out(self):
        return self.out_bytes.decode(errors="replace")

    @property
    def err(self):
        return self.err_bytes.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.out_bytes)

    def __repr__(self):
        return f"<{self.args} rc={self.rc}\n--- stdout\n{self.out[-3000:]}\n--- stderr\n{self.err[-3000:]}>"


class Program:
    """A started program whose output goes to files, so that a test can wait for a text in it."""

    def __init__(self, box, name, argv, env=None, stdin=subprocess.DEVNULL, stdout=None, **kwargs):
        box.programs.append(self)
        number = len(box.programs)
        self.box, self.argv = box, argv
        self.out_path = box.path(f"out/{number}-{name}.out")
        self.err_path = box.path(f"out/{number}-{name}.err")
        self.started = time.monotonic()
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.popen = Popen(
                argv, env=env or box.env, stdin=stdin, stdout=stdout or out, stderr=err,
                start_new_session=kwargs.pop("session", True), **kwargs,
            )
        self.pid = self.popen.pid

    @property
    def out(self):
        return self.out_path.read_bytes().decode(errors="replace")

    @property
    def err(self):
        return self.err_path.read_bytes().decode(errors="replace")

    def signal(self, signo):
        os.kill(self.pid, signo)

    def wait(self, timeout=None):
        timeout = 2 * PATIENCE if timeout is None else timeout
        try:
            rc = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Unmet(f"{self.argv} still runs after {timeout} s") from None
        return Result(
            self.argv, rc, self.out_path.read_bytes(), self.err_path.read_bytes(),
            time.monotonic() - self.started,
        )

    def wait_out(self, text, timeout=None):
        return self._wait_text(self.out_path, text, timeout)

    def wait_err(self, text, timeout=None):
        return self._wait_text(self.err_path, text, timeout)

    def _wait_text(self, path, text, timeout):
        needle = text.encode() if isinstance(text, str) else text

        def found():
            if needle in path.read_bytes():
                return True
            if self.popen.poll() is not None and needle not in path.read_bytes():
                raise Unmet(f"{self.argv} ended ({self.popen.returncode}) without {needle!r}: "
                            f"{path.read_bytes()[-2000:]!r}, stderr {self.err[-2000:]}")
            return False

        wait_for(found, path.parent, timeout=timeout, what=f"{needle!r} in {path}")


class Daemon:
    """An elasticd of the box. It is ready when start() returns (it says so to NOTIFY_SOCKET, or its
    socket is there)."""

    def __init__(self, box, name="d", args=(), env=None, config=None):
        self.box, self.args = box, list(args)
        self.base = box.path(name)
        self.base.mkdir(exist_ok=True)
        self.socket = self.base / "control.sock"
        self.runtime, self.state, self.logs = self.base / "run", self.base / "state", self.base / "logs"
        self.env = dict(box.env, **(env or {}))
        self.prefix = []
        if config is not None:
            conf = self.base / "elasticd.conf"
            conf.write_text(config)
            self.args += ["--config", str(conf)]
        self.program = None
        self.connection = None

    def ctl(self, *args):
        """elasticctl with those arguments, which asks this daemon."""
        return self.box.ctl(*args, env={"ELASTICD_SOCKET": str(self.socket)})

    def argv(self):
        return self.prefix + [
            DAEMON, "--socket", str(self.socket), "--runtime-dir", str(self.runtime),
            "--state-dir", str(self.state), "--log-dir", str(self.logs), *self.args,
        ]

    @property
    def pid(self):
        return self.program.pid

    def start(self):
        watch = Watch(self.base)
        old = inode_of(self.socket)
        self.program = Program(self.box, "elasticd", self.argv(), env=self.env, cwd="/")
        deadline = time.monotonic() + PATIENCE
        try:
            while not self._answers(old):
                if self.program.popen.poll() is not None:
                    raise Unmet(f"elasticd ended with {self.program.popen.returncode}: {self.program.err}")
                if time.monotonic() > deadline:
                    raise Unmet(f"elasticd is not ready: {self.program.err}")
                watch.wait(1)
        finally:
            watch.close()
        return self

    def _answers(self, old):
        if inode_of(self.socket) in (None, old):
            return False
        try:
            with Varlink(self.socket) as v:
                return v.call("Version")["pid"] == self.pid
        except (ConnectionError, FileNotFoundError):
            return False

    def kill(self, signo=signal.SIGKILL):
        self.program.signal(signo)
        self.drop()
        return self.program.wait()

    def stop(self):
        return self.kill(signal.SIGTERM)

    def restart(self, signo=signal.SIGKILL):
        self.kill(signo)
        return self.start()

    def running(self):
        return self.program is not None and self.program.popen.poll() is None

    def drop(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def connect(self, timeout=None):
        return Varlink(self.socket, timeout)

    def call(self, method, **parameters):
        if not self.connection:
            self.connection = self.connect()
        return self.connection.call(method, **parameters)

    # What tests say most.

    def submit(self, spec):
        """Starts a job; returns (name, run)."""
        reply = self.call("Start", spec=spec)
        return reply["job"], reply["run"]

    def run(self, spec):
        """Starts a job and waits for its end; returns the Job object."""
        _, run = self.submit(spec)
        return self.wait(run)

    def wait(self, job, until="ended", timeout=None):
        timeout = 2 * PATIENCE if timeout is None else timeout
        with self.connect(timeout + 10) as v:
            return v.call("Wait", job=job, until=until, timeout_ms=int(timeout * 1000))["job"]

    def agent_pid(self, job):
        """The agent's, also where a worker was quicker than the agent's word of itself to elasticd."""
        return self.wait(job, until="running")["agent_pid"]

    def until_attempt(self, job, attempt):
        """Waits until this attempt runs, also as elasticd sees it; returns the Job object."""
        return self.watch(job, lambda j, _: j["state"] == "running" and j["attempt"] == attempt)

    def status(self, job, live=False):
        return self.call("Status", job=job, live=live)["job"]

    def events(self, job):
        return self.call("Events", job=job)["events"]

    def watch(self, job, condition, timeout=None):
        """Follows a job until condition(job, events so far) is true; returns the Job object."""
        events = []
        with self.connect(timeout) as v:
            for answer in v.stream("Watch", job=job):
                events += answer.get("events", [])
                if condition(answer["job"], events):
                    return answer["job"]
        raise Unmet(f"the run ended first: {events[-5:]}")

    def wait_event(self, job, name, timeout=None, count=1):
        """Waits for the count-th event of that name; returns it."""
        seen = []
        with self.connect(timeout) as v:
            for answer in v.stream("Events", job=job, since=0, follow=True):
                seen += answer["events"]
                hits = [e for e in seen if e["event"] == name]
                if len(hits) >= count:
                    return hits[count - 1]
        raise Unmet(f"no {name} among {[e['event'] for e in seen]}")

    def agent_sock(self, job):
        return self.runtime / "jobs" / job / "agent.sock"

    def record(self, run):
        return self.state / "jobs" / run

    def log(self, job, attempt, rank, stream="stdout"):
        return pathlib.Path(job["log_dir"]) / f"attempt_{attempt}" / str(rank) / f"{stream}.log"


def inode_of(path):
    try:
        st = os.stat(path)
        return st.st_ino, st.st_ctime_ns
    except OSError:
        return None


def fill(path):
    """Takes all room that there is."""
    with open(path, "wb", buffering=0) as f:
        try:
            while f.write(b"\0" * 1024):
                pass
        except OSError:
            pass


def puppet(*steps):
    return [PUPPET, *steps]


def spec(*steps, replicas=1, **top):
    """A job specification whose workers are puppets; other keys of the document by name."""
    role = {"replicas": replicas, "command": puppet(*steps)}
    role.update(top.pop("role", {}))
    return {"roles": [role], **top}


class Box:
    """What one test has: a directory, an environment, a daemon on demand, and whatever it started."""

    def __init__(self, name):
        self.name = name
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="e2e-", dir="/tmp"))
        self.programs, self.daemons, self.cleanups = [], [], []
        self.saved = None
        self.before = set(descendants(os.getpid()))  # a private agent of this very process
        for d in ("out", "home", "xr", "xs", "xc", "work", "tmp"):
            self.path(d).mkdir()
        self.path("xr").chmod(0o700)
        dropped = ("PET_", "ELASTIC", "TORCH", "XDG_", "LOCAL_RANK", "RANK", "WORLD_SIZE", "OMP_",
                   "MASTER_", "NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_", "SLURM_", "PMI_", "OMPI_")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        self.env.update(
            HOME=str(self.path("home")), XDG_RUNTIME_DIR=str(self.path("xr")), TZ="UTC",
            XDG_STATE_HOME=str(self.path("xs")), XDG_CONFIG_HOME=str(self.path("xc")),
            TMPDIR=str(self.path("tmp")), ELASTIC_AGENT=AGENT, LC_ALL="C.UTF-8", TERM="dumb",
            ELASTICD_SOCKET=str(self.path("d/control.sock")),
            OMP_NUM_THREADS="1",  # else run warns, as torchrun does
        )

    def path(self, *parts):
        return self.dir.joinpath(*parts)

    def open_to_all(self):
        """Lets another user work in the box."""
        for d in (self.dir, self.path("work"), self.path("home"), self.path("tmp")):
            d.chmod(0o1777)

    def mount_small(self, path, size, mode):
        """Makes a directory that is a disk of its own, of so many bytes."""
        path.mkdir()
        r = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode={mode}", "none", str(path)],
                           check=False, capture_output=True)
        if r.returncode != 0:
            pytest.skip(f"cannot mount a small tmpfs: {r.stderr.decode().strip()}")
        self.cleanups.append(lambda: subprocess.run(["umount", "-l", str(path)], check=False))
        return path

    @property
    def daemon(self):
        if not self.daemons:
            self.new_daemon().start()
        return self.daemons[0]

    def new_daemon(self, **kwargs):
        daemon = Daemon(self, **kwargs)
        self.daemons.append(daemon)
        return daemon

    def start(self, *argv, name=None, **kwargs):
        kwargs.setdefault("cwd", str(self.path("work")))
        env = dict(self.env, **kwargs.pop("env", {}))
        kwargs["env"] = {k: v for k, v in env.items() if v is not None}
        return Program(self, name or os.path.basename(argv[0]), [str(a) for a in argv], **kwargs)

    def sh(self, *argv, timeout=None, **kwargs):
        return self.start(*argv, **kwargs).wait(timeout)

    def ctl(self, *args, **kwargs):
        """elasticctl with those arguments, waited for."""
        timeout = kwargs.pop("timeout", None)
        return self.start(CTL, *args, name=f"ctl-{args[0] if args else ''}", **kwargs).wait(timeout)

    def ctl_start(self, *args, **kwargs):
        return self.start(CTL, *args, name=f"ctl-{args[0]}", **kwargs)

    def run(self, *args, **kwargs):
        """elasticctl run; its logs go to <box>/logs unless the arguments say otherwise."""
        return self.ctl("run", *self._log_dir(args), *args, **kwargs)

    def run_start(self, *args, **kwargs):
        return self.ctl_start("run", *self._log_dir(args), *args, **kwargs)

    def _log_dir(self, args):
        if any(str(a).startswith(("--log-dir", "--log_dir")) for a in args):
            return []
        return [f"--log-dir={self.path('logs')}"]

    def run_dirs(self, root="logs"):
        """Run directories below a log root, oldest first."""
        found = [d for d in self.path(root).glob("*") if d.is_dir() and not d.is_symlink()]
        return sorted(found, key=lambda d: d.stat().st_mtime_ns)

    def run_dir(self, root="logs"):
        dirs = self.run_dirs(root)
        assert len(dirs) == 1, f"expected one run in {self.path(root)}, found {dirs}"
        return dirs[0]

    # The end of a test

    def leftovers(self):
        """Ends the daemons, then returns what still runs (and ends that too)."""
        for daemon in self.daemons:
            if daemon.running():
                daemon.drop()
                self._shut_down(daemon)
        for program in self.programs:
            if program.popen.poll() is None:
                program.signal(signal.SIGKILL)
                program.wait()
        left = self.reap_all()
        self._remove_cgroups()
        return left

    def _remove_cgroups(self):
        """A killed elasticd leaves empty groups to its successor; here there will be none."""
        runs = [run.name for d in self.daemons for run in (d.state / "jobs").glob("*_????????")]
        for group in [g for r in runs for g in cgroups_of_run(r)]:
            for d in [*sorted(group.rglob("*/"), reverse=True), group]:
                with contextlib.suppress(OSError):
                    d.rmdir()

    def _shut_down(self, daemon):
        """Stops every job, then the daemon."""
        try:
            with daemon.connect() as v:
                for job in v.call("List")["jobs"]:
                    with contextlib.suppress(VarlinkError):
                        v.call("Stop", job=job["run"], timeout_ms=0)
                for job in v.call("List")["jobs"]:
                    with contextlib.suppress(VarlinkError):
                        v.call("Wait", job=job["run"], timeout_ms=PATIENCE * 1000)
                v.call("Shutdown")
            daemon.program.wait()
        except (OSError, VarlinkError, AssertionError) as e:
            self.note(f"the daemon did not shut down in order: {e!r}")
            if daemon.running():
                daemon.kill()

    def note(self, text):
        with open(self.path("out/notes"), "a") as f:
            f.write(text + "\n")

    def _left(self):
        return [p for p in descendants(os.getpid()) if alive(p) and p not in self.before]

    def reap_all(self):
        """Kills whatever is left; returns what that was."""
        reap_strangers()
        left = self._left()
        # What is ending right now (a guard whose agent just left) gets its time, all of it together.
        deadline = time.monotonic() + PATIENCE
        for pid in left:
            with contextlib.suppress(AssertionError):
                wait_gone(pid, max(0, deadline - time.monotonic()))
        left = self._left()
        names = [f"{p} {cmdline(p)} (state {(stat_of(p) or '?')[0]})" for p in left]
        while left:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGCONT)
                    os.kill(pid, signal.SIGKILL)
            for pid in left:
                with contextlib.suppress(AssertionError):
                    wait_gone(pid, 2)
            reap_strangers()
            again = self._left()
            if again == left:
                break
            left = again
        return names

    def agent_logs(self):
        """What the agents under all daemons have said so far."""
        return [f for d in self.daemons for f in (d.state / "jobs").glob("*/agent.log") if f.is_file()]

    def attachments(self):
        """Everything worth reading after a failure: (title, text)."""
        found = []
        if self.path("out/notes").exists():
            found.append(("notes", self.path("out/notes").read_text()))
        for p in self.programs:
            title = " ".join(str(a) for a in p.argv)[:200]
            found.append((f"{title} (pid {p.pid}, rc {p.popen.poll()})",
                          f"stdout: {p.out[-4000:]}\nstderr: {p.err[-6000:]}"))
        for pattern in ("agent.log", "events.jsonl", "verdict.json", "record.json", "state.json"):
            for f in [f for f in sorted(self.dir.rglob(pattern)) if f.is_file()][:8]:
                with contextlib.suppress(OSError):
                    found.append((str(f), f.read_text(errors="replace")[-4000:]))
        return found

    def close(self):
        for cleanup in reversed(self.cleanups):
            cleanup()
        if not os.environ.get("ELASTIC_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)


# --- the machine -----------------------------------------------------------------------------------


def cgroup2():
    """Where the unified hierarchy is mounted, or None."""
    for line in open("/proc/self/mountinfo"):
        fields = line.split()
        if fields[fields.index("-") + 1] == "cgroup2":
            return pathlib.Path(fields[4])
    return None


def cgroup1(controller):
    """Where the hierarchy with this controller is mounted, or None."""
    for line in open("/proc/self/mountinfo"):
        fields = line.split()
        kind, _, options = fields[fields.index("-") + 1:][:3]
        if kind == "cgroup" and controller in options.split(","):
            return pathlib.Path(fields[4])
    return None


def cgroups_of_run(run):
    """Their directories; others come and go meanwhile."""
    walk = os.walk(cgroup2(), onerror=lambda _: None) if cgroup2() else []
    return [pathlib.Path(top) / d for top, dirs, _ in walk for d in dirs if run in d]


def is_root():
    return os.geteuid() == 0


def other_user():
    """An unprivileged user that is not us."""
    return pwd.getpwnam("nobody")


def as_user(user, *argv):
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *argv]


def peer_pid(sock):
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", data)[0]


def have(program):
    return shutil.which(program) is not None


def traced(box, pids, *options):
    """strace with these options on these processes, attached by now; its output is in strace.out. The test
    is skipped where that cannot be had."""
    if not have("strace"):
        pytest.skip("no strace")
    argv = ["strace", *options, "-o", str(box.path("strace.out"))]
    for pid in pids:
        argv += ["-p", str(pid)]
    trace = box.start(*argv)
    for pid in pids:
        try:
            trace.wait_err(f"Process {pid} attached")
        except AssertionError:
            if "ptrace" in trace.err.lower():
                pytest.skip(f"cannot trace: {trace.err.strip()}")
            raise
    return trace
