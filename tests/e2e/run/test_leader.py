# SPDX-License-Identifier: Apache-2.0
"""The leader: its end is the group's, after a grace, or it is not."""

import pytest

from harness import alive, puppet, wait_file, wait_lines


def group(chief, worker, workers=2, **top):
    return {"roles": [{"name": "chief", "leader": True, "command": puppet(*chief)},
                      {"name": "worker", "replicas": workers, "command": puppet(*worker)}], **top}


def now(grace="0s", **more):
    return {"on_exit": "stop", "grace": grace, **more}


def states(job):
    return [t["state"] for t in job["workers"]]


def test_its_success_ends_the_group_with_success(box, daemon):
    job = daemon.run(group([f"wait-file:{box.path('up')}"], [f"touch:{box.path('up')}", "hang"],
                           leader=now()))
    assert job["state"] == job["verdict"]["result"] == "succeeded"
    assert job["verdict"]["exit_status"] == 0
    assert states(job) == ["succeeded", "stopped", "stopped"]
    assert "chief:0" in job["verdict"]["message"]
    assert job["workers"][0]["leader"] and daemon.call("Errors", job=job["run"])["failures"] == []
    assert "leader-ended" in [e["event"] for e in daemon.events(job["run"])]


def test_the_others_leave_by_themselves_within_the_grace(box, daemon):
    job = daemon.run(group([f"touch:{box.path('over')}"], [f"wait-file:{box.path('over')}"],
                           leader=now("1h")))
    assert job["state"] == "succeeded" and states(job) == ["succeeded"] * 3


def test_no_signal_comes_before_the_grace_is_over(box, daemon):
    name, _ = daemon.submit(group(["exit:0"], [f"on:TERM:touch:{box.path('term')}.%r", "hang"],
                                  workers=1,
                                  leader=now("1h")))
    daemon.wait_event(name, "leader-ended")
    job = daemon.status(name, live=True)
    assert job["state"] == "running" and not box.path("term.1").exists()
    daemon.call("Stop", job=name)
    job = daemon.wait(name)
    assert job["verdict"]["result"] == "stopped", "who asks for an end gets that one"


def test_a_job_of_several_roles_tells_who_it_was_not_which_rank(box, daemon):
    job = daemon.run(group(["exit:20"], ["exit:0"], leader=now("1h")))
    assert job["verdict"]["message"].startswith("chief:0: exit code 20;"), job["verdict"]
    ends = [e["text"] for e in daemon.events(job["run"]) if e["event"] == "worker-ended"]
    assert sorted(text.split(" (")[0] for text in ends) == ["chief:0", "worker:0", "worker:1"]
    (failed,) = [e["text"] for e in daemon.events(job["run"]) if e["event"] == "worker-failed"]
    assert failed.startswith("chief:0: exited with code 20")
    assert "chief:0: exit code 20" in box.ctl("wait", job["run"]).out
    assert " rank 0: chief:0 (pid " in box.ctl("events", job["run"]).out


def test_a_job_of_several_roles_tells_who_could_not_be_started(box, daemon):
    job = group(["hang"], ["hang"])
    job["roles"][1]["command"] = ["/no/such/program"]
    job = daemon.run(job)
    assert job["verdict"]["message"].startswith("worker:0: cannot exec /no/such/program"), job["verdict"]


def test_its_failure_names_it_and_the_others_are_not_blamed(box, daemon):
    for steps, status in ((["exit:20"], 20), (["signal:SEGV"], 139)):
        job = daemon.run(group(steps, ["hang"], leader=now()))
        assert job["state"] == "failed" and job["verdict"]["exit_status"] == status
        root = job["verdict"]["root_cause"]
        assert (root["role"], root["collateral"]) == ("chief", False)
        others = [f for f in daemon.call("Errors",
                                         job=job["run"])["failures"] if f["role"] == "worker"]
        assert others and all(f["collateral"] for f in others), others


def test_failures_after_the_leaders_end_do_not_count(box, daemon):
    name, _ = daemon.submit(group(["exit:0"], [f"wait-file:{box.path('over')}", "exit:3"],
                                  workers=1, leader=now("1h")))
    daemon.wait_event(name, "leader-ended")
    box.path("over").touch()
    job = daemon.wait(name)
    assert job["verdict"]["result"] == "succeeded", job


def test_after_a_leaders_failure_so_too(box, daemon):
    name, _ = daemon.submit(group(["exit:5"], [f"wait-file:{box.path('over')}", "exit:3"],
                                  workers=1, leader=now("1h")))
    daemon.wait_event(name, "leader-ended")
    box.path("over").touch()
    job = daemon.wait(name)
    assert job["verdict"]["exit_status"] == 5 and job["verdict"]["root_cause"]["role"] == "chief"


def test_no_worker_is_restarted_once_the_leader_has_ended(box, daemon):
    """A worker that fails again and again: its error is the verdict. The leader goes when it has failed
    once: a first failure, behind the leader's end, would be a consequence of that."""
    failed, again = box.path("failed"), box.path("again")
    job = daemon.run(group([f"wait-file:{again}"],
                           [f"if-file:{failed}:{{touch:{again}+sleep:1}}", f"touch:{failed}", "exit:7"],
                           workers=1, leader=now("1h"), restart={"scope": "worker", "max": 100000}))
    assert job["state"] == "failed" and job["verdict"]["exit_status"] == 7, job["verdict"]
    assert job["verdict"]["root_cause"]["role"] == "worker"


