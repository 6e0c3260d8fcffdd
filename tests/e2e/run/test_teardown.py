# SPDX-License-Identifier: Apache-2.0
"""Every descendant is gone before a restart and at the end, with a cgroup and without."""

import os
import pathlib
import signal
import subprocess

import pytest

from harness import (PUPPET, SLOWER, alive, cgroup2, cgroups_of_run, cmdline, descendants,
                     described, is_root, processes_of_run, spec, wait_file, wait_for, wait_gone)

RUNAWAYS = {
    "child": "fork:{}",
    "own session": "setsid-fork:{}",
    "orphan": "double-fork:{}",
    "daemon": "daemon:{}",
    "child of a daemon": "daemon:fork:{{{}}}",
}


@pytest.fixture(params=["cgroup", "no cgroup"])
def held(request, box):
    """A daemon with, and one without, a writable cgroup2 hierarchy."""
    daemon = box.new_daemon()
    if request.param == "cgroup":
        if not is_root() or not cgroup2() or not os.access(cgroup2(), os.W_OK):
            pytest.skip("no writable cgroup2 hierarchy")
    else:
        if not is_root():
            pass  # an ordinary user has none anyway
        elif subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
            pytest.skip("cannot hide the cgroup2 hierarchy: no mount namespaces")
        else:
            hide = f"umount -l {cgroup2()}; exec \"$@\"" if cgroup2() else 'exec "$@"'
            daemon.prefix = ["unshare", "-m", "sh", "-c", hide, "sh"]
    daemon.mode = request.param
    return daemon.start()


def test_the_mode_is_the_one_that_is_tested(box, held):
    name, _ = held.submit(spec("hang"))
    job = held.wait(name, until="running")
    group = pathlib.Path(f"/proc/{job['workers'][0]['pid']}/cgroup").read_text()
    line = [item for item in group.splitlines() if item.startswith("0::")]
    own = [item for item in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
           if item.startswith("0::")]
    assert (line != own) == (held.mode == "cgroup"), (line, own)


@pytest.mark.parametrize("kind", RUNAWAYS)
def test_nothing_is_left_at_the_end(box, held, kind):
    runaway = RUNAWAYS[kind].format(f"ignore:TERM+ignore:HUP+touch:{box.path('up')}+hang")
    _, run = held.submit(spec(runaway, f"wait-file:{box.path('up')}"))
    job = held.wait(run)
    assert job["state"] == "succeeded"
    assert processes_of_run(run) == [], "the run is over, its processes are not"


@pytest.mark.parametrize("kind", RUNAWAYS)
def test_nothing_is_left_before_the_next_attempt(box, held, kind):
    runaway = RUNAWAYS[kind].format(
        f"ignore:TERM+hold:{box.path('lock')}+touch:{box.path('up')}.%a+hang")
    job = held.run(spec(runaway, f"wait-file:{box.path('up')}.%a", "if-attempt:0:exit:1",
                        restart={"max": 1}, stop={"timeout": "300ms"}))
    assert job["state"] == "succeeded", job
    assert box.path("up.1").exists(), "the second attempt did not get the lock of the first"


def test_a_runaway_without_its_environment_is_found(box, held):
    """Neither session, parent nor environment leads to it."""
    inner = f"touch:{box.path('up')}"
    shell = (f"(setsid env -i {PUPPET} ignore:TERM '{inner}' hang </dev/null >/dev/null 2>&1 &) ;"
             f"exec {PUPPET} wait-file:{box.path('up')} mark:{box.path('marks')}")
    _, run = held.submit({"roles": [{"command": ["/bin/sh", "-c", shell]}]})
    assert held.wait(run)["state"] == "succeeded"
    left = [p for p in descendants(os.getpid()) if alive(p) and str(box.path("up")) in cmdline(p)]
    assert left == []


def test_a_fork_storm_ends(box, held):
    name, run = held.submit(spec("chain:20000", "chain:20000", f"touch:{box.path('up')}.%r", "hang",
                                 replicas=2, stop={"timeout": "200ms"}))
    for rank in (0, 1):
        wait_file(box.path(f"up.{rank}"))
    held.call("Stop", job=name)
    assert held.wait(name)["state"] == "stopped"
    assert described(processes_of_run(run)) == []


def test_a_storm_of_orphans_is_reaped(box, held):
    name, _ = held.submit(spec("orphans:300", "burst:300", f"touch:{box.path('up')}.%r", "hang",
                               replicas=3))
    for rank in range(3):
        wait_file(box.path(f"up.{rank}"))
    agent = held.agent_pid(name)
    held.call("Stop", job=name)
    job = held.wait(name)
    assert job["state"] == "stopped"
    assert {t["state"] for t in job["workers"]} == {"stopped"}, "an orphan's exit was taken for a task's"
    wait_gone(agent)


def test_many_exits_at_once_are_all_seen(box, held):
    count = 200 // SLOWER
    up = box.path("up")
    up.mkdir()
    name, _ = held.submit(spec("on:USR1:exit:0", f"touch:{up}/%r", "hang", replicas=count))
    wait_for(lambda: len(list(up.iterdir())) == count, up, what="all workers")
    held.call("Kill", job=name, signal="USR1")
    job = held.wait(name)
    assert job["state"] == "succeeded"
    assert {t["exit"]["code"] for t in job["workers"]} == {0}


