# SPDX-License-Identifier: Apache-2.0
"""One task by itself: stop, start, start again, add; what is stopped on purpose is never blamed."""

import time

import ctypes
import os

import pytest

from harness import (VarlinkError, alive, parse_environ, processes_of_run, puppet, spec, wait_file,
                     wait_lines)


def task(job, name):
    return next(t for t in job["workers"] if f"{t['role']}:{t['index']}" == name)


def marks(box, count):
    return [line.split() for line in wait_lines(box.path("marks"), count)]


def stop(daemon, job, tasks, **more):
    return daemon.call("StopWorkers", job=job, workers=tasks, **more)["stopped"]


def start(daemon, job, role="worker", **more):
    return daemon.call("StartWorker", job=job, role=role, **more)


def until(daemon, job, name, state):
    """The job once that task is in that state."""
    return daemon.watch(job, lambda job, _: task(job, name)["state"] == state)


def up(box, daemon, *steps, replicas=3, before=(), **top):
    """before: steps that are done when this returns."""
    name, _ = daemon.submit(spec(*before, f"mark:{box.path('marks')}", *steps, "hang",
                                 replicas=replicas, **top))
    marks(box, replicas)
    return daemon.wait(name, until="running")


def refused(error, fn, *args, **kwargs):
    with pytest.raises(VarlinkError) as e:
        fn(*args, **kwargs)
    assert e.value.name == error, e.value
    return e.value.parameters


def test_a_stopped_task_is_gone_when_the_answer_comes_and_the_others_go_on(box, daemon):
    job = up(box, daemon)
    pids = [t["pid"] for t in job["workers"]]
    assert stop(daemon, job["name"], "worker:1") == 1
    assert not alive(pids[1]) and alive(pids[0]) and alive(pids[2])
    job = until(daemon, job["name"], "worker:1", "stopped")
    assert job["state"] == "running" and task(job, "worker:1")["on_purpose"]
    assert "worker-stopped" in [e["event"] for e in daemon.events(job["name"])]


def test_when_all_others_have_succeeded_the_group_has(box, daemon):
    job = up(box, daemon, f"wait-file:{box.path('go')}", "exit:0")
    stop(daemon, job["name"], "worker:1")
    box.path("go").touch()
    job = daemon.wait(job["run"])
    assert job["verdict"]["result"] == "succeeded"
    assert daemon.call("Errors", job=job["run"])["failures"] == []
    assert [t["state"] for t in job["workers"]] == ["succeeded", "stopped", "succeeded"]
    assert job["verdict"]["message"] == ("all workers succeeded, but for worker:1, which was "
                                         "stopped on request")


def test_the_last_that_runs_is_stopped_after_the_others_succeeded(box, daemon):
    job = up(box, daemon, "if-rank:0:exit:0", replicas=2)
    until(daemon, job["name"], "worker:0", "succeeded")
    stop(daemon, job["name"], "worker:1")
    assert daemon.wait(job["run"])["verdict"]["result"] == "succeeded"


def test_the_verdict_counts_who_did_not_succeed(box, daemon):
    job = up(box, daemon, "if-rank:0:exit:0", replicas=3)
    until(daemon, job["name"], "worker:0", "succeeded")
    with pytest.raises(VarlinkError):
        start(daemon, job["name"], command=["/no/such/program"])
    stop(daemon, job["name"], "worker:1-2")
    verdict = daemon.wait(job["run"])["verdict"]
    assert (verdict["result"], verdict["message"]) == (
        "succeeded", "all workers succeeded, but for 3 that were stopped on request or not started")


def test_all_stopped_waits_for_a_person(box, daemon):
    job = up(box, daemon, replicas=2)
    assert stop(daemon, job["name"], "worker") == 2
    assert daemon.status(job["name"])["state"] == "running"
    assert start(daemon, job["name"], index=1) == {"worker": "worker:1", "rank": 1}
    assert len(marks(box, 3)) == 3
    daemon.call("Stop", job=job["name"])
    assert daemon.wait(job["run"])["verdict"]["result"] == "stopped"


