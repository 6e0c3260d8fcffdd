# SPDX-License-Identifier: Apache-2.0
"""A host in trouble: processes stopped or traced, clocks that jump, a disk that refuses, a full table."""

import json
import os
import re
import resource
import select
import signal
import struct
import subprocess
import sys

import pytest

from harness import (PUPPET, SANITIZED, Unmet, have, is_root, spec, wait_file, wait_gone, wait_lines,
                     wait_text)
from python_package import ENV, needs_library


def parent(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def stopped(box, pid):
    os.kill(pid, signal.SIGSTOP)
    box.cleanups.append(lambda: cont(pid))


def cont(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def test_a_stopped_guard_keeps_no_job_from_ending(box, daemon):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", replicas=2))
    daemon.wait(name, until="running")
    guard = parent(daemon.agent_pid(name))
    stopped(box, guard)
    assert box.ctl("stop", name).rc == 0
    job = daemon.wait(run)
    assert job["state"] == "stopped"
    cont(guard)


def test_a_stopped_run_holds_up_nothing(box):
    """The process of elasticctl run is the guard: while it is stopped workers write, fail and restart."""
    run = box.run_start("--max-restarts=1", PUPPET, f"mark:{box.path('marks')}", "if-attempt:0:exit:3",
                        f"wait-file:{box.path('end')}")
    wait_lines(box.path("marks"), 1)
    stopped(box, run.pid)
    wait_lines(box.path("marks"), 2)
    box.path("end").touch()
    wait_file(box.run_dir() / "verdict.json")
    cont(run.pid)
    assert run.wait().rc == 0


def test_a_stopped_run_whose_agent_dies_ends_its_workers(box):
    run = box.run_start("--nproc-per-node=2", PUPPET, f"mark:{box.path('marks')}", "hang")
    pids = [int(line.split()[0]) for line in wait_lines(box.path("marks"), 2)]
    agent = parent(pids[0])
    assert parent(agent) == run.pid
    stopped(box, run.pid)
    os.kill(agent, signal.SIGKILL)
    for pid in pids:
        wait_gone(pid)
    cont(run.pid)
    assert run.wait().rc == 125


def test_a_traced_agent_goes_on(box, daemon):
    if not have("strace"):
        pytest.skip("no strace")
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                   "+exit:1", f"wait-file:{box.path('end')}", restart={"max": 1}))
    wait_lines(box.path("marks"), 1)
    tracer = box.start("strace", "-f", "-o", box.path("trace"), "-p", daemon.agent_pid(name))
    wait_file(box.path("trace"))
    box.path("go").touch()
    wait_lines(box.path("marks"), 2)
    box.path("end").touch()
    assert daemon.wait(run)["state"] == "succeeded"
    tracer.wait()


def test_a_state_directory_that_becomes_read_only(box, daemon):
    """Jobs go on; elasticd does not start there, says why, and knows the end when it can write again."""
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                   "+exit:1", f"wait-file:{box.path('end')}", restart={"max": 1}))
    wait_lines(box.path("marks"), 1)
    mount = read_only(box, daemon.state)
    box.path("go").touch()
    wait_lines(box.path("marks"), 2)
    assert daemon.until_attempt(name, 1)["restarts"] == 1
    box.path("end").touch()
    assert daemon.wait(run)["state"] == "succeeded"
    refused = box.ctl("rm", name)
    assert refused.rc == 1 and "Read-only file system" in refused.err, refused
    daemon.kill()
    with pytest.raises(Unmet, match="Read-only file system"):
        daemon.start()
    mount("rw")
    daemon.start()
    assert daemon.status(run)["state"] == "succeeded"


