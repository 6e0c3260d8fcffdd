# SPDX-License-Identifier: Apache-2.0
"""scope: task. What failed is started again alone, with a backoff and a budget of its own."""

import json
import os
import pathlib
import signal

import pytest

from harness import alive, puppet, spec, wait_file, wait_lines

TASK = {"scope": "worker", "max": 3}


def once(box, name, what):
    """A step that does what at the first start only."""
    return f"unless-file:{box.path(name)}:{{touch:{box.path(name)}+{what}}}"


def task(job, rank):
    return job["workers"][rank]


def marks(box, count, name="marks"):
    """(pid, rank, attempt) of each start so far, when there are so many."""
    return [line.split() for line in wait_lines(box.path(name), count)]


def test_only_what_failed_is_started_again(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}",
                                 "if-rank:1:" + once(box, "died", "exit:1"),
                                 f"wait-file:{box.path('go')}", replicas=3, restart=TASK))
    starts = marks(box, 4)
    box.path("go").touch()
    job = daemon.wait(name)
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 0, 0)
    assert sorted(s[1] for s in starts) == ["0", "1", "1", "2"], starts
    assert [t.get("start", 0) for t in job["workers"]] == [0, 1, 0]
    assert [t["restarts"] for t in job["workers"]] == [0, 1, 0]
    events = [e["event"] for e in daemon.events(name) if e.get("rank") == 1]
    assert events.count("worker-restart") == events.count("worker-restarted") == 1, events


def test_a_task_that_fails_the_first_time_ran_exactly_twice(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", once(box, "died", "exit:3"), restart=TASK))
    assert job["state"] == "succeeded" and len(marks(box, 2)) == 2


def test_each_task_has_a_budget_of_its_own(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}.%r", f"if-rank:0:{once(box, 'one', 'exit:1')}",
                          f"if-rank:0:{once(box, 'two', 'exit:1')}",
                          f"if-rank:1:{once(box, 'three', 'exit:1')}",
                          f"if-rank:1:{once(box, 'four', 'exit:1')}", replicas=2,
                          restart={"scope": "worker", "max": 2}))
    assert job["state"] == "succeeded", job
    assert len(marks(box, 3, "marks.0")) == len(marks(box, 3, "marks.1")) == 3
    assert [t["restarts"] for t in job["workers"]] == [2, 2]


def test_a_spent_budget_fails_the_group_and_the_verdict_names_the_task(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}.%r", f"if-rank:1:wait-file:{box.path('marks.0')}+exit:7",
                          "hang", replicas=2, restart={"scope": "worker", "max": 2}))
    assert job["state"] == "failed" and job["attempt"] == 0
    assert job["verdict"]["exit_status"] == 7 and job["verdict"]["root_cause"]["rank"] == 1
    assert "worker:1" in job["verdict"]["message"]
    assert "all 2 restarts are used" in job["verdict"]["message"]
    assert len(marks(box, 3, "marks.1")) == 3 and len(marks(box, 1, "marks.0")) == 1
    assert task(job, 0)["state"] == "stopped"


def test_a_fatal_code_is_not_tried_again(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}.%r", "if-rank:0:exit:9", "hang", replicas=2,
                          restart={"scope": "worker", "max": 5, "codes": {"9": "fatal"}}))
    assert job["verdict"]["exit_status"] == 9 and "fatal" in job["verdict"]["message"]
    assert len(marks(box, 1, "marks.0")) == 1


def test_a_free_code_costs_nothing(box, daemon):
    job = daemon.run(spec(once(box, "a", "exit:42"), once(box, "b", "signal:USR1"),
                          restart={"scope": "worker", "codes": {"SIGUSR1": "free"}}))
    assert job["state"] == "succeeded" and task(job, 0)["restarts"] == 2


def test_a_death_by_signal_is_a_failure(box, daemon):
    job = daemon.run(spec(once(box, "a", "signal:SEGV"), once(box, "b", "signal:KILL"), "exit:0",
                          restart={"scope": "worker", "max": 2}))
    assert job["state"] == "succeeded" and task(job, 0)["restarts"] == 2