def test_a_worker_stopped_by_a_person_is_not_started_by_itself(box, daemon):
    """Neither by its own restart rule, nor with the group; but by a restart that is asked for."""
    job = up(box, daemon, f"if-rank:0:if-attempt:0:{{wait-file:{box.path('go')}+exit:1}}",
             replicas=2,
             restart={"max": 1})
    stop(daemon, job["name"], "worker:1")
    box.path("go").touch()
    assert [m[1:] for m in marks(box, 3)[2:]] == [["0", "1"]]
    job = daemon.watch(job["name"], lambda job,
                       _: job["attempt"] == 1 and job["state"] == "running")
    assert task(job, "worker:1")["state"] == "stopped"
    daemon.call("Restart", job=job["name"])
    assert sorted(m[1:] for m in marks(box, 5)[3:]) == [["0", "2"], ["1", "2"]]


def test_stopped_tasks_of_scope_task_stay_stopped(box, daemon):
    job = up(box, daemon, replicas=2, restart={"scope": "worker", "max": 9})
    stop(daemon, job["name"], "0")
    job = until(daemon, job["name"], "worker:0", "stopped")
    assert "worker-restart" not in [e["event"] for e in daemon.events(job["name"])]


def test_stop_again_starts_it_anew_at_once(box, daemon):
    job = up(box, daemon)
    old = task(job, "worker:1")["pid"]
    assert stop(daemon, job["name"], "worker:1", again=True) == 1
    assert not alive(old)
    assert marks(box, 4)[3][1] == "1"
    job = daemon.watch(job["name"], lambda job, _: task(job, "worker:1")["restarts"] == 1)
    assert task(job, "worker:1")["start"] == 1 and "on_purpose" not in task(job, "worker:1")
    assert job["attempt"] == 0 and job["restarts"] == 0


def test_two_in_a_row_are_both_started_again_and_the_group_ends_well(box, daemon):
    job = up(box, daemon, replicas=2,
             before=[f"if-file:{box.path('go')}:{{mark:{box.path('marks')}+exit:0}}"])
    old = task(job, "worker:1")["pid"]
    box.path("go").touch()
    stop(daemon, job["name"], "worker:1", again=True)
    daemon.watch(job["name"], lambda job, _: task(job, "worker:1").get("pid") != old)
    stop(daemon, job["name"], "worker:0", again=True)
    job = daemon.wait(job["run"])
    assert job["state"] == "succeeded" and [t["restarts"] for t in job["workers"]] == [1, 1]
    assert len(marks(box, 4)) == 4


def test_all_at_once_are_answered_once(box, daemon):
    job = up(box, daemon, "if-rank:1:{on:TERM:{sleep:300+exit:0}}", replicas=3)
    assert stop(daemon, job["name"], "worker", again=True) == 3
    assert len(marks(box, 6)) == 6


def test_a_worker_that_ignores_its_stop_is_killed_at_its_deadline(box, daemon):
    job = up(box, daemon, "if-rank:0:ignore:TERM", f"touch:{box.path('up')}.%r", replicas=2)
    wait_file(box.path("up.0"))
    assert stop(daemon, job["name"], "worker:0", timeout_ms=100) == 1
    job = until(daemon, job["name"], "worker:0", "stopped")
    assert task(job, "worker:0")["exit"]["signal"] == 9 and alive(task(job, "worker:1")["pid"])


def test_a_second_stop_can_hasten_the_first(box, daemon):
    job = up(box, daemon, "ignore:TERM", f"touch:{box.path('up')}.%r", replicas=2)
    wait_file(box.path("up.0"))
    with daemon.connect() as patient:
        patient.send("StopWorkers", job=job["name"], workers="0", timeout_ms=3600000)
        daemon.wait_event(job["name"], "worker-stopping")
        assert stop(daemon, job["name"], "worker:0", timeout_ms=0) == 1
        assert patient.reply() == {"stopped": 1}


def test_leftovers_go_with_their_worker(box, daemon):
    job = up(box, daemon, f"setsid-fork:{{ignore:TERM+touch:{box.path('child')}.%r+hang}}",
             replicas=2,
             stop={"timeout": "300ms"})
    for rank in range(2):
        wait_file(box.path(f"child.{rank}"))
    before = len(processes_of_run(job["run"]))
    stop(daemon, job["name"], "worker:0")
    assert len(processes_of_run(job["run"])) == before - 2
    job = daemon.status(job["name"])
    assert job["state"] == "running" and alive(task(job, "worker:1")["pid"])


