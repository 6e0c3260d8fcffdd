# SPDX-License-Identifier: Apache-2.0
"""A program by hand has an agent of its own once it shares something: the agent starts at once, ends with the
last process of the program, and leaves nothing behind."""

import os
import signal
import sys

import pytest

from harness import SLOWER, alive, cmdline, wait_gone
from python_package import ENV, by_hand, needs_library, write_script

pytestmark = needs_library
LONG = 60 * SLOWER


def agents(box):
    """Private agents of the programs of this test."""
    mark, found = f"HOME={box.path('home')}".encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in open(f"/proc/{name}/environ", "rb").read() and "--alone" in cmdline(int(name)):
                found.append(int(name))
        except OSError:
            pass
    return [pid for pid in found if alive(pid)]


def files(box):
    return sorted(str(p) for d in ("xr", "xs", "xc", "tmp", "home") for p in box.path(d).rglob("*"))


def started(box, text):
    program = box.start(sys.executable, write_script(box, text), env=ENV)
    program.wait_out("ready", LONG)
    return program


WAITS = """
import elasticd, os, signal
job = elasticd.init()
job.kv.put("k", "v")
{more}
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM])
def test_the_agent_ends_with_its_program_and_leaves_no_file(box, signo):
    program = started(box, WAITS.format(more=""))
    (agent,) = agents(box)
    program.signal(signo)
    wait_gone(agent, LONG)
    assert files(box) == []


def test_a_child_of_fork_keeps_the_agent_until_it_ends(box):
    program = started(box, WAITS.format(more="""
import select
parent = os.pidfd_open(os.getpid())
if os.fork() == 0:
    select.select([parent], [], [])
    assert job.kv.get("k") == b"v"
    open("child", "w").close()
    os._exit(0)
"""))
    (agent,) = agents(box)
    program.signal(signal.SIGKILL)
    wait_gone(agent, LONG)
    assert box.path("work/child").exists()


def test_no_agent_is_started_for_what_is_not_shared(box):
    program = started(box, """
import elasticd, signal
job = elasticd.init()
job.beat()
assert not any(job.step(n) for n in range(100)) and not job.notice and not job.stopping
print("ready", flush=True)
signal.pause()
""")
    assert agents(box) == []
    program.signal(signal.SIGKILL)


def test_signals_to_all_of_a_control_group_are_not_for_the_agent(box):
    """A program may handle its SIGTERM, and save what it shares."""
    started(box, WAITS.format(more=""))
    (agent,) = agents(box)
    with open(f"/proc/{agent}/status") as f:
        ignored = int(next(line for line in f if line.startswith("SigIgn:")).split()[1], 16)
    for signo in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
        assert ignored >> (signo - 1) & 1, signo
        os.kill(agent, signo)
    assert alive(agent)


def test_a_killed_agent_is_named_to_its_program(box):
    program = started(box, """
import elasticd, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
job = elasticd.init()
job.kv.put("k", "v")
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
for _ in range(2):
    try:
        job.kv.get("k", timeout=10)
    except elasticd.Unavailable as e:
        print(e)
""")
    (agent,) = agents(box)
    os.kill(agent, signal.SIGKILL)
    wait_gone(agent, LONG)
    program.signal(signal.SIGUSR1)
    assert program.wait(LONG).rc == 0
    assert program.out.splitlines()[-1] == "the agent that this program started is gone"


def test_a_program_started_by_another_is_a_group_of_its_own(box):
    assert by_hand(box, """
import elasticd, subprocess, sys
job = elasticd.init()
job.kv.put("k", "v")
other = "import elasticd; print(elasticd.init().kv.try_get('k'))"
print(subprocess.run([sys.executable, "-c", other], stdout=subprocess.PIPE, text=True).stdout.strip())
""").out.strip() == "None"


def test_the_first_value_is_shared_within_20_ms(box):
    took = [float(by_hand(box, """
import elasticd, time
job = elasticd.init()
began = time.monotonic()
job.kv.put("k", "v")
print(time.monotonic() - began)
""").out) for _ in range(10)]
    assert min(took) < 0.020 * SLOWER, took