def test_a_command_that_cannot_be_executed_fails_at_once(box, daemon):
    program = box.path("work/prog")
    program.write_text(f"#!/bin/sh\nrm {program}\nexit 1\n")
    program.chmod(0o755)
    job = daemon.run({"roles": [{"command": [str(program)]}],
                      "restart": {"scope": "worker", "max": 5}})
    assert job["verdict"]["exit_status"] == 127 and task(job, 0)["restarts"] == 1, job


def test_all_end_before_one_that_waits_for_its_restart(box, daemon):
    name, _ = daemon.submit(spec(f"if-rank:0:{once(box, 'died', 'exit:1')}", replicas=3,
                                 restart={"scope": "worker", "max": 1, "backoff": "1h"}))
    job = daemon.watch(name, lambda job, _: task(job, 0).get("next_start_us")
                       and all(task(job, r)["state"] == "succeeded" for r in (1, 2)))
    assert task(job, 0)["state"] == "waiting" and job["state"] in ("running", "starting")
    daemon.call("StartWorker", job=name, role=task(job, 0)["role"], index=0)
    assert daemon.wait(name)["state"] == "succeeded"


def test_the_last_one_is_started_when_its_backoff_is_over(box, daemon):
    job = daemon.run(spec(f"if-rank:0:{once(box, 'died', 'exit:1')}", replicas=3,
                          restart={"scope": "worker", "max": 1, "backoff": "300ms"}))
    assert job["state"] == "succeeded" and task(job, 0)["restarts"] == 1


