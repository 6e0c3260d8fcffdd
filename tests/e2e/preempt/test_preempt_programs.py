# SPDX-License-Identifier: Apache-2.0
"""Notices and programs that know nothing of elasticd: who is signalled, which signal is a notice, and what
then is left of the job's other rules."""

import json
import os
import signal
import time

import pytest

from harness import PUPPET, VarlinkError, cmdline, puppet, spec, wait_file, wait_text
from trainees import Trainees, preempt, verdict_of


@pytest.fixture
def job_of(box, daemon):
    jobs = []

    def make(n=1, **document):
        jobs.append(Trainees(box, daemon, n, **document))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


def up(box, daemon, *steps, replicas=1, **top):
    """A job whose puppets are all there: (name, run)."""
    name, run = daemon.submit(spec(*steps, f"touch:{box.path('up')}.%r.%a", "hang", replicas=replicas, **top))
    for rank in range(replicas):
        wait_file(box.path(f"up.{rank}.0"))
    daemon.wait(run, until="running")
    return name, run


def foreground(box, document, **kwargs):
    path = box.path("job.json")
    path.write_text(json.dumps(document))
    return box.run_start("--spec", str(path), **kwargs)


def events(daemon, run, *names):
    return [e for e in daemon.events(run) if e["event"] in names]


def record_of(box):
    """events.jsonl and verdict.json of the one run in the foreground."""
    run = box.run_dir()
    lines = (run / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], json.loads((run / "verdict.json").read_text())


# --- who is signalled ------------------------------------------------------------------------------


@pytest.mark.parametrize("end,exit", [("exit:0", {"code": 0}), ("exit:42", {"code": 42}),
                                      ("exit:143", {"code": 143})])
def test_a_program_saves_on_the_signal_and_leaves(box, daemon, end, exit):
    name, run = up(box, daemon, f"on:TERM:touch:{box.path('saved')}.%r+{end}", replicas=2,
                   restart={"max": 3})
    preempt(daemon, name)
    job = daemon.wait(run)
    verdict = verdict_of(job, "preempted")
    assert verdict["exit_status"] == 42 and "root_cause" not in verdict
    for task in job["workers"]:
        assert (task["state"], task["exit"]) == ("stopped", exit), task
        assert "left on the notice" in task["reason"]
        assert box.path(f"saved.{task['rank']}").exists()
    assert len(events(daemon, run, "notice-signal")) == 2
    assert not events(daemon, run, "restart", "killed", "leftovers")


def test_a_program_without_a_handler_dies_of_the_signal_and_is_not_blamed(box, daemon):
    name, run = up(box, daemon)
    preempt(daemon, name)
    job = daemon.wait(run)
    assert "root_cause" not in verdict_of(job, "preempted")
    assert job["workers"][0]["state"] == "stopped" and job["workers"][0]["exit"]["signal"] == 15


def test_the_signal_goes_to_the_program_and_not_to_its_children(box, daemon):
    """A loader that dies of it would cost the checkpoint."""
    child = (f"on:TERM:touch:{box.path('hit')}+on:USR1:touch:{box.path('asked')}"
             f"+status:{box.path('child')}+touch:{box.path('ready')}+hang")
    steps = (f"on:TERM:touch:{box.path('saving')}+wait-file:{box.path('go')}+exit:0",
             f"fork:{child}", f"wait-file:{box.path('ready')}")
    name, run = up(box, daemon, *steps)
    pid = next(int(line.split()[1]) for line in box.path("child").read_text().splitlines()
               if line.startswith("Pid:"))
    preempt(daemon, name)
    wait_file(box.path("saving"))
    # A signal of a lower number is delivered first, and its handler runs last.
    os.kill(pid, signal.SIGUSR1)
    wait_file(box.path("asked"))
    assert not box.path("hit").exists()
    box.path("go").touch()
    verdict_of(daemon.wait(run), "preempted")


