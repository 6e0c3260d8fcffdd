# SPDX-License-Identifier: Apache-2.0
"""What workers get of the host (resources of the specification), and what the host says about them."""

import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import sys

import pytest

from doctors import doctor
from harness import BUILD, PUPPET, parse_environ


def cpus_of(text):
    line = next(x for x in text.splitlines() if x.startswith("Cpus_allowed_list:"))
    cpus = set()
    for part in line.split()[1].split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def cores(cpus):
    siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return len({open(siblings.format(c)).read() for c in cpus})


# --- resources.affinity --------------------------------------------------------------------------------


def test_workers_are_bound_to_cpus_of_their_own(box):
    mine = os.sched_getaffinity(0)
    n = min(2, cores(mine))
    result = box.run(f"--nproc-per-node={n}", "--numa-binding=exclusive", f"--log-dir={box.path('logs')}",
                     PUPPET, f"status:{box.path('status')}.%r", f"env:{box.path('env')}.%r",
                     env={"OMP_NUM_THREADS": None, "CUDA_VISIBLE_DEVICES": ""})
    assert result.rc == 0 and "OMP_NUM_THREADS" not in result.err, result
    got = [cpus_of(box.path(f"status.{r}").read_text()) for r in range(n)]
    assert all(got) and not set.intersection(*got) or n == 1, got
    assert set.union(*got) <= mine
    threads = [parse_environ(box.path(f"env.{r}").read_bytes())["OMP_NUM_THREADS"] for r in range(n)]
    assert threads == [str(cores(c)) for c in got]
    events = [json.loads(x) for x in next(box.path("logs").glob("*/events.jsonl")).read_text().splitlines()]
    bound = next(e for e in events if e["event"] == "bound")["data"]["workers"]
    assert [b["threads"] for b in bound] == [cores(c) for c in got]


def test_binding_that_cannot_be_done_is_refused_and_named(box):
    n = cores(os.sched_getaffinity(0)) + 1
    flags = [f"--nproc-per-node={n}", "--numa-binding=exclusive", PUPPET, f"touch:{box.path('started')}"]
    result = box.run(*flags, env={"CUDA_VISIBLE_DEVICES": ""})
    assert result.rc == 125 and 'resources.affinity: "exclusive" needs a core for each' in result.err, result
    assert not box.path("started").exists()
    doctor(box, *flags).expect("affinity", "problem", "needs a core for each", about="exclusive")


# --- resources.health ----------------------------------------------------------------------------------


def health_spec(box, script, *steps, **health):
    spec = {"roles": [{"command": [PUPPET, *steps]}], "restart": {"max": 1},
            "resources": {"health": {"command": ["sh", "-c", script], **health}}}
    box.path("job.json").write_text(json.dumps(spec))
    return f"--spec={box.path('job.json')}"


def events_of(box):
    return [json.loads(x) for x in (box.run_dir() / "events.jsonl").read_text().splitlines()]


def test_a_host_starts_workers_when_its_health_program_succeeds(box):
    """Two failures, each with a cool-down; then two attempts, before each of which it runs."""
    runs = box.path("runs")
    script = f"echo $ELASTICD_JOB >> {runs}; test $(wc -l < {runs}) -gt 2 || {{ echo sick >&2; exit 3; }}"
    result = box.run(health_spec(box, script, "if-attempt:0:exit:1", failures=1, cooldown="20ms"))
    assert result.rc == 0, result
    assert len(runs.read_text().split()) == 4, "two that failed, and one for each attempt"
    sick = [e for e in events_of(box) if e["event"] == "unhealthy"]
    assert [e["data"]["cooldown"] for e in sick] == [True, True]
    assert "resources.health: it exited with 3: sick; after so many failures" in sick[0]["text"]
    assert [e["attempt"] for e in events_of(box) if e["event"] == "started"] == [0, 1]


def test_a_job_that_waits_for_health_says_so_and_can_be_stopped(box):
    health_spec(box, "echo no disk; exit 1", "hang", failures=1, cooldown="1h")
    box.daemon.submit({**json.loads(box.path("job.json").read_text()), "name": "j"})
    box.daemon.wait_event("j", "unhealthy")
    status = box.daemon.status("j")
    assert status["state"] == "rendezvous" and "no disk; after so many failures" in status["reason"], status
    assert status["next_try_us"] > status["created_us"] + 3500 * 10**6
    assert box.ctl("stop", "j").rc == 0
    assert box.daemon.wait("j")["verdict"]["result"] == "stopped"


