# SPDX-License-Identifier: Apache-2.0
"""Whatever one user does to its own processes, elasticd answers everybody else."""

import contextlib
import os
import pwd
import re
import select
import signal
import sys
import time

import pytest

from harness import SLOWER, as_user, is_root, spec, stat_of, traced, wait_for
from processes import children

# Its environment cannot be read by anybody, as long as it lives.
HIDE = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.getenv.restype = ctypes.c_void_p
page = os.sysconf("SC_PAGESIZE")
address = libc.getenv(b"FILLER") // page * page + page
assert libc.mprotect(ctypes.c_void_p(address), page, 0) == 0, ctypes.get_errno()
print("hidden", flush=True)
signal.pause()
"""


def kill_agent_and_guard(job):
    """So that elasticd has to find what is left."""
    proper = job["agent_pid"]
    guard = stat_of(proper)[1]
    os.kill(guard, signal.SIGSTOP)
    os.kill(proper, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)


class Stopwatch:
    """Elapsed time, less the time that elasticd and this test waited for a processor."""

    def __init__(self, daemon):
        self.pids = daemon.pid, os.getpid()
        self.begun = self.now()

    def now(self):
        waited = 0
        for pid in self.pids:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
                waited += int(f.read().split()[1])
        return time.monotonic() - waited / 1e9

    def seconds(self):
        return self.now() - self.begun


def pause():
    """Between two calls whose times are taken: others may have the processors, too."""
    select.select([], [], [], 0.01)


def test_processes_that_hide_and_agents_that_die_do_not_delay_a_list(box, daemon):
    hidden = box.start(sys.executable, "-c", HIDE, env={"FILLER": "x" * 40000})
    hidden.wait_out("hidden")
    runs = [daemon.submit(spec("hang", name=f"victim{i}"))[1] for i in range(8)]
    jobs = [daemon.wait(run, until="running") for run in runs]
    other, _ = daemon.submit(spec("hang", name="other"))
    daemon.wait(other, until="running")
    for job in jobs:
        kill_agent_and_guard(job)
    longest, listed = 0.0, None
    while listed is None or len(listed) > 1:
        watch = Stopwatch(daemon)
        listed = [j["name"] for j in daemon.call("List")["jobs"]]
        longest = max(longest, watch.seconds())
        pause()
    # One look for what is left of one of these jobs takes longer; there are eight.
    assert longest < 0.9 * SLOWER, f"a list took {longest} s"
    assert listed == [other]
    assert [daemon.wait(run)["verdict"]["result"] for run in runs] == ["agent_lost"] * 8
    hidden.signal(signal.SIGKILL)
    hidden.wait()


def test_elasticd_itself_never_waits_for_the_disk(box, daemon):
    """Another user may be writing to it without end. Processes of their own wait."""
    daemon.call("Ping")
    trace = traced(box, [daemon.pid], "-f", "-e", "trace=fsync,fdatasync,syncfs,sync")
    run = daemon.run(spec("exit:3"))["run"]
    wait_for(lambda: not daemon.agent_sock(run.rpartition("_")[0]).exists(), what="the guard to leave")
    waited = wait_for(lambda: re.findall(r"^(\d+) .*sync\(", box.path("strace.out").read_text(), re.M),
                      box.path("strace.out"), what="what was started and its end to be synced")
    trace.signal(signal.SIGINT)
    trace.wait()
    assert str(daemon.pid) not in waited


# Stops each process that elasticd starts as this user, as soon as it may.
STOPPER = """
import os, signal, sys
print("begins", flush=True)
while True:
    with open(f"/proc/{sys.argv[1]}/task/{sys.argv[1]}/children") as f:
        for pid in f.read().split():
            try:
                os.kill(int(pid), signal.SIGSTOP)
            except OSError:
                pass
