# SPDX-License-Identifier: Apache-2.0
"""Heartbeats by the board, progress by what a worker leaves behind, and what is saved of one that hangs."""

import json
import pathlib

import pytest

from harness import VarlinkError, puppet, spec, wait_file, wait_for
from beating import dumped, hang_dirs, job_of, texts, worker


def test_a_worker_that_stops_beating_is_failed_at_the_third_miss(daemon):
    job = daemon.run(job_of(worker("beat 3", "print before", "hang"),
                            heartbeat={"period": "100ms", "timeout": "200ms", "dump_timeout": "60s"}))
    assert (job["state"], job["verdict"]["result"]) == ("failed", "failed")
    root = job["verdict"]["root_cause"]
    assert "no beat" in root["message"] and not root["collateral"], root
    missed = texts(daemon, job["run"], "heartbeat-missed")
    assert [t[-8:] for t in missed[-2:]] == ["(1 of 3)", "(2 of 3)"], missed
    assert len(texts(daemon, job["run"], "heartbeat-lost")) == 1


def test_a_hanging_worker_is_saved_before_it_is_stopped(box, daemon):
    job = daemon.run(job_of(worker("print the last line", f"meet {box.path('all')} 2",
                                   "if-rank 1 beat 3", "hang"),
                            replicas=2,
                            heartbeat={"period": "100ms", "timeout": "200ms", "dump_timeout": "10m"}))
    for rank in (0, 1):
        (saved,) = hang_dirs(job, rank=rank)
        assert "no beat" in (saved / "why.txt").read_text()
        assert "the last line" in (saved / "tail.txt").read_text()
        pid = job["workers"][rank]["pid"]
        text = (saved / f"{pid}.txt").read_text()
        assert "== thread" in text and "waits in" in text and "== open files" in text
        assert str(pid) in (saved / "processes.txt").read_text()


def test_a_lost_heartbeat_is_paid_by_the_restart_budget(daemon):
    job = daemon.run(job_of(worker("if-attempt 0 beat 3", "if-attempt 0 hang", "exit 0"),
                            restart={"max": 1}, heartbeat={"period": "100ms", "dump_timeout": "0s"}))
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 1, 1)
    assert daemon.call("Why", job=job["run"])["budget"]["by_cause"] == {"heartbeat": 1}


def test_a_worker_that_beats_lives(box, daemon):
    name, run = daemon.submit(job_of(worker("beat 50", f"touch {box.path('done')}", "exit 0"), replicas=3,
                                     heartbeat={"period": "50ms", "timeout": "100s"}))
    assert daemon.wait(name)["state"] == "succeeded"
    assert texts(daemon, run, "heartbeat-lost") == []


def test_a_worker_that_never_beats_fails_by_the_start_limit_only(daemon):
    job = daemon.run(job_of(puppet("hang"),
                            heartbeat={"period": "100ms", "start_timeout": "300ms", "dump_timeout": "0s"}))
    assert job["state"] == "failed" and "beat" in job["verdict"]["root_cause"]["message"]


def test_in_a_job_of_several_roles_a_lost_heartbeat_is_a_tasks_not_a_ranks(daemon):
    roles = [{"name": name, "command": puppet("hang")} for name in ("chief", "worker")]
    job = daemon.run({"roles": roles, "stop": {"timeout": "100ms"},
                      "heartbeat": {"period": "100ms", "start_timeout": "300ms", "dump_timeout": "0s"}})
    lost = texts(daemon, job["run"], "heartbeat-lost")
    assert lost and {text.split(": ")[0] for text in lost} <= {"chief:0", "worker:0"}, lost
    assert job["verdict"]["message"].split(": ")[0] in ("chief:0", "worker:0"), job["verdict"]


def test_a_wrong_token_is_the_end_at_once(daemon):
    job = daemon.run(job_of(worker("beat 2", "token 12345", "beat-on"),
                            heartbeat={"period": "100ms", "timeout": "1h", "dump_timeout": "0s"}))
    assert job["state"] == "failed"
    assert "an earlier process" in job["verdict"]["root_cause"]["message"], job["verdict"]


def test_a_worker_that_beats_but_makes_no_step_is_stuck(daemon):
    job = daemon.run(job_of(worker("step 3", "beat-on"),
                            heartbeat={"period": "100ms", "timeout": "1h", "progress_timeout": "500ms",
                                       "progress_start_timeout": "1h", "dump_timeout": "0s"}))
    assert job["state"] == "failed"
    assert "step" in job["verdict"]["root_cause"]["message"], job["verdict"]
    assert texts(daemon, job["run"], "no-progress")


