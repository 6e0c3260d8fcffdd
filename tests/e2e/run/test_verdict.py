# SPDX-License-Identifier: Apache-2.0
"""The verdict's order: an application's error, a timeout, an unexpected exit, success;
and a wait that ends what it waits for."""

import time

import pytest

from harness import VarlinkError, alive, puppet, spec, wait_file, wait_text
from ends import reporter, wait_and_end


def test_a_wait_that_ends_the_run_gives_the_whole_of_it(box, daemon):
    # On a slow machine both signals are there at once: neither ends it before the other was heard.
    name, run = daemon.submit(spec("print:before", f"on:USR1:touch:{box.path('dumped')}.%r",
                                   f"on:TERM:touch:{box.path('stopped')}.%r",
                                   f"touch:{box.path('up')}.%r", f"wait-file:{box.path('stopped')}.%r",
                                   "exit:0", replicas=2,
                                   stop={"dump_signal": "USR1", "timeout": "10m"},
                                   logs={"redirects": 3}))
    for rank in range(2):
        wait_file(box.path(f"up.{rank}"))
    pids = [t["pid"] for t in daemon.wait(name, until="running")["workers"]]
    job = wait_and_end(daemon, name, 50)
    assert (job["run"], job["state"], job["verdict"]["result"]) == (run, "failed", "timeout")
    assert job["verdict"]["exit_status"] == 124 and not any(alive(p) for p in pids)
    assert box.path("dumped.0").exists() and box.path("dumped.1").exists()
    assert daemon.log(job, 0, 0).read_text() == "before\n"


def test_it_kills_what_does_not_obey(box, daemon):
    name, _ = daemon.submit(spec("ignore:TERM", f"touch:{box.path('up')}", "hang",
                                 stop={"timeout": "100ms"}))
    wait_file(box.path("up"))
    job = wait_and_end(daemon, name)
    assert job["verdict"]["result"] == "timeout" and job["workers"][0]["exit"]["signal"] == 9


def test_without_kill_the_run_goes_on(box, daemon):
    name, _ = daemon.submit(spec(f"touch:{box.path('up')}", "hang"))
    wait_file(box.path("up"))
    with pytest.raises(VarlinkError) as e:
        daemon.call("Wait", job=name, timeout_ms=1)
    assert e.value.name == "DeadlineExceeded"
    assert daemon.wait(name, until="running")["state"] == "running"


def test_a_run_that_ends_in_time_is_not_touched(box, daemon):
    name, _ = daemon.submit(spec(f"wait-file:{box.path('go')}"))
    with daemon.connect(600) as v:
        v.send("Wait", job=name, timeout_ms=3600000, kill=True)
        box.path("go").touch()
        assert v.reply()["job"]["verdict"]["result"] == "succeeded"


def test_a_wait_that_is_left_ends_nothing(box, daemon):
    for seconds in (1, 10, 60):  # one of them is long enough for any machine to leave before
        name, _ = daemon.submit(spec(f"touch:{box.path('up')}.{seconds}", f"wait-file:{box.path('go')}"))
        wait_file(box.path(f"up.{seconds}"))
        begun = time.monotonic()
        with daemon.connect() as v:
            v.send("Wait", job=name, timeout_ms=seconds * 1000, kill=True)
        if time.monotonic() - begun < seconds:
            break
    # When its time is over the run goes on.
    with daemon.connect(600) as v, pytest.raises(VarlinkError) as e:
        v.call("Wait", job=name, timeout_ms=seconds * 1000 + 500)
    assert e.value.name == "DeadlineExceeded"
    box.path("go").touch()
    assert daemon.wait(name)["verdict"]["result"] == "succeeded"


