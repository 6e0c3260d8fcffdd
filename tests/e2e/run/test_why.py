# SPDX-License-Identifier: Apache-2.0
"""why: the restart arithmetic, for people and programs."""

from harness import spec, wait_file


def test_why_shows_counts_by_cause_and_what_is_left(box, daemon):
    name, _ = daemon.submit(spec("if-attempt:0:exit:1", "if-attempt:1:exit:42", "if-attempt:2:signal:SEGV",
                                 f"touch:{box.path('up')}.%a", "hang", restart={"max": 5}))
    wait_file(box.path("up.3"))
    daemon.call("Restart", job=name)
    wait_file(box.path("up.4"))
    why = daemon.call("Why", job=name)
    budget = why["budget"]
    assert (budget["used"], budget["max"], budget["left"], budget["free"]) == (2, 5, 3, 2), budget
    causes = budget["by_cause"]
    assert causes["signal"] == 1 and causes["operator"] == 1 and causes["exit"] == 2, causes
    assert "2" in why["text"] and "3" in why["text"]


def test_the_next_try_during_backoff(daemon):
    name, _ = daemon.submit(spec("exit:1", restart={"max": 3, "backoff": "1h"}))
    job = daemon.watch(name, lambda job, _: job["state"] == "backoff")
    budget = daemon.call("Why", job=name)["budget"]
    assert budget["next_try_us"] == job["next_try_us"]
    assert budget["backoff_ms"] == 3_600_000


def test_the_window(daemon):
    job = daemon.run(spec("exit:1", restart={"max": 9, "window": "1h", "window_max": 2}))
    budget = daemon.call("Why", job=job["run"])["budget"]
    assert (budget["window_ms"], budget["window_max"], budget["window_used"]) == (3_600_000, 2, 2)
    assert budget["left"] == 0


def test_limits_of_causes(daemon):
    job = daemon.run(spec("if-attempt:0:exit:3", "if-attempt:1:exit:42", "signal:SEGV",
                          restart={"max": 5, "max_by_cause": {"signal": 2, "heartbeat": 0}}))
    assert job["attempt"] == 4 and job["restarts"] == 3, job
    said = job["verdict"]["message"]
    assert "the limit of 2 restarts by signal is used (restart.max_by_cause)" in said, said
    why = daemon.call("Why", job=job["run"])
    budget = why["budget"]
    assert budget["max_by_cause"] == {"signal": 2, "heartbeat": 0}, budget
    assert budget["counted_by_cause"] == {"exit": 1, "signal": 2, "heartbeat": 0}, budget
    assert budget["by_cause"]["exit"] == 2, budget
    for line in "3 of 5 restarts used", "  2 by signal (2 of 2 used)", "  0 by heartbeat (0 of 0 used)":
        assert line in why["text"], why["text"]


def test_by_command_line(box, daemon):
    job = daemon.run(spec("exit:3", restart={"max": 1}))
    result = box.ctl("why", job["run"])
    assert result.rc == 0 and "1" in result.out and "3" in result.out, result
    parsed = box.ctl("why", "--json", job["run"]).json
    assert (parsed.get("budget") or parsed)["used"] == 1


def test_tasks_that_are_started_again_alone_during_the_run_and_after_it(box, daemon):
    name, run = daemon.submit(spec("if-rank:1:exit:3", f"wait-file:{box.path('go')}", replicas=2,
                                   restart={"scope": "worker", "max": 2, "backoff": "1h"}))
    daemon.watch(name, lambda job, _: job["workers"][1].get("next_start_us"))
    assert "  worker:1: 1 of 2 restarts used; 1 left" in daemon.call("Why", job=name)["text"]
    daemon.call("Stop", job=name)
    daemon.wait(run)
    text = daemon.call("Why", job=run)["text"]
    assert "  worker:1: 1 of 2 restarts used; 1 left" in text and "next start" not in text, text