def read_only(box, path):
    """Makes a directory read-only; returns a function that mounts it with other options."""
    if not is_root():
        pytest.skip("only root can mount a directory read-only")

    def mount(how):
        subprocess.run(["mount", "-o", f"remount,bind,{how}", str(path)], check=True)

    done = subprocess.run(["mount", "--bind", str(path), str(path)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    box.cleanups.append(lambda: subprocess.run(["umount", "-l", str(path)], check=False))
    mount("ro")
    return mount


# Both clocks of a program and of its libraries, set forward by what a file says in ns: wall, monotonic.
CLOCK = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none[2], *shift = none;

__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("CLOCK_SHIFT"), O_RDONLY | O_CLOEXEC);
	void *map = mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0);

	if (map != MAP_FAILED)
		shift = map;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);
	int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
	int64_t ns = shift[!wall] + ret->tv_nsec + ret->tv_sec * 1000000000;

	if (!r && (wall || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
			  clock == CLOCK_BOOTTIME))
		*ret = (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
	return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	*ret = (struct timeval){ .tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}
"""


@pytest.fixture
def set_clocks(box):
    """Sets the clocks of what the box starts forward: set_clocks(wall=seconds, monotonic=seconds)."""
    if SANITIZED:
        pytest.skip("nothing is preloaded before the sanitizer")
    if not have("cc"):
        pytest.skip("no cc")
    box.path("clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", box.path("clock.so"), box.path("clock.c")],
                   check=True)
    box.path("shift").write_bytes(bytes(16))
    box.env.update(LD_PRELOAD=str(box.path("clock.so")), CLOCK_SHIFT=str(box.path("shift")))

    def set_clocks(wall=0, monotonic=0):
        with open(box.path("shift"), "r+b", buffering=0) as f:
            f.write(struct.pack("qq", int(wall * 1e9), int(monotonic * 1e9)))

    return set_clocks


HOUR, YEAR = 3600, 365 * 86400


def write_job(box, *steps, **top):
    box.path("job.json").write_text(json.dumps(spec(*steps, **top)))
    return f"--spec={box.path('job.json')}"


@pytest.mark.parametrize("wall", [HOUR, -HOUR, YEAR, -YEAR])
def test_a_wall_clock_that_jumps_while_a_job_runs(box, set_clocks, wall):
    """No limit ends, no restart is forgotten, and the failure before the jump is the root cause."""
    job = write_job(box, f"mark:{box.path('marks')}", "print:one",
                    f"if-attempt:0:wait-file:{box.path('go')}+exit:3", f"wait-file:{box.path('end')}",
                    "print:two", "exit:4", max_run_time="30m", logs={"tee": "3"},
                    restart={"max": 1, "window": "1m", "window_max": 1, "backoff": "50ms"})
    run = box.run_start(job)
    wait_lines(box.path("marks"), 1)
    set_clocks(wall=wall)
    box.path("go").touch()
    wait_lines(box.path("marks"), 2)
    set_clocks()
    box.path("end").touch()
    result = run.wait()
    assert result.rc == 4, result
    assert re.findall(r"exit code \d after (\S+) s", result.err) and "after 0." in result.err, result
    assert "all 1 restarts are used" in result.err and "[worker:0] two" in result.out, result
    verdict = json.loads((box.run_dir() / "verdict.json").read_text())
    assert verdict["root_cause"]["exit"] == {"code": 4} and verdict["root_cause"]["attempt"] == 1, verdict


def test_a_monotonic_clock_that_jumps_while_a_job_runs(box, set_clocks):
    """As after a suspend: what was to happen meanwhile happens now, and nothing else does."""
    job = write_job(box, f"mark:{box.path('marks')}", "print:one",
                    f"if-attempt:0:wait-file:{box.path('go')}+exit:3", "ignore:TERM", "print:two", "hang",
                    logs={"tee": "3"}, restart={"max": 1, "backoff": "50ms"}, stop={"timeout": "200ms"})
    run = box.run_start(job)
    wait_lines(box.path("marks"), 1)
    set_clocks(monotonic=HOUR)
    box.path("go").touch()
    run.wait_out("two")
    set_clocks(monotonic=2 * HOUR)
    run.signal(signal.SIGTERM)
    result = run.wait()
    assert result.rc == 128 + signal.SIGTERM and "SIGKILL" in result.err, result


def test_an_agent_whose_descriptor_table_is_full(box, daemon):
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", f"if-attempt:0:wait-file:{box.path('go')}"
                                   "+exit:1", "hang", restart={"max": 1}))
    wait_lines(box.path("marks"), 1)
    agent = daemon.agent_pid(name)
    _, hard = resource.prlimit(agent, resource.RLIMIT_NOFILE)
    resource.prlimit(agent, resource.RLIMIT_NOFILE, (3, hard))  # what is open stays so
    box.path("go").touch()
    job = daemon.wait(run)
    assert (job["state"], job["verdict"]["exit_status"]) == ("failed", 125), job
    assert "Too many open files" in job["reason"], job


@needs_library
def test_a_host_that_was_paused_lost_no_heartbeat(box, daemon):
    """Agent and workers stood still alike, for many times the timeout."""
    script = box.path("beats.py")
    script.write_text(BEATS)
    role = {"replicas": 2, "command": [sys.executable, str(script)], "env": ENV}
    name, run = daemon.submit({"roles": [role],
                               "heartbeat": {"period": "200ms", "timeout": "500ms", "failures": 3},
                               "cwd": str(box.path("work")), "logs": {"redirects": 3}})
    daemon.wait(name, until="running")
    job = daemon.status(name)
    for i in range(2):
        wait_text(daemon.log(job, 0, i), "beats")
    agent = daemon.agent_pid(name)
    pids = [parent(agent), agent, *(t["pid"] for t in job["tasks"])]
    for pid in pids:
        stopped(box, pid)
    select.select([], [], [], 4)
    for pid in pids:
        cont(pid)
    for i in range(2):
        wait_text(daemon.log(job, 0, i), "goes on")
    box.path("work/end").touch()
    assert daemon.wait(run)["state"] == "succeeded", daemon.events(run)


# Beats until a file is there, and says so when it has stood still.
BEATS = """
import os, time
import elasticd

with elasticd.init() as job:
    job.step(0)
    last = time.monotonic()
    print("beats", flush=True)
    while not os.path.exists("end"):
        job.beat()
        time.sleep(0.01)
        if time.monotonic() - last > 1:
            print("goes on", flush=True)
        last = time.monotonic()
"""