def test_it_ends_a_backoff_too(box, daemon):
    name, _ = daemon.submit(spec("exit:1", restart={"max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["state"] == "backoff")
    assert wait_and_end(daemon, name)["verdict"]["result"] == "timeout"


def test_it_ends_tasks_that_wait_for_their_restart(box, daemon):
    name, _ = daemon.submit(spec("if-rank:0:exit:1", "hang", replicas=2,
                                 restart={"scope": "worker", "max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["workers"][0].get("next_start_us"))
    job = wait_and_end(daemon, name)
    assert job["verdict"]["result"] == "timeout" and job["workers"][0]["state"] == "stopped"


def test_an_applications_error_outranks_the_timeout(box, daemon):
    """It wrote its error before it hung."""
    name, _ = daemon.submit(spec("if-rank:1:{error-json:object:out of data+sleep:10}",
                                 "if-rank:1:on:TERM:exit:3", f"touch:{box.path('up')}.%r",
                                 "hang", replicas=2))
    for rank in range(2):
        wait_file(box.path(f"up.{rank}"))
    job = wait_and_end(daemon, name)
    assert job["verdict"]["result"] == "failed"
    assert job["verdict"]["exit_status"] == 3, job["verdict"]
    assert job["verdict"]["root_cause"]["message"] == "out of data"


@pytest.mark.parametrize("steps,status", [(["exit:10"], 10), (["signal:KILL"], 137),
                                          (["signal:SEGV"], 139)])
def test_an_unexpected_exit_is_a_failure_whatever_kind(daemon, steps, status):
    job = daemon.run(spec("if-rank:1:" + steps[0], "hang", replicas=2))
    assert job["verdict"]["exit_status"] == status and job["verdict"]["root_cause"]["rank"] == 1


def test_two_that_fail_at_once_are_one_failure_of_the_group(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", f"barrier:{box.path('bar')}", "exit:3",
                          replicas=4,
                          restart={"max": 2}))
    assert (job["restarts"], job["attempt"]) == (2, 2)
    restarts = [e for e in daemon.events(job["run"]) if e["event"] in ("restart", "no-restart")]
    assert len(restarts) == 3, restarts


def test_the_command_line_says_it_too(box, daemon):
    name, _ = daemon.submit(spec("print:last words", f"touch:{box.path('up')}", "hang",
                                 logs={"redirects": 3}))
    wait_file(box.path("up"))
    job = wait_and_end(daemon, name)
    assert box.ctl("wait", name).rc == 124
    wait_text(daemon.log(job, 0, 0), "last words")


def test_roles_of_a_mixed_job_succeed_together(box, daemon):
    job = daemon.run({"roles": [{"name": n, "replicas": k, "command": puppet("print:%r")}
                                for n, k in (("chief", 1), ("worker", 2), ("ps", 3))]})
    assert job["state"] == "succeeded"
    assert [t["role"] for t in job["workers"]] == ["chief", "worker", "worker",
                                                                                "ps", "ps", "ps"]


def test_a_worker_that_reported_an_error_has_failed_although_it_exits_with_0(box, daemon):
    job = daemon.run(reporter("error:9:the disk is gone", "exit:0"))
    assert (job["verdict"]["result"], job["verdict"]["exit_status"]) == ("failed", 1), job
    cause = job["verdict"]["root_cause"]
    assert cause["role"] == "reporter" and "the disk is gone" in cause["message"], cause
    assert "the disk is gone" in job["verdict"]["message"]
    assert [t["state"] for t in job["workers"]] == ["stopped", "failed"]
    assert "worker-error" in [e["event"] for e in daemon.events(job["run"])]


def test_a_reported_error_is_paid_for_by_the_tasks_own_budget(box, daemon):
    job = daemon.run(reporter("error:9:once more", "exit:0", others=("exit:0",),
                              restart={"scope": "worker", "max": 1}))
    assert job["verdict"]["exit_status"] == 1 and job["attempt"] == 0
    assert [t["restarts"] for t in job["workers"]] == [0, 1]


def test_a_reported_error_outranks_the_timeout(box, daemon):
    name, _ = daemon.submit(reporter("error:9:the disk is gone", f"touch:{box.path('up')}",
                                     "hang"))
    wait_file(box.path("up"))
    job = wait_and_end(daemon, name)
    assert job["verdict"]["result"] == "failed", job["verdict"]
    assert "the disk is gone" in job["verdict"]["root_cause"]["message"]


def test_a_reported_error_of_one_that_is_stopped_on_purpose_is_nobodys_failure(box, daemon):
    name, _ = daemon.submit(reporter("error:9:the disk is gone", f"touch:{box.path('up')}", "hang",
                                     others=(f"wait-file:{box.path('go')}",)))
    wait_file(box.path("up"))
    assert daemon.call("StopWorkers", job=name, workers="reporter:0")["stopped"] == 1
    box.path("go").touch()
    assert daemon.wait(name)["verdict"]["result"] == "succeeded"


def test_a_code_that_says_nothing_is_not_shown(daemon):
    job = daemon.run(reporter("error:2:the disk is gone", "exit:0"))
    assert "the disk is gone" in job["verdict"]["message"]
    assert "Unknown" not in job["verdict"]["message"] + job["verdict"]["root_cause"]["message"]