@pytest.mark.parametrize("what", ["log", "pattern", "file"])
def test_progress_is_seen_without_the_workers_help(box, daemon, what):
    beat = {"dump_timeout": "0s"}
    if what == "log":
        beat["log_timeout"] = "500ms"
        command = puppet("print:one", "hang")
    elif what == "pattern":
        beat.update(log_pattern="^round [0-9]+$", log_pattern_timeout="500ms")
        command = worker("print round 1", "chatter noise")
    else:
        beat.update(progress_file=str(box.path("checkpoint.${rank}")), progress_file_timeout="500ms")
        command = worker(f"write {box.path('checkpoint.0')}", "chatter noise")
    job = daemon.run(job_of(command, heartbeat=beat))
    assert job["state"] == "failed"
    assert texts(daemon, job["run"], "no-progress"), daemon.events(job["run"])
    assert not job["verdict"]["root_cause"]["collateral"]


def test_the_start_has_a_limit_of_its_own(daemon):
    job = daemon.run(job_of(puppet("hang"), heartbeat={
        "log_timeout": "1h", "progress_start_timeout": "300ms", "dump_timeout": "0s"}))
    assert job["state"] == "failed" and texts(daemon, job["run"], "no-progress")


def test_report_leaves_the_worker_alone(box, daemon):
    command = worker("beat 3", f"await {box.path('go')}", "beat 3", "hang")
    name, run = daemon.submit(job_of(command, heartbeat={
        "period": "100ms", "timeout": "1s", "on_failure": "report", "dump_timeout": "60s"}))
    daemon.wait_event(name, "dumped")
    assert daemon.status(name, live=True)["state"] == "running"
    before = len(texts(daemon, run, "heartbeat-lost"))
    box.path("go").touch()
    daemon.wait_event(name, "heartbeat-lost", count=before + 1)  # the second hang is told, too
    assert "shows life again" in " ".join(texts(daemon, run, "heartbeat-back"))
    daemon.call("Stop", job=name)
    assert daemon.wait(name)["state"] == "stopped"


def test_a_dump_on_demand(box, daemon):
    name, _ = daemon.submit(spec("print:working", f"touch:{box.path('up')}.%r", "hang", replicas=3,
                                 logs={"redirects": 3}))
    for rank in range(3):
        wait_file(box.path(f"up.{rank}"))
    job = daemon.wait(name, until="running")
    dirs = dumped(daemon, job=name, workers="worker:1-2")
    assert [pathlib.Path(d) for d in dirs] == [
        pathlib.Path(job["log_dir"], "attempt_0", str(r), "hang") for r in (1, 2)]
    for d in dirs:
        assert "working" in pathlib.Path(d, "tail.txt").read_text()
        assert pathlib.Path(d, "processes.txt").read_text().count("puppet") >= 1
    dirs = dumped(daemon, job=name)
    assert [pathlib.Path(d).name for d in dirs] == ["hang", "hang.1", "hang.1"]
    assert daemon.status(name)["state"] == "running"
    with pytest.raises(VarlinkError) as e:
        daemon.call("Dump", job=name, workers="worker:7")
    assert e.value.name == "NotFound"
    with pytest.raises(VarlinkError) as e:
        daemon.call("Dump", job=name, workers=":::")
    assert e.value.name == "InvalidArgument"


def test_a_caller_of_a_dump_that_goes_away_hurts_nobody(box, daemon):
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}", "hang", logs={"redirects": 3}))
    wait_file(box.path("up"))
    job = daemon.wait(name, until="running")
    with daemon.connect() as v:
        v.send("Dump", job=name)
    wait_for(lambda: hang_dirs(job), pathlib.Path(job["log_dir"], "attempt_0", "0"), what="a dump")
    assert dumped(daemon, job=name)
    daemon.call("Stop", job=name)
    assert daemon.wait(name)["state"] == "stopped"


def test_a_dump_without_logs_is_refused(box, daemon):
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}", "hang", logs={"dir": "/dev/null"}))
    wait_file(box.path("up"))
    daemon.wait(name, until="running")
    with pytest.raises(VarlinkError) as e:
        daemon.call("Dump", job=name)
    assert "no logs" in json.dumps(e.value.parameters)