@pytest.mark.parametrize("whom", ["group", "all"])
def test_the_specification_names_another_signal_and_more_who_get_it(box, daemon, whom):
    child = f"on:USR1:touch:{box.path('hit')}+touch:{box.path('ready')}+hang"
    steps = (f"on:USR1:wait-file:{box.path('hit')}+exit:0", f"fork:{child}",
             f"wait-file:{box.path('ready')}")
    name, run = up(box, daemon, *steps, preemption={"signal": "USR1", "whom": whom})
    preempt(daemon, name)
    job = daemon.wait(run)
    verdict_of(job, "preempted")
    assert job["workers"][0]["exit"] == {"code": 0}


def test_a_worker_that_does_not_leave_is_stopped_at_the_limit_and_named(box, daemon):
    name, run = up(box, daemon, "ignore:USR1", replicas=2,
                   preemption={"signal": "USR1", "timeout": "300ms"}, stop={"timeout": "10s"})
    preempt(daemon, name)
    job = daemon.wait(run)
    message = verdict_of(job, "preempted")["message"]
    assert "the time is over" in message, message
    for n in range(2):
        assert f"worker:{n} did not leave on the signal" in message, message
        assert job["workers"][n]["exit"]["signal"] == 15
    assert len(events(daemon, run, "notice-signal")) == 2


def test_a_worker_that_ignores_the_stop_signal_too_is_killed(box, daemon):
    name, run = up(box, daemon, "ignore:TERM", preemption={"timeout": "100ms"},
                   stop={"timeout": "200ms"})
    preempt(daemon, name)
    job = daemon.wait(run)
    verdict_of(job, "preempted")
    assert job["workers"][0]["exit"]["signal"] == 9 and len(events(daemon, run, "killed")) == 1


def test_a_mix_is_asked_signalled_or_left_alone(job_of, box):
    """One tells steps, one only uses the socket, one knows nothing."""
    server = puppet(f"on:TERM:touch:{box.path('server')}+exit:0", f"touch:{box.path('ready')}", "hang")
    alien = puppet(f"on:TERM:touch:{box.path('alien')}+exit:0", f"touch:{box.path('up')}", "hang")
    job = job_of(1, roles=[{"name": "worker"}, {"name": "server", "command": server},
                           {"name": "alien", "command": alien}])
    wait_file(box.path("up"))
    wait_file(box.path("ready"))
    (t,) = job.team("worker:0")
    s = job.connect("server:0")
    s.put("address", "here")
    assert t.step(1) == "continue"
    job.preempt()
    wait_file(box.path("alien"))
    assert t.until_told() == ("save_exit", 2)
    assert not box.path("server").exists()
    assert job.task("server:0")["state"] == "running"
    t.save_and_leave()
    ended = job.ended()
    verdict_of(ended, "preempted")
    assert [k["state"] for k in ended["workers"]] == ["stopped"] * 3
    assert [e["rank"] for e in job.events("notice-signal")] == [2]
    assert box.path("server").exists()


def test_how_agree_signals_nobody_and_how_signal_asks_nobody(job_of, box, daemon):
    job = job_of(1, preemption={"how": "signal"})
    (t,) = job.team()
    assert t.step(1) == "continue"
    job.preempt()
    ended = job.ended()
    verdict_of(ended, "preempted")
    assert ended["workers"][0]["exit"]["signal"] == 15

    name, run = up(box, daemon, f"on:TERM:touch:{box.path('hit')}+exit:0",
                   preemption={"how": "agree"})
    preempt(daemon, name)
    assert not events(daemon, run, "notice-signal") and not box.path("hit").exists()
    preempt(daemon, name, grace_ms=200)
    assert "the time is over" in verdict_of(daemon.wait(run), "preempted")["message"]


# --- signals as notices ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_a_signal_to_run_is_a_notice_where_the_specification_says_so(box, name):
    run = foreground(box, spec(f"on:TERM:touch:{box.path('saved')}.%r+exit:0",
                               f"touch:{box.path('up')}.%r", "hang", replicas=2,
                               preemption={"notices": ["signal"], "signals": [name]}))
    for rank in range(2):
        wait_file(box.path(f"up.{rank}"))
    run.signal(getattr(signal, f"SIG{name}"))
    result = run.wait()
    assert result.rc == 42, result
    assert box.path("saved.0").exists() and box.path("saved.1").exists()
    told, verdict = record_of(box)
    assert verdict["result"] == "preempted" and verdict["preemption"]["source"] == "signal"
    assert verdict["preemption"]["reason"] == f"SIG{name}"
    assert result.err.count("all have left") == 1, result.err