"""


@pytest.fixture
def shared(box):
    """A daemon for all users."""
    if not is_root():
        pytest.skip("needs root to be other users")
    box.open_to_all()
    daemon = box.new_daemon(config="[elasticd]\nsocket_mode = 0666\nallow_users = *\n")
    daemon.base.chmod(0o755)
    return daemon.start()


def longest_list(daemon, go_on):
    """How long the longest call took while go_on() was true; it may end things meanwhile."""
    longest = 0.0
    while go_on():
        watch = Stopwatch(daemon)
        with daemon.connect() as v:
            v.call("List")
        longest = max(longest, watch.seconds())
        pause()
    return longest


def test_a_user_that_stops_what_elasticd_starts_for_it_does_not_stop_elasticd(box, shared):
    """Between its first step as that user and its program, a child could be stopped by that user."""
    user = pwd.getpwnam("games")
    shared.run(spec(name="over", user=user.pw_name))
    stopper = box.start(*as_user(user, "/usr/bin/python3", "-c", STOPPER, shared.pid), cwd="/")
    stopper.wait_out("begins")
    end, readers = time.monotonic() + 4, []

    def ask():
        readers.append(shared.connect())
        readers[-1].send("Logs", job="over")
        if len(readers) > 8:
            readers.pop(0).close()
        return time.monotonic() < end

    longest = longest_list(shared, ask)
    assert longest < SLOWER, f"a list took {longest} s"
    stopper.signal(signal.SIGKILL)
    stopper.wait()
    for reader in readers:
        reader.close()


def test_a_user_that_stops_what_removes_its_logs_has_one_such_process(box, shared):
    """However many of its runs are to be removed at once; after that all of them go."""
    user = pwd.getpwnam("games")
    runs = [shared.run(spec(user=user.pw_name))["run"] for _ in range(12)]
    wait_for(lambda: not children(shared.pid), what="guards, and what syncs records, to leave")
    stopper = box.start(*as_user(user, "/usr/bin/python3", "-c", STOPPER, shared.pid), cwd="/")
    stopper.wait_out("begins")
    with contextlib.ExitStack() as open_ones:
        callers = [open_ones.enter_context(shared.connect()) for _ in runs]
        for v, run in zip(callers, runs):
            v.send("Remove", job=run, logs=True)
        wait_for(lambda: [p for p in children(shared.pid) if (stat_of(p) or "?")[0] == "T"],
                 what="a process that removes logs, and is stopped")
        for _ in range(20):
            shared.call("Ping")
        assert len(children(shared.pid)) == 1
        stopper.signal(signal.SIGKILL)
        stopper.wait()
        for pid in children(shared.pid):
            os.kill(pid, signal.SIGCONT)
        assert [v.reply()["removed"] for v in callers] == [1] * len(runs)


FILL = """
import os
for d in (os.path.dirname(os.environ["ELASTICD_WORKER_SOCKET"]), os.environ["RECORD"]):
    for i in range(40000):
        open(f"{d}/{i}", "w").close()
"""


def test_directories_that_a_user_fills_delay_no_list_when_they_go(box, shared):
    job = spec(name="full", user="games", role={"command": ["sh", "-c", "RECORD=" + str(
        shared.state) + "/jobs/$ELASTICD_RUN exec /usr/bin/python3 -c '" + FILL + "'"]})
    run = shared.run(job)["run"]
    runtime = shared.agent_sock("full").parent
    done = []

    def ends():
        if not done and not runtime.exists():
            done.append(shared.call("Remove", job=run)["removed"])
        return not done

    longest = longest_list(shared, ends)
    assert longest < 0.5 * SLOWER, f"a list took {longest} s"
    for d in (runtime.parent, shared.record(run).parent):
        wait_for(lambda d=d: not any(d.iterdir()), what=f"{d} to be empty")


def test_others_are_served_while_many_runs_are_removed_by_one_call(daemon):
    runs = [daemon.run(spec(name="many"))["run"] for _ in range(30)]
    for run in runs:
        for i in range(100):
            (daemon.record(run) / str(i)).touch()
    wait_for(lambda: not children(daemon.pid), what="guards, and what syncs records, to leave")
    with daemon.connect() as removes, daemon.connect() as asks:
        for v in (removes, asks):
            v.call("Ping")
        # Both calls are there when it goes on, however the test itself gets on.
        os.kill(daemon.pid, signal.SIGSTOP)
        removes.send("Remove", job="many")
        asks.send("List", ended=True)
        os.kill(daemon.pid, signal.SIGCONT)
        left = len(asks.reply()["jobs"])
        assert removes.reply()["removed"] == len(runs)
    # Where it took one turn there were all of them, or none.
    assert 0 < left < len(runs)