def test_a_worker_in_its_backoff_has_failed_for_good(box, daemon):
    name, _ = daemon.submit(group([f"wait-file:{box.path('go')}"], ["exit:8"], workers=1,
                                  leader=now("1h"),
                                  restart={"scope": "worker", "max": 3, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["workers"][1].get("next_start_us"))
    box.path("go").touch()
    job = daemon.wait(name)
    assert job["state"] == "failed" and job["verdict"]["exit_status"] == 8
    assert states(job) == ["succeeded", "failed"], job


def test_a_worker_that_has_recovered_does_not_spoil_the_success(box, daemon):
    died = box.path("died")
    name, _ = daemon.submit(group([f"wait-file:{box.path('go')}"],
                                  [f"unless-file:{died}:{{touch:{died}+exit:1}}",
                                   f"touch:{box.path('up')}", "hang"],
                                  workers=1, leader=now(), restart={"scope": "worker", "max": 3}))
    wait_file(box.path("up"))
    box.path("go").touch()
    assert daemon.wait(name)["state"] == "succeeded"


def test_a_leader_that_is_restarted_has_not_ended(box, daemon):
    died = box.path("died")
    job = daemon.run(group([f"unless-file:{died}:{{touch:{died}+exit:1}}",
                            f"touch:{box.path('go')}"],
                           [f"mark:{box.path('marks')}", f"wait-file:{box.path('go')}"],
                           leader=now("1h"),
                           restart={"scope": "worker", "max": 1}))
    assert (job["state"], job["attempt"]) == ("succeeded", 0) and job["workers"][0]["restarts"] == 1
    assert len(wait_lines(box.path("marks"), 2)) == 2


def test_a_leader_whose_budget_is_spent_ends_the_group(box, daemon):
    job = daemon.run(group(["exit:4"], ["hang"], leader=now(), restart={"scope": "worker", "max": 1}))
    assert job["verdict"]["exit_status"] == 4 and job["verdict"]["root_cause"]["role"] == "chief"
    assert job["workers"][0]["restarts"] == 1 and states(job) == ["failed", "stopped", "stopped"]


def test_a_leaders_failure_restarts_the_group_where_that_is_granted(box, daemon):
    job = daemon.run(group(["if-attempt:0:exit:1"], ["hang"], leader=now(), restart={"max": 1}))
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 1, 1)


def test_ignored_it_is_as_any_other(box, daemon):
    name, _ = daemon.submit(group(["exit:0"], [f"touch:{box.path('up')}.%r",
                                               f"wait-file:{box.path('go')}"],
                                  leader={"on_exit": "ignore"}))
    for rank in (1, 2):
        wait_file(box.path(f"up.{rank}"))
    job = daemon.watch(name, lambda job, _: states(job)[0] == "succeeded")
    assert job["state"] == "running" and states(job)[1:] == ["running"] * 2
    assert all(alive(t["pid"]) for t in job["workers"][1:])
    box.path("go").touch()
    job = daemon.wait(name)
    assert job["state"] == "succeeded" and states(job) == ["succeeded"] * 3


@pytest.mark.parametrize("how", ["Stop", "Restart"])
def test_the_grace_ends_with_what_comes_first(box, daemon, how):
    name, _ = daemon.submit(group([f"touch:{box.path('up')}", "if-attempt:1:hang"], ["hang"],
                                  workers=1,
                                  leader=now("1h")))
    daemon.wait_event(name, "leader-ended")
    if how == "Restart":
        daemon.call("Restart", job=name)
        assert daemon.watch(name, lambda job, _: job["attempt"] == 1 and job["state"] == "running")
        daemon.call("Stop", job=name)
    else:
        daemon.call("Stop", job=name)
    assert daemon.wait(name)["verdict"]["result"] == "stopped"


@pytest.mark.parametrize("code,policy", [(0, "always"), (7, "on-failure")])
def test_a_limit_within_the_grace_does_not_change_the_leaders_result(box, daemon, code, policy):
    name, run = daemon.submit(group([f"exit:{code}"], ["hang"], workers=1, leader=now("1h"),
                                    max_run_time="30s", restart={"policy": policy}))
    daemon.wait_event(name, "leader-ended")
    job = daemon.wait(name)
    assert job["verdict"]["result"] == ("failed" if code else "succeeded"), job["verdict"]
    assert job["verdict"]["exit_status"] == code and job["attempt"] == 0
    assert states(job) == ["failed" if code else "succeeded", "stopped"]
    assert "timeout" in [e["event"] for e in daemon.events(run)]


def test_a_wait_that_is_over_gets_no_leaders_result(box, daemon):
    name, _ = daemon.submit(group(["exit:0"], ["hang"], workers=1, leader=now("1h")))
    daemon.wait_event(name, "leader-ended")
    result = box.ctl("wait", "--timeout=100ms", "--kill", name)
    assert result.rc == 0, result