def test_without_it_the_signal_stops_the_job_as_ever(box):
    run = foreground(box, spec(f"on:TERM:touch:{box.path('got')}+exit:0", f"touch:{box.path('up')}",
                               "hang", preemption={"notices": ["gce"], "signals": ["TERM"]}))
    wait_file(box.path("up"))
    run.signal(signal.SIGTERM)
    assert run.wait().rc == 143
    assert record_of(box)[1]["result"] == "stopped"


def test_the_second_one_stops_the_job_as_ever(box):
    run = foreground(box, spec(f"on:USR1:touch:{box.path('asked')}", f"touch:{box.path('up')}", "hang",
                               preemption={"notices": ["signal"], "signal": "USR1"}))
    wait_file(box.path("up"))
    run.signal(signal.SIGTERM)
    wait_file(box.path("asked"))
    time.sleep(1.1)  # within a second it would be the same one
    run.signal(signal.SIGTERM)
    assert run.wait().rc == 143
    told, verdict = record_of(box)
    assert verdict["result"] == "stopped" and "preemption" not in verdict
    assert [e["event"] for e in told].count("notice") == 1


def test_interrupt_is_no_notice(box):
    run = foreground(box, spec(f"touch:{box.path('up')}", "hang", preemption={"notices": ["signal"]}))
    wait_file(box.path("up"))
    run.signal(signal.SIGINT)
    assert run.wait().rc == 130
    assert record_of(box)[1]["result"] == "stopped"


def test_slurms_end_of_the_allocation_is_the_deadline(box):
    end = int(time.time()) + 4000
    run = foreground(box, spec("on:TERM:exit:0", f"touch:{box.path('up')}", "hang",
                               preemption={"notices": ["signal"], "signals": ["USR1"]}),
                     env={"SLURM_JOB_END_TIME": str(end)})
    wait_file(box.path("up"))
    run.signal(signal.SIGUSR1)
    assert run.wait().rc == 42
    verdict = record_of(box)[1]
    assert abs(verdict["preemption"]["deadline_us"] / 1e6 - end) < 60


def test_a_signal_to_an_agent_under_the_daemon_is_one_too(box, daemon):
    name, run = up(box, daemon, "on:TERM:exit:0", preemption={"notices": ["signal"]})
    pid = daemon.agent_pid(run)
    assert "elastic-agent" in cmdline(pid)
    os.kill(pid, signal.SIGTERM)
    verdict = verdict_of(daemon.wait(run), "preempted")
    assert verdict["preemption"]["source"] == "signal" and verdict["exit_status"] == 42


# --- the job's other rules -------------------------------------------------------------------------


def test_a_failure_behind_a_notice_is_named_and_costs_no_restart(box, daemon):
    name, run = up(box, daemon, "if-rank:1:on:TERM:{error-json:object:lost_the_disk+exit:3}",
                   f"if-rank:0:on:TERM:{{wait-file:{box.path('go')}+exit:0}}", replicas=2,
                   restart={"max": 5})
    preempt(daemon, name)
    daemon.wait_event(name, "worker-ended")
    box.path("go").touch()
    job = daemon.wait(run)
    verdict = verdict_of(job, "preempted")
    assert verdict["exit_status"] == 42 and verdict["root_cause"]["message"] == "lost_the_disk"
    assert verdict["root_cause"]["exit"]["code"] == 3 and "lost_the_disk" in verdict["message"]
    assert [t["state"] for t in job["workers"]] == ["stopped", "failed"]
    assert job["restarts"] == 0 and not events(daemon, run, "restart", "no-restart")