def test_workers_that_ignore_the_stop_signal_have_one_deadline(box, held):
    job = held.run(spec("ignore:TERM", f"barrier:{box.path('bar')}", "if-rank:3:exit:5", "hang",
                        replicas=6, stop={"timeout": "500ms"}))
    assert job["verdict"]["exit_status"] == 5
    killed = [e["text"] for e in held.events(job["run"]) if e["event"] == "killed"]
    assert killed == ["SIGKILL for 5 workers that did not end in time"]


def test_a_dump_does_not_use_up_the_whole_deadline(box, daemon):
    """The worker dies of the dump signal, and its child ignores the stop signal."""
    _, run = daemon.submit(spec(f"setsid-fork:ignore:TERM+touch:{box.path('up')}+hang",
                                f"wait-file:{box.path('up')}", f"touch:{box.path('ready')}", "hang",
                                stop={"dump_signal": "USR1", "timeout": "10m"}))
    wait_file(box.path("ready"))
    with daemon.connect() as v:  # as max_run_time does it, at a time of the test's own
        job = v.call("Wait", job=run, timeout_ms=1, kill=True)["job"]
    assert job["verdict"]["result"] == "timeout"
    assert described(processes_of_run(run)) == []


def test_a_stopped_grandchild_is_killed_too(box, held):
    _, run = held.submit(spec(f"setsid-fork:touch:{box.path('up')}+signal:STOP+hang",
                              f"wait-file:{box.path('up')}"))
    assert held.wait(run)["state"] == "succeeded"
    assert described(processes_of_run(run)) == []


def test_an_agent_killed_leaves_nothing(box, held):
    name, run = held.submit(spec("ignore:TERM", f"setsid-fork:ignore:TERM+touch:{box.path('c')}.%r+hang",
                                 f"daemon:ignore:TERM+touch:{box.path('d')}.%r+hang",
                                 f"touch:{box.path('up')}.%r", "hang", replicas=3))
    for rank in range(3):
        for kind in ("c", "d", "up"):
            wait_file(box.path(f"{kind}.{rank}"))
    workers = processes_of_run(run)
    assert len(workers) >= 6
    os.kill(held.agent_pid(name), signal.SIGKILL)
    job = held.wait(name)
    assert job["verdict"]["result"] == "agent_lost"
    left = [cmdline(p) for p in descendants(held.pid) if alive(p) and PUPPET in cmdline(p)]
    assert left == []


def test_the_groups_of_a_job_are_removed(box, held):
    if held.mode != "cgroup":
        pytest.skip("there are none")
    _, run = held.submit(spec("fork:hang", restart={"max": 1}))
    held.wait(run)
    held.call("Remove", job=run)
    assert cgroups_of_run(run) == []


def test_the_groups_that_a_dead_elasticd_left_are_removed_by_the_next(box, held):
    if held.mode != "cgroup":
        pytest.skip("there are none")
    ending, one = held.submit(spec(f"wait-file:{box.path('go')}"))
    held.wait(ending, until="running")
    _, two = held.submit(spec("hang"))
    held.wait(two, until="running")
    held.kill()
    box.path("go").touch()
    held.start()
    assert held.wait(one)["state"] == "succeeded"
    held.call("Stop", job=two)
    held.wait(two)
    held.kill()
    held.start()
    held.status(two)
    wait_for(lambda: not cgroups_of_run(one) + cgroups_of_run(two),
             what="the groups of both runs to be removed")


@pytest.mark.root
def test_a_task_in_uninterruptible_sleep_is_given_up_and_reported(box, daemon):
    freezer = pathlib.Path("/sys/fs/cgroup/freezer")
    if not freezer.is_dir() or not os.access(freezer, os.W_OK):
        pytest.skip("no cgroup v1 freezer to make a process that SIGKILL does not end")
    cell = freezer / box.dir.name
    cell.mkdir()
    pid = 0

    def thaw():
        (cell / "freezer.state").write_text("THAWED")

    try:
        name, run = daemon.submit(spec(f"touch:{box.path('up')}.%r", "hang", replicas=2,
                                       stop={"timeout": "300ms"}))
        wait_file(box.path("up.0"))
        wait_file(box.path("up.1"))
        pid = daemon.wait(name, until="running")["workers"][1]["pid"]
        (cell / "cgroup.procs").write_text(str(pid))
        (cell / "freezer.state").write_text("FROZEN")
        daemon.call("Stop", job=name)
        job = daemon.wait(name)
        assert job["state"] in ("stopped", "failed")
        assert str(pid) in str([e for e in daemon.events(run)]) + str(job["verdict"]), \
            "nobody said which process was given up"
    finally:
        thaw()
        wait_gone(pid)
        for _ in range(100):
            try:
                cell.rmdir()
                break
            except OSError:
                wait_gone(pid)


def test_worker_exec_leaves_no_descriptor_of_the_agent(box, held):
    held.run(spec(f"fds:{box.path('fds')}", logs={"tee": 3, "timestamps": True}))
    assert [line.split()[0] for line in box.path("fds").read_text().splitlines()] == ["0", "1", "2"]


def test_a_stop_of_a_failed_job_is_not_its_reason(box, daemon):
    name, run = daemon.submit(spec(f"on:TERM:touch:{box.path('told')}", f"barrier:{box.path('bar')}",
                                   "if-rank:1:exit:7", "hang", replicas=2, stop={"timeout": "10m"}))
    wait_file(box.path("told"))
    daemon.call("Stop", job=name, timeout_ms=0)
    job = daemon.wait(run)
    assert (job["state"], job["verdict"]["exit_status"]) == ("failed", 7)
    assert "worker:1: exit code 7" in job["verdict"]["message"], job["verdict"]