def test_a_caller_that_leaves_stops_it_all_the_same(box, daemon):
    job = up(box, daemon, "on:TERM:{sleep:300+exit:0}", replicas=2)
    with daemon.connect() as v:
        v.send("StopWorkers", job=job["name"], workers="worker:0")
        daemon.wait_event(job["name"], "worker-stopping")
    assert until(daemon, job["name"], "worker:0", "stopped")["state"] == "running"


def test_a_stop_of_the_job_answers_who_waits_for_a_task(box, daemon):
    job = up(box, daemon, "ignore:TERM", f"touch:{box.path('up')}.%r", replicas=2)
    wait_file(box.path("up.0"))
    with daemon.connect() as v:
        v.send("StopWorkers", job=job["name"], workers="worker:0", timeout_ms=3600000)
        daemon.wait_event(job["name"], "worker-stopping")
        daemon.call("Stop", job=job["name"], timeout_ms=0)
        assert v.reply() == {"stopped": 1}
    assert daemon.wait(job["run"])["verdict"]["result"] == "stopped"


def test_an_ended_task_can_be_started_again(box, daemon):
    job = up(box, daemon, f"unless-file:{box.path('go')}:if-rank:0:exit:0", replicas=2,
             before=[f"if-file:{box.path('go')}:{{mark:{box.path('marks')}+exit:0}}"])
    until(daemon, job["name"], "worker:0", "succeeded")
    assert start(daemon, job["name"], index=0)["worker"] == "worker:0"
    assert marks(box, 3)[2][1] == "0"
    until(daemon, job["name"], "worker:0", "succeeded")
    box.path("go").touch()
    stop(daemon, job["name"], "worker:1", again=True)
    assert daemon.wait(job["run"])["state"] == "succeeded"


def test_tasks_can_be_added_beyond_the_specification(box, daemon):
    """Two roles of two, and a third of each; only they know of the larger world."""
    roles = [{"name": n, "replicas": 2, "command": puppet(f"env:{box.path('env')}.%r", "print:%r",
              f"touch:{box.path('up')}.%r", f"wait-file:{box.path('go')}")} for n in ("worker",
                                                                                      "ps")]
    # With TF_CONFIG there could be no gap.
    name, run = daemon.submit({"roles": roles, "compat": {"tf_config": False}})
    for rank in range(4):
        wait_file(box.path(f"up.{rank}"))
    assert start(daemon, name) == {"worker": "worker:2", "rank": 4}
    assert start(daemon, name, role="ps", index=5) == {"worker": "ps:5", "rank": 5}
    for rank in (4, 5):
        wait_file(box.path(f"up.{rank}"))
    job = daemon.watch(name, lambda job, _: len(job["workers"]) == 6)
    assert task(job, "ps:5")["extra"] and task(job, "worker:2")["local_rank"] == 4
    worlds = [parse_environ(box.path(f"env.{r}").read_bytes())["WORLD_SIZE"] for r in range(6)]
    assert worlds == ["4", "4", "4", "4", "5", "6"]
    box.path("go").touch()
    job = daemon.wait(run)
    assert job["state"] == "succeeded" and daemon.log(job, 0, 4).read_text() == "4\n"


def test_at_the_next_attempt_they_are_gone(box, daemon):
    job = up(box, daemon, replicas=1)
    start(daemon, job["name"])
    assert [m[1] for m in marks(box, 2)] == ["0", "1"]
    daemon.call("Restart", job=job["name"])
    marks(box, 3)
    job = daemon.watch(job["name"], lambda job,
                       _: job["attempt"] == 1 and job["state"] == "running")
    assert len(job["workers"]) == 1


def test_a_task_that_was_added_out_of_turn_is_not_called_by_its_rank(box, daemon):
    job = up(box, daemon, "if-rank:1:exit:9", replicas=1)
    start(daemon, job["name"], index=7)
    assert daemon.wait(job["run"])["verdict"]["message"].startswith("worker:7: exit code 9")


def test_an_added_task_fails_as_any_other(box, daemon):
    job = up(box, daemon, "if-rank:1:exit:9", replicas=1)
    start(daemon, job["name"])
    job = daemon.wait(job["run"])
    assert job["verdict"]["exit_status"] == 9 and job["verdict"]["root_cause"]["index"] == 1