def test_a_task_that_fails_alone_is_not_started_again(job_of):
    job = job_of(2, restart={"scope": "worker", "max": 100})
    a, b = job.team()
    assert (a.step(4), b.step(4)) == ("continue", "continue")
    job.preempt()
    a.leave(1)
    assert b.until_told() == ("save_exit", 5)
    b.save_and_leave()
    ended = job.ended()
    assert verdict_of(ended, "preempted")["root_cause"]["rank"] == 0
    assert not job.events("worker-restart", "worker-restarted")


def test_waiting_workers_are_not_started_under_a_notice(job_of, box):
    late = puppet(f"touch:{box.path('late')}.%r", "hang")
    job = job_of(1, roles=[{"name": "worker"}])
    # The job runs before those of another one wait.
    (t,) = job.team()
    assert t.step(1) == "continue"
    with job.agent() as v:
        assert v.call("StopWorkers", job=job.name, workers="worker:0", timeout_ms=0)["stopped"] == 1
    job.preempt()
    ended = job.ended()
    verdict_of(ended, "preempted")
    assert ended["workers"][0]["state"] == "stopped" and ended["workers"][0]["on_purpose"]
    name, run = job.daemon.submit({"roles": [{"name": "a", "command": puppet(
        f"on:TERM:wait-file:{box.path('go')}+exit:0", f"touch:{box.path('a')}", "hang")}, {
            "name": "b", "replicas": 2, "command": late, "start_delay": "1h"}]})
    wait_file(box.path("a"))
    wait_file(box.path("late.1"))
    preempt(job.daemon, name)
    waiting = job.daemon.watch(run, lambda j, _: "preemption" in j)["workers"][2]
    assert waiting["state"] == "stopped" and "a notice of preemption is up" in waiting["reason"]
    box.path("go").touch()
    ended = job.daemon.wait(run)
    verdict_of(ended, "preempted")
    assert not box.path("late.2").exists()
    assert [t["state"] for t in ended["workers"]] == ["stopped"] * 3


def test_a_task_in_its_backoff_stays_down(box, daemon):
    name, run = daemon.submit(spec("exit:1", restart={"scope": "worker", "max": 9, "backoff": "1h"}))
    daemon.wait_event(name, "worker-restart")
    preempt(daemon, name)
    verdict_of(daemon.wait(run), "preempted")


def test_a_group_in_its_backoff_is_preempted_at_once(box, daemon):
    name, run = daemon.submit(spec("exit:1", restart={"max": 9, "backoff": "1h"}))
    daemon.wait_event(name, "backoff")
    preempt(daemon, name, reason="spot")
    job = daemon.wait(run)
    verdict = verdict_of(job, "preempted")
    assert verdict["exit_status"] == 42 and verdict["preemption"]["participants"] == 0
    assert "spot" in verdict["message"]


def test_a_group_that_is_being_stopped_for_a_restart_is_preempted_instead(box, daemon):
    """Who has had the stop signal for that is not signalled again."""
    on_term = f"{{touch:{box.path('stopping')}+wait-file:{box.path('go')}+exit:0}}"
    name, run = up(box, daemon, f"if-rank:0:on:TERM:{on_term}",
                   f"if-rank:1:{{touch:{box.path('up')}.1.0+wait-file:{box.path('fail')}+exit:3}}",
                   replicas=2, restart={"max": 5}, stop={"timeout": "10m"})
    box.path("fail").touch()
    wait_file(box.path("stopping"))
    preempt(daemon, name, reason="spot")
    box.path("go").touch()
    job = daemon.wait(run)
    verdict = verdict_of(job, "preempted")
    assert verdict["root_cause"]["rank"] == 1 and verdict["root_cause"]["exit"]["code"] == 3
    assert "spot" in verdict["message"] and job["attempt"] == 0
    assert not events(daemon, run, "notice-signal") and len(events(daemon, run, "started")) == 1


