# SPDX-License-Identifier: Apache-2.0
"""The restart policy: budget, window, backoff, exit-code rules, and what is never counted."""

import time

import pytest

from harness import ALL, PATIENCE, SLOWER, descriptors, puppet, spec, wait_file, wait_for, wait_lines

RESTARTS = (200 if ALL else 60) // SLOWER


def starts(box, count):
    return len(wait_lines(box.path("marks"), count)) if count else 0


def delays(daemon, job):
    return [e["data"]["delay_ms"] for e in daemon.events(job["run"]) if e["event"] == "restart"]


def test_max_restarts_are_granted_and_no_more(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "exit:3", restart={"max": 2}))
    assert (job["state"], job["attempt"], job["restarts"], job["max_restarts"]) == ("failed", 2, 2, 2)
    assert job["verdict"]["exit_status"] == 3
    assert starts(box, 3) == 3


def test_a_window_needs_no_limit_over_the_jobs_life(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "exit:3", restart={"window": "1h", "window_max": 2}))
    assert (job["state"], job["attempt"], job["restarts"], job["max_restarts"]) == ("failed", 2, 2, -1)
    budget = daemon.call("Why", job=job["name"])["budget"]
    assert (budget["max"], budget["left"], budget["window_used"]) == (-1, 0, 2)
    assert "no limit" not in box.ctl("status", job["name"]).out
    assert "restart.window" in box.ctl("status", job["name"]).out
    assert " 2 " in box.ctl("list", "--all").out


def test_no_restart_by_default(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "exit:3"))
    assert (job["state"], job["restarts"]) == ("failed", 0) and starts(box, 1) == 1


def test_the_budget_is_the_jobs_and_not_each_ranks(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", f"barrier:{box.path('bar')}",
                          "if-attempt:0:if-rank:0:exit:1", "if-attempt:1:if-rank:1:exit:1",
                          "if-attempt:2:if-rank:2:exit:7", "hang", replicas=3, restart={"max": 2}))
    assert (job["state"], job["restarts"]) == ("failed", 2)
    assert job["verdict"]["exit_status"] == 7 and starts(box, 9) == 9


def test_policy_never(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "exit:3",
                          restart={"policy": "never", "max": 5}))
    assert (job["state"], job["attempt"]) == ("failed", 0) and starts(box, 1) == 1


def test_policy_always_restarts_after_success_and_counts_only_failures(box, daemon):
    name, _ = daemon.submit(spec(f"mark:{box.path('marks')}", "if-attempt:3:exit:5", "if-attempt:5:hang",
                                 "exit:0", restart={"policy": "always", "max": 1}))
    assert starts(box, 6) == 6
    wait_for(lambda: daemon.call("Status", job=name)["job"]["attempt"] == 5, what="the sixth attempt")
    job = daemon.wait(name, until="running")
    assert (job["attempt"], job["restarts"]) == (5, 1)
    daemon.call("Stop", job=name)
    assert daemon.wait(name)["state"] == "stopped"


def test_forty_two_is_not_counted(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "if-attempt:0:exit:42", "if-attempt:1:exit:42"))
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 2, 0)


def test_forty_two_can_be_made_to_count(box, daemon):
    job = daemon.run(spec("exit:42", restart={"max": 1, "codes": {"42": "count"}}))
    assert (job["state"], job["restarts"], job["verdict"]["exit_status"]) == ("failed", 1, 42)


def test_a_free_code_and_a_free_signal(box, daemon):
    job = daemon.run(spec("if-attempt:0:exit:75", "if-attempt:1:signal:USR1",
                          restart={"codes": {"75": "free", "SIGUSR1": "free"}}))
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 2, 0)


def test_a_fatal_code_and_a_fatal_signal_end_at_once(box, daemon):
    rules = {"max": 5, "codes": {"3": "fatal", "SIGSEGV": "fatal"}}
    job = daemon.run(spec("exit:3", restart=rules))
    assert (job["state"], job["attempt"]) == ("failed", 0)
    job = daemon.run(spec("if-attempt:0:exit:1", "signal:SEGV", restart=rules))
    assert (job["state"], job["attempt"], job["verdict"]["exit_status"]) == ("failed", 1, 139)


@pytest.mark.parametrize("command,status", [(["/no/such/program"], 127), (["/"], 126)])
def test_a_program_that_cannot_be_executed_is_not_tried_again(daemon, command, status):
    job = daemon.run({"roles": [{"command": command, "replicas": 2}], "restart": {"max": 1000}})
    assert (job["state"], job["attempt"], job["restarts"]) == ("failed", 0, 0)
    assert job["verdict"]["exit_status"] == status
    assert command[0] in job["verdict"]["message"]
    assert job["verdict"]["root_cause"]["exit"]["errno"] in (2, 13)


def test_a_window_ends_a_crash_loop(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "exit:3",
                          restart={"max": 1000, "window": "1h", "window_max": 3}))
    assert (job["state"], job["restarts"]) == ("failed", 3) and starts(box, 4) == 4
    assert "within the last" in daemon.call("Why", job=job["run"])["text"]


def test_a_window_forgets_what_is_long_ago(box, daemon):
    job = daemon.run(spec("sleep:150", "if-attempt:4:exit:0", "exit:3",
                          restart={"max": 1000, "window": "200ms", "window_max": 2}))
    assert (job["state"], job["attempt"]) == ("succeeded", 4)