# --- resources.gpu_free_timeout ------------------------------------------------------------------------


@pytest.mark.parametrize("looks, timeout", [(3, "60s"), (0, "50ms")])
def test_the_next_attempt_waits_a_limited_time_for_gpu_memory(box, looks, timeout):
    """The first attempt fails and leaves memory of GPU 1 in use: for three looks of the next; or for ever."""
    busy = box.path("busy")
    script = f"test $ELASTICD_ATTEMPT = 0 || exit 0; test -s {busy}.looked && touch {busy}; exit 1"
    box.path("job.json").write_text(json.dumps({
        "roles": [{"command": ["sh", "-c", script]}],
        "restart": {"max": 1}, "resources": {"gpu_free_timeout": timeout}}))
    result = box.run(f"--spec={box.path('job.json')}", env={
        "LD_LIBRARY_PATH": str(BUILD / "tests/tools/nvml"), "CUDA_VISIBLE_DEVICES": None,
        "FAKE_NVML": str(busy), "FAKE_NVML_LOOKS": str(looks)})
    assert result.rc == 0, result
    held = [e["text"] for e in events_of(box) if e["event"] == "gpus-not-free"]
    expected = ("the next attempt begins though GPU 1 has 9000 MiB more in use than before the first "
                r"attempt, held by pid \d+ \(elastic-agent\)")
    failed, again = (next(e["time_us"] for e in events_of(box) if e["event"] == name and e["attempt"] == n)
                     for name, n in (("worker-failed", 0), ("started", 1)))
    assert again - failed > 50000, "it has waited for three looks, or until the time was over"
    assert not held if looks else re.fullmatch(expected, held[0]), held


# --- ends ----------------------------------------------------------------------------------------------

FAULT = [sys.executable, "-c", "import ctypes; ctypes.string_at(8)"]


def test_a_bad_access_is_named_with_its_core_dump_and_what_the_kernel_says(box):
    """Each attempt leaves a core dump; those of the newest two are kept."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if pattern.startswith("|") or hard not in (resource.RLIM_INFINITY, max(hard, 64 << 20)):
        pytest.skip("a program gets the core dumps of this host, or a limit forbids them")
    box.path("job.json").write_text(json.dumps({
        "roles": [{"command": FAULT}], "restart": {"max": 2}, "cwd": str(box.path("work")),
        "resources": {"core_dumps": {"size": "64M"}}}))
    kernel = kernel_log(box)
    result = box.run(f"--spec={box.path('job.json')}")
    assert result.rc == 128 + signal.SIGSEGV, result
    kept = [box.run_dir() / f"attempt_{n}" / "0" / "core" for n in range(3)]
    assert [core.exists() for core in kept] == [False, True, True]
    assert kept[2].read_bytes()[:4] == b"\x7fELF" and kept[2].stat().st_size <= 64 << 20
    assert not list(box.path("work").glob("core*"))
    assert f"core dump : {kept[2]}" in result.err, result
    # Of many faults on the machine, this test's or not, the kernel tells ten in five seconds.
    if said_since(kernel).count("segfault at 8 ip ") >= 3:
        failure = [e for e in events_of(box) if e["event"] == "worker-failed"][-1]["data"]
        assert re.search(r"\[\d+\]: segfault at 8 ip ", failure["exit"]["kernel"]), failure
        assert re.search(r", (perhaps )?kernel: .*segfault at 8 ip ", failure["message"]), failure
        assert re.search(r"kernel +: .*segfault at 8", result.err), result


def kernel_log(box):
    """A descriptor of what the kernel says from now on, or None where nobody may read that."""
    with contextlib.suppress(OSError):
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        box.cleanups.append(lambda: os.close(fd))
        os.lseek(fd, 0, os.SEEK_END)
        return fd
    return None


def said_since(fd):
    lines = []
    with contextlib.suppress(BlockingIOError):  # that was all
        while fd is not None:
            with contextlib.suppress(BrokenPipeError):  # some were overwritten
                lines.append(os.read(fd, 8192).decode(errors="replace"))
    return "".join(lines)