def test_nothing_is_started_while_a_notice_is_up(job_of):
    job = job_of(2)
    team = job.team()
    assert [t.step(1) for t in team] == ["continue"] * 2
    job.preempt()
    team[1].leave(0)
    job.daemon.wait_event(job.name, "worker-ended")
    with job.agent() as v:
        for method, parameters in (("Restart", {}), ("Scale", {"replicas": 5}),
                                   ("StartWorker", {"role": "worker", "index": 1}),
                                   ("StartWorker", {"role": "worker"}),
                                   ("StopWorkers", {"workers": "worker:0", "again": True})):
            with pytest.raises(VarlinkError) as e:
                v.call(method, job=job.name, **parameters)
            assert e.value.name == "Internal", (method, e.value)
            assert "a notice of preemption is up" in e.value.parameters["message"]
    assert team[0].until_told() == ("save_exit", 2)
    team[0].save_and_leave()
    ended = job.ended()
    verdict_of(ended, "preempted")
    assert len(ended["workers"]) == 2 and ended["restarts"] == 0


def test_a_stop_during_a_notice_is_a_stop(job_of):
    job = job_of(2)
    team = job.team()
    assert [t.step(1) for t in team] == ["continue"] * 2
    job.preempt()
    job.daemon.call("Stop", job=job.name)
    ended = job.ended()
    verdict = verdict_of(ended, "stopped")
    assert "preemption" not in verdict and "preemption" not in ended and verdict["exit_status"] == 143


def test_the_limit_of_the_run_during_a_notice_is_that_limit(box, daemon):
    name, run = up(box, daemon, f"on:USR1:touch:{box.path('asked')}", preemption={"signal": "USR1"})
    preempt(daemon, name)
    wait_file(box.path("asked"))
    with daemon.connect() as v:  # as max_run_time does it, at a time of the test's own
        v.call("Wait", job=run, timeout_ms=1, kill=True)
    job = daemon.wait(run)
    assert verdict_of(job, "timeout")["exit_status"] == 124


def test_a_person_stops_one_task_and_the_others_save(job_of):
    job = job_of(2)
    a, b = job.team()
    assert (a.step(1), b.step(1)) == ("continue", "continue")
    job.preempt()
    with job.agent() as v:
        assert v.call("StopWorkers", job=job.name, workers="worker:0")["stopped"] == 1
    assert b.until_told() == ("save_exit", 2)
    b.save_and_leave()
    ended = job.ended()
    assert "root_cause" not in verdict_of(ended, "preempted")
    assert ended["workers"][0]["on_purpose"] and "saved_step" not in ended["workers"][0]


def test_a_leader_that_has_done_its_work_ends_the_job_as_ever(job_of, box):
    server = puppet(f"on:TERM:touch:{box.path('asked')}", f"touch:{box.path('up')}", "hang")
    job = job_of(1, roles=[{"name": "chief", "leader": True}, {"name": "ps", "command": server}],
                 leader={"grace": "100ms"}, stop={"timeout": "100ms"})
    wait_file(box.path("up"))
    chief = job.trainee("chief:0")
    assert chief.step(1) == "continue"
    job.preempt()
    chief.leave(0)
    verdict_of(job.ended(), "succeeded")


def test_workers_left_by_a_leader_are_stopped_and_the_job_succeeds(job_of, box):
    server = puppet(f"on:TERM:touch:{box.path('asked')}+exit:0", f"touch:{box.path('up')}", "hang")
    job = job_of(1, roles=[{"name": "chief", "leader": True}, {"name": "ps", "command": server}],
                 leader={"grace": "1h"})
    wait_file(box.path("up"))
    job.connect("ps:0").put("address", "here")
    chief = job.trainee("chief:0")
    assert chief.step(1) == "continue"
    job.preempt()
    chief.leave(0)
    ended = job.ended()
    verdict_of(ended, "succeeded")
    assert box.path("asked").exists() and not job.events("notice-signal")


