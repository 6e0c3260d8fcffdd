# SPDX-License-Identifier: Apache-2.0
"""One decision: status, message, errors and why name the same failure, while it happens and afterwards."""

import time

import pytest

from harness import PUPPET, SLOWER, spec, wait_file
from ends import reporter, wait_and_end


def errors(daemon, job, **more):
    return daemon.call("Errors", job=job, **more)["failures"]


def same_cause(daemon, run, text):
    """What all that tell of the run's end begin with, and its root cause."""
    job = daemon.call("Status", job=run)["job"]
    cause = job["verdict"]["root_cause"]
    assert cause["text"] == text, job["verdict"]
    assert text in job["verdict"]["message"] and text in job["reason"], job
    assert errors(daemon, run)[0]["text"] == text
    assert text in daemon.call("Why", job=run)["text"].splitlines()[0]
    return job["verdict"]


def test_the_first_reported_error_is_the_cause_though_another_worker_exits_first(box, daemon):
    """Its own end is then the agent's SIGTERM, which is nobody's exit status."""
    _, run = daemon.submit(reporter("error:9:the disk is gone", f"touch:{box.path('up')}", "hang",
                                    others=(f"wait-file:{box.path('up')}", "exit:7")))
    daemon.wait(run)
    verdict = same_cause(daemon, run, "reporter:0: the disk is gone (FailedPrecondition)")
    assert (verdict["result"], verdict["exit_status"]) == ("failed", 1), verdict
    assert verdict["root_cause"]["exit"]["signal"] == 15


def test_a_cause_that_shows_itself_while_all_are_stopped_is_that_of_the_message_too(box, daemon):
    """Rank 0 wrote its error first, but was still there when rank 1 ended."""
    _, run = daemon.submit(spec(
        "on:TERM:exit:4",
        f"if-rank:0:{{error-json:object:early+touch:{box.path('written')}}}",
        f"if-rank:1:{{wait-file:{box.path('written')}+sleep:1200+error-json:object:late+exit:5}}",
        "hang", replicas=2, stop={"timeout": "10s"}))
    daemon.wait(run)
    verdict = same_cause(daemon, run, "worker:0: early (exit code 4)")
    assert verdict["exit_status"] == 4, verdict
    names = [e["event"] for e in daemon.events(run)]
    assert "root-cause" in names
    assert "worker:1" not in daemon.call("Why", job=run)["text"]


@pytest.mark.parametrize("wait", [True, False])
def test_a_run_that_fails_until_its_time_is_over_names_its_last_failure(box, daemon, wait):
    seconds = 4 * SLOWER
    limit = {} if wait else {"max_run_time": f"{seconds}s"}  # two attempts must be over by then
    name, run = daemon.submit(spec(f"mark:{box.path('marks')}", "if-attempt:0:error-json:object:bad+exit:3",
                                   "if-attempt:1:exit:5", f"touch:{box.path('up')}", "hang",
                                   restart={"max": 9}, **limit))
    wait_file(box.path("up"))
    if wait:
        wait_and_end(daemon, name, 100)
    daemon.wait(run)
    verdict = same_cause(daemon, run, "worker:0: exit code 5")
    assert (verdict["result"], verdict["exit_status"]) == ("timeout", 124), verdict
    after = "0.100" if wait else seconds
    assert verdict["message"] == f"timed out after {after} s; last failure: worker:0: exit code 5"
    assert verdict["root_cause"]["attempt"] == 1
    assert box.ctl("why", run).out.startswith(f"{run}: failed: timed out after {after} s; last"), run