def test_backoff_doubles_up_to_its_limit(box, daemon):
    job = daemon.run(spec(f"stamp:{box.path('stamps')}", "exit:1",
                          restart={"max": 4, "backoff": "100ms", "backoff_max": "300ms"}))
    assert job["state"] == "failed"
    times = [int(line.split()[0]) / 1e6 for line in wait_lines(box.path("stamps"), 5)]
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert delays(daemon, job) == [100, 200, 300, 300]
    for gap, least in zip(gaps, delays(daemon, job)):
        assert least * 0.95 <= gap, gaps


def test_without_backoff_there_is_no_wait(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "exit:1", restart={"max": 10}))
    assert starts(box, 11) == 11 and delays(daemon, job) == [0] * 10


def test_backoff_is_visible_and_a_stop_ends_it(box, daemon):
    name, _ = daemon.submit(spec("exit:1", restart={"max": 5, "backoff": "10m"}))
    job = daemon.watch(name, lambda job, _: job["state"] == "backoff")
    assert job["next_try_us"] - job["created_us"] > 500e6
    daemon.call("Stop", job=name)
    assert daemon.wait(name)["state"] == "stopped"


def test_a_restart_by_hand_cuts_the_backoff_short(box, daemon):
    name, _ = daemon.submit(spec("if-attempt:0:exit:1", restart={"max": 5, "backoff": "10m"}))
    daemon.watch(name, lambda job, _: job["state"] == "backoff")
    daemon.call("Restart", job=name)
    assert daemon.wait(name)["state"] == "succeeded"


def test_running_healthy_for_long_enough_resets_the_backoff(box, daemon):
    healthy = 4000 * SLOWER  # what ends at once must not come near it
    job = daemon.run(spec(f"if-attempt:2:sleep:{healthy * 3 // 2}", "exit:1",
                          restart={"max": 3, "backoff": "200ms", "healthy_after": f"{healthy}ms"}))
    assert job["state"] == "failed"
    assert delays(daemon, job) == [200, 400, 200], "back to 200 ms after a healthy run"


def test_the_others_are_stopped_before_the_next_attempt(box, daemon):
    job = daemon.run(spec(f"hold:{box.path('lock')}.%r", "on:TERM:sleep:300",
                          f"barrier:{box.path('bar')}", "if-attempt:1:exit:0", "if-rank:0:exit:1",
                          "sleep:60000", replicas=4, restart={"max": 1}, stop={"timeout": "1s"}))
    assert job["state"] == "succeeded", f"one that still held its lock was joined by its successor: {job}"
    assert job["restarts"] == 1


def test_workers_that_succeeded_run_again_with_the_group(box, daemon):
    job = daemon.run(spec(f"mark:{box.path('marks')}", "if-attempt:0:if-rank:1:"
                          f"{{wait-file:{box.path('go')}+exit:1}}", f"if-rank:0:touch:{box.path('go')}",
                          replicas=2, restart={"max": 1}))
    assert job["state"] == "succeeded" and starts(box, 4) == 4


def test_a_success_of_one_leaves_the_others_running(box, daemon):
    name, _ = daemon.submit(spec("if-rank:0:exit:0", f"wait-file:{box.path('go')}", replicas=3))
    daemon.watch(name, lambda job, _: job["workers"][0]["state"] == "succeeded" and job["state"] == "running"
                 and job["workers"][1]["state"] == "running")
    box.path("go").touch()
    assert daemon.wait(name)["state"] == "succeeded"


def test_the_time_limit_of_the_job_counts_over_restarts(box, daemon):
    """No attempt lasts that long, and there is no end to them."""
    job = daemon.run(spec("sleep:300", "exit:1", max_run_time=f"{5 * SLOWER}s", restart={"max": 100000}))
    assert job["verdict"]["result"] == "timeout" and job["verdict"]["exit_status"] == 124
    assert job["attempt"] >= 1


def test_a_time_limit_sends_the_dump_signal_first(box, daemon):
    dumped, stopped = box.path("dumped"), box.path("stopped")
    _, run = daemon.submit(spec(f"on:USR1:touch:{dumped}.%r", f"on:TERM:touch:{stopped}.%r",
                                f"touch:{box.path('up')}.%r", f"wait-file:{dumped}.%r",
                                f"wait-file:{stopped}.%r", replicas=2,
                                stop={"dump_signal": "USR1", "timeout": "10m"}))
    for rank in range(2):
        wait_file(box.path(f"up.{rank}"))
    begun = time.monotonic()
    with daemon.connect() as v:  # as max_run_time does it, at a time of the test's own
        job = v.call("Wait", job=run, timeout_ms=1, kill=True)["job"]
    assert job["verdict"]["result"] == "timeout"
    # Whoever is slow has both at once; but there is a second between them, in which a dump is written.
    assert time.monotonic() - begun > 0.9


@pytest.mark.slow
@pytest.mark.seconds(600)
def test_many_restarts_leave_no_descriptor(box, daemon):
    name, run = daemon.submit(spec(
        f"if-attempt:5:touch:{box.path('early')}.%r+wait-file:{box.path('go')}",
        f"if-attempt:{RESTARTS}:touch:{box.path('late')}.%r+hang", "exit:1",
        replicas=2, restart={"max": 1000}, logs={"tee": 3, "redirects": 3}))
    agent = daemon.agent_pid(run)

    def held(when):
        for rank in range(2):
            wait_file(box.path(f"{when}.{rank}"), timeout=4 * PATIENCE)
        return len(descriptors(agent))

    few = held("early")
    box.path("go").touch()
    many = held("late")
    assert many <= few + 10, f"{few} descriptors after 5 restarts, {many} after {RESTARTS}"