def test_a_task_in_a_terminal_is_signalled_there(box, daemon):
    name, run = up(box, daemon, "on:TERM:exit:0", replicas=2, name="j")
    assert daemon.call("StopWorkers", job=name, workers="worker:0")["stopped"] == 1
    terminal = box.ctl_start("attach", "j/0", "--", PUPPET, f"on:TERM:touch:{box.path('saved')}+exit:0",
                             f"touch:{box.path('here')}", "hang")
    wait_file(box.path("here"))
    daemon.watch(run, lambda j, _: j["workers"][0]["state"] == "running")
    preempt(daemon, name)
    job = daemon.wait(run)
    verdict_of(job, "preempted")
    assert terminal.wait().rc == 0 and box.path("saved").exists()
    assert [t["state"] for t in job["workers"]] == ["stopped"] * 2


def test_a_leader_that_leaves_on_the_notice_does_not_end_the_others_saving(job_of):
    job = job_of(2, roles=[{"name": "chief", "leader": True}, {"name": "worker"}],
                 leader={"grace": "1ms"})
    chief, worker = job.team()
    assert (chief.step(5), worker.step(2)) == ("continue", "continue")
    job.preempt()
    assert chief.until_told() == ("save_exit", 6)
    chief.save_and_leave()
    job.daemon.wait_event(job.name, "left")
    assert worker.until_told() == ("save_exit", 6)
    worker.save_and_leave()
    told = verdict_of(job.ended(), "preempted")["preemption"]
    assert told["saved"] == 2 and not job.events("leader-ended")


# --- exit codes, and an agent that is lost ---------------------------------------------------------


def test_the_exit_code_is_the_specifications(job_of):
    job = job_of(1, preemption={"exit_code": 77})
    (t,) = job.team()
    assert t.exit_code == 77
    assert t.step(1) == "continue"
    job.preempt()
    assert t.until_told() == ("save_exit", 2)
    t.save_and_leave()
    ended = job.ended()
    assert verdict_of(ended, "preempted")["exit_status"] == 77
    assert ended["workers"][0]["exit"]["code"] == 77


@pytest.mark.parametrize("code,preemption", [(42, {}), (77, {"exit_code": 77}), (42, {"exit_code": 77})])
def test_an_exit_with_it_costs_no_restart(box, daemon, code, preemption):
    """Also of a worker that had its notice from somewhere else."""
    job = daemon.run(spec(f"if-attempt:0:exit:{code}", restart={"max": 0}, preemption=preemption))
    assert verdict_of(job, "succeeded") and job["attempt"] == 1 and job["restarts"] == 0


def test_a_rule_for_the_code_itself_holds(box, daemon):
    job = daemon.run(spec("if-attempt:0:exit:77", restart={"max": 5, "codes": {"77": "fatal"}},
                          preemption={"exit_code": 77}))
    assert verdict_of(job, "failed")["exit_status"] == 77 and job["attempt"] == 0


def test_an_agent_that_is_lost_with_a_notice_up_is_followed_by_the_end(job_of):
    job = job_of(2, restart={"max": 5})
    team = job.team()
    assert [t.step(1) for t in team] == ["continue"] * 2
    job.preempt(reason="the spot is gone")
    assert team[0].until_told() == ("save_exit", 2)
    team[0].saved("/ckpt/0")
    pid = job.daemon.agent_pid(job.run)
    os.kill(pid, signal.SIGKILL)
    ended = job.ended()
    verdict = verdict_of(ended, "preempted")
    assert verdict["exit_status"] == 42 and "the spot is gone" in verdict["message"]
    assert "the agent was lost" in verdict["message"]
    assert verdict["preemption"]["state"] == "over" and verdict["preemption"]["step"] == 2
    assert (verdict["preemption"]["participants"], verdict["preemption"]["saved"]) == (2, 1)
    saved = [(t.get("saved_step"), t.get("saved_path")) for t in ended["workers"]]
    assert saved == [(2, "/ckpt/0"), (None, None)]
    assert ended["attempt"] == 0 and len(job.events("started")) == 1


def test_a_program_ends_as_preempted_for_those_who_wait(box, daemon):
    name, run = up(box, daemon, "on:TERM:exit:0")
    waiter = box.ctl_start("wait", run)
    preempt(daemon, name)
    assert waiter.wait().rc == 42
    assert (daemon.record(run) / "verdict.json").exists()
    wait_text(daemon.record(run) / "verdict.json", "preempted")