def test_with_another_command_and_environment(box, daemon):
    job = up(box, daemon, replicas=1)
    start(daemon, job["name"], command=puppet(f"env:{box.path('env')}", "exit:0"),
          env=["A=b=c", "RANK=77"])
    job = until(daemon, job["name"], "worker:1", "succeeded")
    env = parse_environ(box.path("env").read_bytes())
    assert (env["A"], env["RANK"], env["WORLD_SIZE"]) == ("b=c", "77", "2")


def test_a_program_that_cannot_be_executed_is_named_and_harms_no_other(box, daemon):
    job = up(box, daemon, replicas=1)
    message = refused("Internal", start, daemon, job["name"], command=["/no/such/program"])["message"]
    assert "/no/such/program" in message
    job = daemon.status(job["name"])
    assert job["state"] == "running" and alive(task(job, "worker:0")["pid"])


def test_impossible_starts_and_stops_are_refused(box, daemon):
    job = up(box, daemon, replicas=2)
    name = job["name"]
    assert refused("FailedPrecondition", start, daemon, name, index=1) == {
        "message": "worker worker:1 is running", "worker": "worker:1", "state": "running"}
    assert refused("NotFound", start, daemon, name, role="nobody") ["role"] == "nobody"
    for index in 4096, 10**6:
        assert refused("Internal", start, daemon, name, index=index)["message"] == \
            f"index: expected at most 4095, got {index}"
    for command in ([], [""]):
        refused("Internal", start, daemon, name, command=command)
    assert "env" in refused("Internal", start, daemon, name, env=["NOVALUE"])["message"]
    for tasks, missing in (("worker:7",) * 2, ("nobody",) * 2, ("nobody:0",) * 2, ("9",) * 2,
                           ("worker:0,5", "worker:5"), ("worker:1-9", "worker:2")):
        assert refused("NotFound", stop, daemon, name, tasks)["worker"] == missing
    for tasks in ("", ",", "worker:", ":1", "worker:x", "worker:1,,2", "3-1", "-1", "worker:-1"):
        refused("InvalidArgument", stop, daemon, name, tasks)
    assert [t["state"] for t in daemon.status(name)["workers"]] == ["running"] * 2
    assert stop(daemon, name, "worker:0") == 1 and stop(daemon, name, "worker:0") == 0
    ended = daemon.run(spec())["run"]
    refused("FailedPrecondition", stop, daemon, ended, "worker:0")
    refused("FailedPrecondition", start, daemon, ended)


def test_a_start_during_the_backoff_of_the_group_is_refused(box, daemon):
    name, _ = daemon.submit(spec("exit:1", restart={"max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["state"] == "backoff")
    assert refused("FailedPrecondition", start, daemon, name)["state"] == "backoff"


def test_a_start_cuts_a_tasks_backoff_short_and_a_stop_calls_it_off(box, daemon):
    mark = box.path("died")
    died = [f"if-rank:{r}:unless-file:{mark}.{r}:{{touch:{mark}.{r}+exit:1}}" for r in range(2)]
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", *died, "hang", replicas=2,
                                 restart={"scope": "worker", "max": 1, "backoff": "1h"}))
    for n in (0, 1):
        until(daemon, name, f"worker:{n}", "waiting")
    daemon.watch(name, lambda job, _: all(t.get("next_start_us") for t in job["workers"]))
    start(daemon, name, index=0)
    assert marks(box, 3)[2][1] == "0"
    assert stop(daemon, name, "worker:1") == 1
    job = until(daemon, name, "worker:1", "stopped")
    assert task(job, "worker:1")["on_purpose"] and "next_start_us" not in task(job, "worker:1")


def test_starts_are_staggered_up_to_a_limit(box, daemon):
    """Index times the delay up to the limit; the group starts until the last one runs."""
    begun = time.time_ns() // 1000
    name, _ = daemon.submit(spec("hang", replicas=4,
                                 role={"start_delay": "200ms", "start_delay_max": "400ms"}))
    job = daemon.wait(name, until="running")
    started = [t["started_us"] - begun for t in job["workers"]]
    assert started[1] >= 195_000 and started[2] >= 395_000 and started[3] >= 395_000, started
    planned = [e for e in daemon.events(name) if e["event"] == "worker-started"]
    assert [e["rank"] for e in planned][0] == 1 and len(planned) == 3


def test_no_start_is_delayed_by_more_than_the_limit(box, daemon):
    """With 1 h each and 90 min at most, two are due together, half an hour after the one before them."""
    name, _ = daemon.submit(spec("hang", replicas=4,
                                 role={"start_delay": "1h", "start_delay_max": "90m"}))
    job = daemon.watch(name, lambda job, _: all(t.get("next_start_us") for t in job["workers"][1:]))
    due = [t["next_start_us"] for t in job["workers"][1:]]
    minutes = [round((d - due[0]) / 60e6) for d in due]
    assert minutes == [0, 30, 30], due


def test_while_starts_are_delayed_the_group_is_starting(box, daemon):
    name, _ = daemon.submit(spec("hang", replicas=2, role={"start_delay": "1h"}))
    job = daemon.watch(name, lambda job, _: job["state"] == "starting")
    assert task(job, "worker:1")["state"] == "waiting" and task(job, "worker:1")["next_start_us"]


def test_a_stop_while_starts_are_delayed(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", replicas=3,
                                 role={"start_delay": "1h"}))
    marks(box, 1)
    assert daemon.status(name)["state"] in ("pending", "rendezvous", "starting")
    daemon.call("Stop", job=name)
    job = daemon.wait(name)
    assert job["verdict"]["result"] == "stopped" and len(marks(box, 1)) == 1
    assert [t["state"] for t in job["workers"]] == ["stopped"] * 3


