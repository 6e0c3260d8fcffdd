# SPDX-License-Identifier: Apache-2.0
"""While a dump holds workers under a debugger nobody is blamed for that, and who failed before stays the
one that failed. The debugger is a py-spy of the test's own, which is all that the agent looks for."""

import contextlib
import pathlib
import subprocess
import threading
import time

from harness import PATIENCE, wait_file
from beating import dumped, hang_dirs, job_of, texts, worker

# What the debugger does where $pid and $rank are those of the worker.
TRACER = """#!/bin/sh
pid=$3
rank=$(tr '\\0' '\\n' < /proc/$pid/environ | sed -n s/^RANK=//p)
cd {there}
{what}
"""


def trace_with(box, what):
    tools = box.path("tools")
    tools.mkdir()
    tools.joinpath("py-spy").write_text(TRACER.format(there=box.path(), what=what))
    tools.joinpath("py-spy").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"


def blamed(daemon, job):
    return {name: texts(daemon, job, name)
            for name in ("heartbeat-lost", "no-progress", "worker-failing", "restart", "worker-restart")
            if texts(daemon, job, name)}


def test_a_dump_of_a_healthy_job_blames_nobody(box):
    """One worker is held for longer than all its limits, and the other one waits for it."""
    trace_with(box, "kill -STOP $pid; touch held; sleep 15; rm held; kill -CONT $pid")
    daemon = box.daemon
    name, run = daemon.submit(job_of(
        worker("step 1", f"if-rank 0 touch {box.path('up.0')}", f"if-rank 1 touch {box.path('up.1')}",
               f"step-until {box.path('done')} {box.path('held')}", "exit 0"), replicas=2,
        restart={"max": 1},
        heartbeat={"period": "200ms", "timeout": "5s", "failures": 2, "progress_timeout": "10s",
                   "log_timeout": "10s"}))
    wait_file(box.path("up.0"))
    wait_file(box.path("up.1"))
    assert len(dumped(daemon, job=name, workers="worker:0")) == 1
    box.path("done").touch()
    job = daemon.wait(name)
    assert blamed(daemon, run) == {}
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 0, 0)


def test_a_worker_held_for_a_dump_is_not_blamed(box):
    """The one that hangs is the root cause, at the time at which that was found."""
    trace_with(box, "touch traced; [ $rank = 0 ] || exit 0; kill -STOP $pid; sleep 14; kill -CONT $pid")
    daemon = box.daemon
    job = daemon.run(job_of(
        worker("if-rank 1 beat 3", "if-rank 1 hang", "beat-on"), replicas=2,
        heartbeat={"period": "200ms", "timeout": "5s", "failures": 2, "dump_timeout": "10m"}))
    root = job["verdict"]["root_cause"]
    assert (root["index"], root["collateral"]) == (1, False), root
    assert "no beat" in root["message"]
    # A file's time is the clock's last tick; what came after the dump would be 14 s later.
    assert root["time_us"] / 1e6 < box.path("traced").stat().st_mtime + 1
    for event in ("heartbeat-lost", "worker-failing"):
        assert [e["rank"] for e in daemon.events(job["run"]) if e["event"] == event] == [1]


def test_a_failure_during_a_dump_is_not_the_root_cause(box):
    """It ends the attempt; the other had failed before."""
    trace_with(box, f"touch traced; while ! [ -e {box.path('go')} ]; do sleep 0.1; done")
    daemon = box.daemon
    job = daemon.run(job_of(
        worker("if-rank 1 beat 3", "if-rank 1 hang", f"await {box.path('traced')}", "exit 3"), replicas=2,
        heartbeat={"period": "100ms", "timeout": "200ms", "dump_timeout": "10m"}))
    box.path("go").touch()
    root = job["verdict"]["root_cause"]
    assert (root["index"], root["collateral"]) == (1, False), root
    assert "no beat" in root["message"]
    others = [f for f in daemon.call("Errors", job=job["run"])["failures"] if f["index"] == 0]
    assert [(f["exit"]["code"], f["collateral"]) for f in others] == [(3, False)]
    (decided,) = [e for e in daemon.events(job["run"]) if e["event"] == "no-restart"]
    assert decided["data"]["cause"] == "heartbeat", decided
    assert "no beat" in decided["text"], decided


def test_a_worker_of_its_own_scope_that_fails_during_a_dump_is_no_root_cause(box):
    """It would only have been started again."""
    trace_with(box, f"touch traced; while ! [ -e {box.path('go')} ]; do sleep 0.1; done")
    job = box.daemon.run({
        "roles": [{"name": "a", "command": worker("beat 3", "hang"),
                   "restart": {"scope": "worker", "max": 3}},
                  {"name": "b", "command": worker(f"await {box.path('traced')}", "exit 3")}],
        "stop": {"timeout": "100ms"}, "logs": {"redirects": 3},
        "heartbeat": {"period": "100ms", "timeout": "200ms", "dump_timeout": "10m"}})
    box.path("go").touch()
    verdict = job["verdict"]
    root = verdict["root_cause"]
    assert (root["role"], root["collateral"], verdict["exit_status"]) == ("b", False, 3), verdict
    assert verdict["message"].startswith("b:0: exit code 3"), verdict


def test_no_two_dumps_trace_a_process_at_once(box):
    """A dump that is asked for while the agent dumps a worker that hangs is that one, or comes after it."""
    trace_with(box, f"""mkdir lock.$pid || {{ touch twice; exit 0; }}
echo $$ > tracing; while ! [ -e {box.path('go')} ]; do sleep 0.1; done; rmdir lock.$pid""")
    daemon = box.daemon
    name, run = daemon.submit(job_of(worker("beat 3", "hang"), heartbeat={
        "period": "100ms", "timeout": "200ms", "on_failure": "report", "dump_timeout": "10m"}))
    wait_file(box.path("tracing"))
    answers = []
    askers = [threading.Thread(target=lambda: answers.append(dumped(daemon, job=name))) for _ in range(2)]
    for asker in askers:
        asker.start()
    # A chance for what must not be.
    with contextlib.suppress(Exception):
        wait_file(box.path("twice"), timeout=2)
    box.path("go").touch()
    for asker in askers:
        asker.join()
    daemon.wait_event(name, "dumped")
    assert not box.path("twice").exists()
    job = daemon.status(name)
    have = [str(d) for d in hang_dirs(job)]
    assert len(answers) == 2 and all(len(a) == 1 and a[0] in have for a in answers), (answers, have)
    assert len(have) < 3
    daemon.call("Stop", job=name)
    assert daemon.wait(name)["state"] == "stopped"