def test_a_stop_during_the_backoff_of_a_task(box, daemon):
    name, _ = daemon.submit(spec("if-rank:0:exit:1", "hang", replicas=2,
                                 restart={"scope": "worker", "max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: task(job, 0).get("next_start_us"))
    assert "next start in" in daemon.call("Why", job=name)["text"]
    daemon.call("Stop", job=name)
    job = daemon.wait(name)
    assert job["verdict"]["result"] == "stopped" and task(job, 0)["state"] == "stopped"


def test_a_restart_of_the_group_during_the_backoff_of_a_task(box, daemon):
    name, _ = daemon.submit(spec("if-attempt:0:if-rank:0:exit:1", f"touch:{box.path('up')}.%a.%r",
                                 "hang",
                                 replicas=2, restart={"scope": "worker", "max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: task(job, 0).get("next_start_us"))
    daemon.call("Restart", job=name)
    for rank in range(2):
        wait_file(box.path(f"up.1.{rank}"))
    assert "next_start_us" not in task(daemon.until_attempt(name, 1), 0)


def test_the_failing_tasks_role_decides(box, daemon):
    """A role of scope task in a job of scope group, and the other way round."""
    def job_of(outer, roles):
        return {"restart": outer, "roles": [
            {"name": n, "replicas": 1, "command": puppet(*steps), **({"restart": r} if r else {})}
            for n, steps, r in roles]}

    alone = {"scope": "worker", "max": 1}
    group = {"scope": "group", "max": 1}
    lone = [f"mark:{box.path('lone')}", once(box, "a", "exit:1"), f"wait-file:{box.path('go')}"]
    both = [f"mark:{box.path('both')}", f"wait-file:{box.path('kill')}", once(box, "b", "exit:1"),
            f"wait-file:{box.path('go')}"]
    for outer, first, second in ((group, alone, None), (alone, None, group)):
        for f in ("a", "b", "lone", "both", "go", "kill"):
            box.path(f).unlink(missing_ok=True)
        name, run = daemon.submit(job_of(outer, [("lone", lone, first), ("both", both, second)]))
        assert {m[2] for m in marks(box, 2, "lone")} == {"0"}
        box.path("kill").touch()
        assert [m[2] for m in marks(box, 3, "lone")] == ["0", "0", "1"]
        box.path("go").touch()
        job = daemon.wait(run)
        assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 1, 1), job


def test_a_failure_of_the_group_is_not_blamed_on_who_was_restarted_before(box, daemon):
    name, _ = daemon.submit({"restart": {"scope": "worker", "max": 1}, "roles": [
        {"name": "a", "command": puppet(once(box, "died", "exit:5"), f"touch:{box.path('again')}",
                                        "hang")},
        {"name": "b", "command": puppet(f"wait-file:{box.path('again')}", "exit:6"),
         "restart": {"scope": "group", "max": 0}}]})
    job = daemon.wait(name)
    assert job["verdict"]["exit_status"] == 6 and job["verdict"]["root_cause"]["role"] == "b"
    failures = daemon.call("Errors", job=job["run"])["failures"]
    assert failures[0]["role"] == "b" and failures[-1]["exit"].get("code") == 5, failures


def test_logs_go_on_and_error_files_are_kept(box, daemon):
    job = daemon.run(spec("print:hello", "eprint:there", "error-json:object:first trouble",
                          once(box, "died", "exit:1"), logs={"redirects": 3}, restart=TASK))
    assert job["state"] == "succeeded"
    log = daemon.log(job, 0, 0)
    assert log.read_bytes() == b"hello\nhello\n"
    assert daemon.log(job, 0, 0, "stderr").read_bytes() == b"there\nthere\n"
    assert (log.parent / "error.json.1").exists() and (log.parent / "error.json").exists()
    assert not (log.parent.parent.parent / "attempt_1").exists()
    failure = daemon.call("Errors", job=job["run"])["failures"][0]
    assert failure["message"] == "first trouble", failure


@pytest.mark.parametrize("child", ["fork", "setsid-fork", "double-fork", "daemon"])
def test_leftovers_are_gone_before_the_next_start(box, daemon, child):
    """A grandchild that holds the lock would make the next process exit with 99."""
    lock, child_pid = box.path("lock"), box.path("child")
    name, _ = daemon.submit(spec(
        f"if-rank:1:{{{child}:{{touch:{child_pid}.other+hang}}+wait-file:{box.path('go')}+exit:0}}",
        f"if-file:{child_pid}:{{hold:{lock}+touch:{box.path('up')}+wait-file:{box.path('go')}"
        "+exit:0}",
        f"{child}:{{ignore:TERM+hold:{lock}+touch:{child_pid}+hang}}", f"wait-file:{child_pid}",
                                 "exit:1",
        replicas=2, restart=TASK, stop={"timeout": "500ms"}))
    wait_file(box.path("up"))
    wait_file(f"{child_pid}.other")
    job = daemon.watch(name, lambda job, _: task(job, 0)["restarts"] == 1)
    assert task(job, 1)["restarts"] == 0 and alive(task(job, 1)["pid"])
    others = [e for e in daemon.events(name) if e.get("rank") == 1]
    assert not [e for e in others if e["event"] in ("killed", "leftovers")], others
    box.path("go").touch()
    assert daemon.wait(name)["state"] == "succeeded"


def test_two_kills_in_a_row_are_two_restarts(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", f"wait-file:{box.path('go')}",
                                 replicas=2,
                                 restart=TASK))
    marks(box, 2)
    for n in range(2):
        job = daemon.watch(name, lambda job, _, n=n: job["state"] == "running"
                           and task(job, 0)["state"] == "running" and task(job, 0)["restarts"] == n)
        os.kill(task(job, 0)["pid"], signal.SIGKILL)
        marks(box, 3 + n)
    box.path("go").touch()
    job = daemon.wait(name)
    assert job["state"] == "succeeded" and task(job, 0)["restarts"] == 2, job


def test_it_is_said_whose_restarts_there_are(box, daemon):
    once_alone = spec("if-rank:1:" + once(box, "died", f"wait-file:{box.path('die')}+exit:1"),
                      f"touch:{box.path('up')}.%r", "hang", replicas=2)
    once_alone["roles"][0]["restart"] = {"scope": "worker", "max": 2}
    name, run = daemon.submit(once_alone)
    wait_file(box.path("up.0"))
    daemon.wait(name, until="running")
    assert [t["max_restarts"] for t in daemon.status(name)["workers"]] == [2, 2]
    status = box.ctl("status", name).out
    assert "Restarts: none of the group; workers have their own (see elasticctl why)\n" in status, status
    group = "the group: no restarts allowed; 0 not counted\n"
    assert box.ctl("why", name).out.endswith(group + "workers by themselves: no restarts used\n")
    box.path("die").touch()
    wait_file(box.path("up.1"))
    text = f"{group}workers by themselves:\n  worker:1: 1 of 2 restarts used; 1 left"
    assert text in box.ctl("why", name).out
    daemon.call("Stop", job=name)
    daemon.wait(run)
    assert text in box.ctl("why", run).out


@pytest.mark.parametrize("most,used", [({"max": 3}, "0 of 3 used of the group"),
                                       ({"window": "1h", "window_max": 3},
                                        "0 used of the group, limited by restart.window")])
def test_the_groups_restarts_stand_beside_those_of_tasks(box, daemon, most, used):
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}", "hang", restart={"scope": "worker", **most}))
    wait_file(box.path("up"))
    daemon.wait(name, until="running")
    status = box.ctl("status", name).out
    assert f"Restarts: {used}; workers have their own (see elasticctl why)\n" in status, status
    assert box.ctl("why", name).out.splitlines()[1].startswith("the group: 0 ")


def test_a_failure_that_was_made_good_is_not_the_one_that_ended_the_job(box, daemon):
    job = daemon.run(spec(once(box, "died", "exit:4"), "exit:5", restart={"scope": "worker", "max": 1}))
    report = box.ctl("errors", job["run"]).out
    root, others = report.split("Other failures:")
    assert "Root Cause (earlier failures stand below):\n" in root, report
    assert "exitcode  : 5 " in root and "exitcode  : 4 " in others, report


def test_a_lost_agent_remembers_the_tasks_budgets(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", once(box, "died", "exit:1"), "hang",
                                 restart={"scope": "worker", "max": 2}))
    marks(box, 2)
    job = daemon.watch(name, lambda job, _: task(job, 0)["state"] == "running"
                       and task(job, 0)["restarts"] == 1)
    os.kill(job["agent_pid"], signal.SIGKILL)
    marks(box, 3)
    text = daemon.call("Why", job=name)["text"]
    assert "worker:0: 1 of 2 restarts used" in text, text


def test_policy_always_begins_the_group_anew_when_all_have_ended(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", "if-attempt:2:hang", replicas=2,
                                 restart={"scope": "worker", "policy": "always", "max": 1}))
    assert [m[2] for m in marks(box, 6)].count("2") == 2
    assert daemon.watch(name, lambda job, _: job["attempt"] == 2 and job["state"] == "running")


@pytest.mark.parametrize("whole", [False, True], ids=["leaf", "whole"])
def test_a_cgroup_that_somebody_removed_while_it_was_empty_is_made_again(box, daemon, whole):
    """A systemd that goes down in a container that sees the host's hierarchy takes away what is empty."""
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", once(box, "died", "exit:3"), "hang",
                                   restart={"scope": "worker", "max": 3, "backoff": "1h"}))
    daemon.wait_event(name, "worker-restart")
    group = json.loads((daemon.record(run) / "record.json").read_text())["agent"].get("cgroup")
    leaf = next(pathlib.Path(group).glob("*/a0"), None) if group else None
    if not leaf:
        pytest.skip("workers have no cgroup here")
    leaf.rmdir()
    if whole:
        leaf.parent.rmdir()
    assert box.ctl("restart", f"{name}/0").rc == 0
    pid = int(marks(box, 2)[1][0])
    assert alive(pid) and str(pid) in (leaf / "cgroup.procs").read_text().split()
    daemon.watch(name, lambda job, _: task(job, 0)["state"] == "running")