def test_a_failure_while_starts_are_delayed(box, daemon):
    job = daemon.run(spec("exit:3", replicas=2, role={"start_delay": "1h"}))
    assert job["verdict"]["exit_status"] == 3
    assert [t["state"] for t in job["workers"]] == ["failed", "stopped"]


def test_the_group_runs_when_a_person_has_started_the_last_that_waited(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", replicas=2,
                                 role={"start_delay": "1h"}))
    marks(box, 1)
    until(daemon, name, "worker:1", "waiting")
    start(daemon, name, index=1)
    assert daemon.wait(name, until="running")["state"] == "running"


def test_the_group_runs_when_a_person_has_stopped_the_last_that_waited(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", "hang", replicas=3,
                                 role={"start_delay": "1h"}))
    marks(box, 1)
    until(daemon, name, "worker:2", "waiting")
    assert stop(daemon, name, "worker:1-2") == 2
    assert daemon.wait(name, until="running")["state"] == "running"
    assert start(daemon, name, index=2)["rank"] == 2 and marks(box, 2)[1][1] == "2"


def test_a_worker_that_waits_for_its_restart_starts_with_the_group(box, daemon):
    """The group is started anew while one of its tasks takes its time to end."""
    job = up(box, daemon, "if-rank:1:ignore:TERM", f"touch:{box.path('up')}.%r",
             f"if-rank:0:if-attempt:0:{{wait-file:{box.path('go')}+exit:1}}", replicas=2,
             restart={"max": 1}, stop={"timeout": "300ms"})
    wait_file(box.path("up.1"))
    with daemon.connect() as v:
        v.send("StopWorkers", job=job["name"], workers="worker:1", timeout_ms=3600000, again=True)
        daemon.wait_event(job["name"], "worker-stopping")
        box.path("go").touch()
        assert v.reply() == {"stopped": 1}
    assert sorted(m[1:] for m in marks(box, 4)[2:]) == [["0", "1"], ["1", "1"]]
    failures = daemon.call("Errors", job=job["name"], attempt=0)["failures"]
    assert [f["rank"] for f in failures if not f["collateral"]] == [0], failures


PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


def hold(pid):
    """Keeps the agent from seeing that pid has died: who traces it has to be told first."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) < 0:
        pytest.skip(f"a process cannot be traced here: {os.strerror(ctypes.get_errno())}")


@pytest.mark.parametrize("again", [False, True])
def test_a_worker_that_does_not_die_of_sigkill_is_given_up(box, daemon, again):
    job = up(box, daemon, f"if-rank:0:{{wait-file:{box.path('go')}+exit:0}}", replicas=2)
    pid = task(job, "worker:1")["pid"]
    hold(pid)
    assert stop(daemon, job["name"], "worker:1", timeout_ms=0, again=again) == 1
    job = until(daemon, job["name"], "worker:1", "stopped")
    assert job["state"] == "running" and len(marks(box, 2)) == 2
    assert "stuck" in [e["event"] for e in daemon.events(job["name"])]
    os.waitpid(pid, 0)
    box.path("go").touch()
    assert daemon.wait(job["run"])["verdict"]["result"] == "succeeded"