def test_a_limit_that_falls_into_a_backoff_names_the_programs_own_error(box, daemon):
    """Rank 1 only crashed, and did so first."""
    name, run = daemon.submit(spec(
        "on:TERM:exit:6", f"barrier:{box.path('bar')}",
        f"if-rank:0:{{error-json:object:out of data+touch:{box.path('written')}+hang}}",
        f"if-rank:1:{{wait-file:{box.path('written')}+exit:5}}", "hang", replicas=2,
        restart={"max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["state"] == "backoff")
    wait_and_end(daemon, name)
    verdict = same_cause(daemon, run, "worker:0: out of data (exit code 6)")
    assert (verdict["result"], verdict["exit_status"]) == ("timeout", 124), verdict
    assert "; last failure: worker:0: out of data" in verdict["message"]
    assert box.ctl("wait", run).rc == 124


def test_a_limit_names_the_worker_that_waits_to_be_started_again(box, daemon):
    name, run = daemon.submit(spec("if-rank:1:exit:6", "hang", replicas=2,
                                   restart={"scope": "worker", "max": 1, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["workers"][1].get("next_start_us"))
    wait_and_end(daemon, name)
    verdict = same_cause(daemon, run, "worker:1: exit code 6")
    assert (verdict["result"], verdict["exit_status"]) == ("timeout", 124), verdict


def test_errors_during_a_stop_shows_the_failures_that_are_known(box, daemon):
    name, run = daemon.submit(spec("ignore:TERM", f"barrier:{box.path('bar')}",
                                   "if-rank:1:error-json:object:out of data+exit:5", "hang",
                                   replicas=2, stop={"timeout": "10m"}))
    daemon.watch(name, lambda job, _: job["state"] == "stopping")
    found = errors(daemon, name)
    assert [f["text"] for f in found] == ["worker:1: out of data (exit code 5)"], found
    shown = box.ctl("errors", name)
    assert shown.rc == 0 and "out of data" in shown.out, shown
    assert "worker:1: out of data (exit code 5)" in daemon.call("Why", job=name)["text"]
    daemon.call("Kill", job=name, signal="KILL")
    daemon.wait(run)
    same_cause(daemon, run, "worker:1: out of data (exit code 5)")


def test_errors_shows_who_reported_an_error_and_does_not_end(box, daemon):
    name, _ = daemon.submit(reporter("error:9:the disk is gone", f"touch:{box.path('up')}", "hang"))
    wait_file(box.path("up"))
    found = errors(daemon, name)
    assert len(found) == 1 and "the disk is gone" in found[0]["text"], found
    shown = box.ctl("errors", name)
    assert "the disk is gone" in shown.out, shown


def test_events_stand_in_the_order_of_cause_and_effect(daemon):
    job = daemon.run(spec("if-rank:1:exit:3", "hang", replicas=2, restart={"max": 1}))
    events = [e for e in daemon.events(job["run"])]
    wanted = ["worker-ended", "worker-failed", "restart", "state", "worker-ended", "worker-failed"]
    begin = next(i for i, e in enumerate(events) if e["event"] == "worker-ended")
    assert [e["event"] for e in events[begin:begin + 6]] == wanted, events
    assert [e.get("rank") for e in events[begin:begin + 6]] == [1, 1, None, None, 0, 0]
    assert len([e for e in events if e["event"] == "worker-failed"]) == 4, events


def test_why_says_which_worker_which_code_and_when(box, daemon):
    job = daemon.run(spec("if-rank:1:if-attempt:0:signal:SEGV", "if-rank:0:if-attempt:1:exit:3", "hang",
                          replicas=2, restart={"max": 1}))
    text = box.ctl("why", job["run"]).out
    day = time.strftime("%Y-%m-%d ", time.localtime())
    lines = [line.strip() for line in text.splitlines() if "attempt" in line]
    assert len(lines) == 2 and all(line.startswith(day[:8]) for line in lines), text
    assert "attempt 0: worker:1: signal 11 (SIGSEGV)" in lines[0] and "restart 1 of 1" in lines[0]
    assert "attempt 1: worker:0: exit code 3; the only restart is used" in lines[1]


def test_a_worker_that_fails_by_itself_is_not_ended_by_the_agent(box):
    result = box.run("--nproc-per-node=2", PUPPET, "on:TERM:exit:3", f"barrier:{box.path('bar')}",
                     "if-rank:1:exit:5", "hang")
    assert result.rc == 5 and "by the agent" not in result.err, result
    assert "exited with code 3" in result.err


def test_the_exit_of_a_stopping_worker_is_its_own(box, daemon):
    job = daemon.run(spec("on:TERM:exit:3", f"barrier:{box.path('bar')}", "if-rank:1:exit:5", "hang",
                          replicas=2))
    ended = {e["rank"]: e["text"] for e in daemon.events(job["run"]) if e["event"] == "worker-ended"}
    assert ended[0].endswith("while it was being stopped"), ended
    assert "stopp" not in ended[1]


def test_an_absent_program_is_said_once(box, daemon):
    result = box.run("--no-python", "/no/such/program")
    assert result.rc == 127 and result.err.count("/no/such/program") == 1, result
    result = box.ctl("start", "--name=absent", "--no-python", "/no/such/program")
    assert result.err.count("cannot exec") == 1, result
