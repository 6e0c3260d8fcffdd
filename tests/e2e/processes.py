# SPDX-License-Identifier: Apache-2.0
"""Where the programs are, how patient tests are, and what /proc tells of processes."""

import contextlib
import ctypes
import os
import pathlib
import select
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ELASTIC_BUILD", ROOT / "build")).resolve()
CTL = str(BUILD / "elasticctl")
DAEMON = str(BUILD / "elasticd")
AGENT = str(BUILD / "elastic-agent")
PUPPET = str(BUILD / "tests/tools/puppet")
IFACE = "io.elasticd.Manager."


def is_sanitized():
    with open(AGENT, "rb") as f:
        return b"__asan_init" in f.read()


SANITIZED = os.path.exists(AGENT) and is_sanitized()
SLOWER = 4 if SANITIZED else 1
ALL = "ELASTIC_ALL" in os.environ  # ./bootstrap all
PATIENCE = 60 * SLOWER  # seconds that an event which has to come may take

_libc = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36
IN_NONBLOCK, IN_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
IN_ANY = 0x000003CE  # modify, attrib, moves, create, delete


class Unmet(AssertionError):
    """Something awaited did not come in time."""


# --- processes -------------------------------------------------------------------------------------


def become_subreaper():
    """Everything that a test starts stays below this process, so leftovers can be found."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    signal.signal(signal.SIGCHLD, lambda *_: reap_strangers())
    subprocess.Popen = Popen  # also for subprocess.run(), whose children would be strangers


_ours = set()  # children that a Popen waits for
_spawning = set()  # Popens that are about to have one; threads make some, too


def reap_strangers():
    """Reaps orphans that came to us, as init would; never a child of a Popen."""
    found = children(os.getpid())
    # After the look: whose child was seen is among these, or has told whose it is.
    if _spawning:
        return
    for pid in found:
        if pid not in _ours:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


class Popen(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        _spawning.add(id(self))
        try:
            super().__init__(*args, **kwargs)
            _ours.add(self.pid)
        finally:
            _spawning.discard(id(self))
            reap_strangers()

    def poll(self):
        rc = super().poll()
        if rc is not None:
            _ours.discard(self.pid)
        return rc

    def wait(self, timeout=None):
        rc = super().wait(timeout)
        _ours.discard(self.pid)
        return rc


def stat_of(pid):
    """(state, parent, session, start ticks) of a process, or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            rest = f.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return rest[0].decode(), int(rest[1]), int(rest[3]), int(rest[19])


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as f:
                found += [int(p) for p in f.read().split()]
    return found


def descendants(pid):
    found, todo = [], [pid]
    while todo:
        for child in children(todo.pop()):
            found.append(child)
            todo.append(child)
    return found


def alive(pid):
    st = stat_of(pid)
    return st is not None and st[0] not in "ZX"


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "?"


def pidfd_of(pid):
    """A descriptor that stays this process's, also where another one gets its number; None: it is gone."""
    with contextlib.suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None


def wait_gone(pid, timeout=None):
    """Returns when the process has ended (a zombie has)."""
    timeout = PATIENCE if timeout is None else timeout
    fd = pidfd_of(pid) if alive(pid) else None
    if fd is None:
        return
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(timeout * 1000):
            raise Unmet(f"process {pid} ({cmdline(pid)}) still runs after {timeout} s")
    finally:
        os.close(fd)


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return parse_environ(f.read())
    except OSError:
        return {}


def parse_environ(data):
    pairs = (item.partition(b"=") for item in data.split(b"\0") if item)
    return {k.decode(errors="replace"): v.decode(errors="replace") for k, _, v in pairs}


def processes_of_run(run):
    return [p for p in descendants(os.getpid())
            if environ_of(p).get("ELASTICD_RUN") == run and alive(p)]


def described(pids):
    """For messages: what these processes are."""
    return [f"{p} {cmdline(p)}, state {(stat_of(p) or '?')[0]}, below {(stat_of(p) or '??')[1]}"
            for p in pids]


def pss_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        for line in f:
            if line.startswith("Pss:"):
                return int(line.split()[1])
    raise AssertionError("no Pss")


def descriptors(pid):
    found = {}
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found
