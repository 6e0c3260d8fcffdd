# SPDX-License-Identifier: Apache-2.0
"""A notice of preemption among tasks that tell their steps: they agree on one, save there, and leave."""

import os

import pytest

from harness import VarlinkError, fill
from trainees import SAVE_AT_AT, OutsideTrainee, Trainees, verdict_of


@pytest.fixture
def job_of(box):
    jobs = []

    def make(n=1, daemon=None, **document):
        jobs.append(Trainees(box, daemon or box.daemon, n, **document))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


def at_steps(team, *steps):
    for t, n in zip(team, steps):
        while t.n < n:
            assert t.step() == "continue"


def test_without_a_grace_period_all_save_once_and_leave(job_of):
    job = job_of(4)
    team = job.team()
    at_steps(team, 3, 5, 4, 5)
    assert job.preempt(reason="maintenance") == [job.run]
    up = job.status()["preemption"]
    assert (up["source"], up["reason"], up["state"]) == ("operator", "maintenance", "saving")
    assert (up["step"], up["final"], up["participants"], up["saved"]) == (6, True, 4, 0)
    assert "deadline_us" not in up
    for t in team:
        assert t.until_told() == ("save_exit", 6)
        t.saved(f"/ckpt/{t.rank}")
    assert job.status()["preemption"]["saved"] == 4
    for t in team:
        assert t.step() == "exit", "it saves once"
        t.leave()
    ended = job.ended()
    verdict = verdict_of(ended, "preempted")
    assert ended["state"] == "preempted" and verdict["exit_status"] == 42 and "root_cause" not in verdict
    told = verdict["preemption"]
    assert (told["state"], told["step"], told["saved"], told["notices"]) == ("over", 6, 4, 1)
    for task in ended["workers"]:
        assert task["state"] == "stopped" and task["exit"]["code"] == 42, task
        assert "left after saving step 6" in task["reason"]
        assert (task["saved_step"], task["saved_path"]) == (6, f"/ckpt/{task['rank']}")
    names = [e["event"] for e in job.events()]
    for name, times in (("notice", 1), ("agreed", 1), ("saved", 4), ("left", 4), ("all-saved", 1),
                        ("restart", 0), ("no-restart", 0)):
        assert names.count(name) == times, (name, names)


def test_a_word_of_what_goes_on_is_kept_with_the_run(job_of):
    job = job_of(2)
    team = job.team()
    at_steps(team, 1, 1)
    job.preempt(reason="the spot is gone")
    with job.agent() as v:
        text = v.call("Why", job=job.name)["text"]
    assert "notice of preemption from operator: the spot is gone" in text and "0 of 2 saved" in text
    assert "no worker is started again" in text
    for t in team:
        assert t.until_told() == ("save_exit", 2)
        t.save_and_leave()
    verdict = verdict_of(job.ended(), "preempted")
    assert "operator: the spot is gone" in verdict["message"]
    assert "all 2 saved at step 2" in verdict["message"]


def test_a_worker_waits_only_while_the_tasks_agree(job_of):
    """The first who asks is answered although the others have not come, and nobody waits for another."""
    job = job_of(3)
    team = job.team()
    at_steps(team, 1, 1, 1)
    job.preempt()
    assert team[1].until_told() == ("save_exit", 2)
    team[1].save_and_leave()
    assert team[0].until_told() == ("save_exit", 2)
    team[0].save_and_leave()
    assert team[2].until_told() == ("save_exit", 2)
    team[2].save_and_leave()
    verdict_of(job.ended(), "preempted")


def test_a_worker_past_the_agreed_step_saves_at_once(job_of):
    job = job_of(2)
    a, b = job.team()
    a.step(10)
    b.step(10)
    job.preempt()
    assert a.ask(14)["action"] == "save_exit"
    a.n = 14
    a.save_and_leave()
    assert b.step(11) == "save_exit"
    b.save_and_leave()
    ended = job.ended()
    assert [t["saved_step"] for t in ended["workers"]] == [14, 11]


def test_saved_is_refused_where_nobody_was_told_to(job_of):
    job = job_of(1)
    (t,) = job.team()
    at_steps([t], 3)
    assert t.w.refused("Saved", step=3).name == "FailedPrecondition"
    assert t.w.refused("Preemption").name == "NotFound"
    job.preempt()
    assert t.w.refused("Saved", step=3).name == "OutOfRange"
    assert t.until_told() == ("save_exit", 4)
    assert t.w.refused("Saved", step=3).name == "OutOfRange"
    notice = t.w.call("Preemption")
    assert notice["exit_code"] == 42 and notice["notice"]["step"] == 4 and notice["notice"]["final"]
    t.save_and_leave()
    verdict_of(job.ended(), "preempted")


def test_exit_code_0_after_the_last_save_is_as_good(job_of):
    job = job_of(2)
    team = job.team()
    at_steps(team, 1, 1)
    job.preempt()
    for t in team:
        assert t.until_told() == ("save_exit", 2)
        t.leave(0)  # without a word: its end says that it has saved
    ended = job.ended()
    verdict_of(ended, "preempted")
    assert [t["saved_step"] for t in ended["workers"]] == [2, 2]
    assert [t["state"] for t in ended["workers"]] == ["stopped"] * 2


# --- with a grace period ---------------------------------------------------------------------------


def first_round(team):
    """All save, and go on; the step of it."""
    steps = set()
    for t in team:
        action, n = t.until_told()
        assert action == "save"
        steps.add(n)
        t.saved(f"first/{t.rank}")
    assert len(steps) == 1
    return steps.pop()


def last_round(team):
    """Steps until all were told to save for good; the step of it."""
    told = {}
    while len(told) < len(team):
        for t in team:
            if t.rank in told:
                continue
            action = t.step()
            if action == "save_exit":
                told[t.rank] = t.n
                t.saved(f"last/{t.rank}")
            else:
                assert action == "continue", "there is one save before the last"
    assert len(set(told.values())) == 1, told
    for t in team:
        assert t.step() == "exit"
        t.leave()
    return told[team[0].rank]


def test_with_a_grace_period_all_go_on_and_save_again_when_it_is_cut_short(job_of):
    job = job_of(3)
    team = job.team()
    at_steps(team, 2, 3, 2)
    job.preempt(grace_ms=3600 * 1000)
    up = job.status()["preemption"]
    assert not up["final"] and up["state"] == "saving"
    assert up["deadline_us"] > up["time_us"] + 3500 * 1000000
    first = first_round(team)
    assert first == 4
    job.daemon.wait_event(job.name, "countdown")
    assert job.status()["preemption"]["state"] == "countdown"
    for _ in range(50):
        for t in team:
            assert t.step() == "continue"
    assert job.status()["preemption"]["saved"] == 3
    job.preempt(reason="now")
    last = last_round(team)
    assert last > first + 40
    ended = job.ended()
    told = verdict_of(ended, "preempted")["preemption"]
    assert (told["final"], told["step"], told["notices"]) == (True, last, 2)
    assert [t["saved_path"] for t in ended["workers"]] == ["last/0", "last/1", "last/2"]
    assert [e["data"]["step"] for e in job.events("agreed")] == [first, last]


def test_a_short_grace_period_has_one_save(job_of):
    """A save that takes longer than what is left for another one is the last."""
    job = job_of(2)
    team = job.team()
    at_steps(team, 1, 1)
    job.preempt(grace_ms=3600 * 1000)
    assert team[0].until_told() == ("save", 2)
    job.preempt()  # now
    assert team[1].until_told() == ("save_exit", 2), "the step stays what it was"
    team[0].saved()
    assert team[0].step() == "exit"
    team[1].saved()
    for t in team:
        t.leave()
    told = verdict_of(job.ended(), "preempted")["preemption"]
    assert (told["step"], told["saved"], told["final"]) == (2, 2, True)
    assert len(job.events("no-second-save")) == 1


def test_the_specified_grace_period_holds(job_of):
    job = job_of(1, preemption={"grace": 0})
    (t,) = job.team()
    at_steps([t], 1)
    job.preempt(grace_ms=3600 * 1000)
    assert t.until_told() == ("save_exit", 2)
    t.save_and_leave()
    verdict_of(job.ended(), "preempted")


def test_the_grace_period_ends_when_a_platform_says(job_of):
    """The specification's is longer, and the machine is gone all the same."""
    job = job_of(1, preemption={"grace": "10h"})
    (t,) = job.team()
    at_steps([t], 1)
    now = job.status()["started_us"]
    job.preempt(source="aws", deadline_us=now + 3600 * 1000000)
    up = job.status()["preemption"]
    assert up["source"] == "aws" and not up["final"]
    # Of two clocks that are read one after the other.
    assert abs(up["deadline_us"] - now - 3600 * 1000000) < 60 * 1000000
    assert t.until_told() == ("save", 2)
    t.leave(0)
    verdict_of(job.ended(), "succeeded")


# --- several notices, and tasks that are lost ------------------------------------------------------


def test_notices_of_all_at_once_are_one_agreement(job_of):
    job = job_of(4)
    team = job.team()
    at_steps(team, 5, 6, 7, 6)
    for t in team:
        t.w.send("Notify", reason=f"worker {t.rank} says so")
    job.preempt()
    for t in team:
        t.w.reply()
    for t in team:
        assert t.until_told() == ("save_exit", 8)
        t.save_and_leave()
    told = verdict_of(job.ended(), "preempted")["preemption"]
    assert told["notices"] == 5 and told["step"] == 8
    assert len(job.events("agreed")) == 1
    texts = sorted(e["text"] for e in job.events("notice"))
    assert len(texts) == 2, "the others are counted"
    assert "operator" in texts[0] and "says so" in texts[1]


def test_repeated_notices_and_saves_are_recorded_once(job_of):
    job = job_of(2)
    team = job.team()
    at_steps(team, 1, 1)
    watcher = job.connect("worker:1")
    watcher.send("Events", more=True).reply()
    for n in range(300):
        team[0].w.call("Notify", reason=f"number {n}")
    assert job.status()["preemption"]["notices"] == 300
    assert watcher.reply()["event"]["event"] == "notice"
    assert [t.until_told() for t in team] == [("save_exit", 2)] * 2
    for _ in range(300):
        team[0].saved()
    for _ in range(300):
        team[0].saved("/ckpt/0")
    assert team[0].w.refused("Saved", step=1).name == "OutOfRange"
    team[0].leave()
    assert watcher.reply()["event"]["event"] != "notice", "it is told once"
    team[1].save_and_leave("/ckpt/1")
    ended = job.ended()
    assert verdict_of(ended, "preempted")["preemption"]["notices"] == 300
    assert [t["saved_path"] for t in ended["workers"]] == ["/ckpt/0", "/ckpt/1"]
    assert [e["text"] for e in job.events("notice")] == ["notice of preemption from worker: number 0"]
    assert len(job.events("saved")) == 3, "worker:0's path came later"


def test_a_claimer_that_dies_blocks_nobody(job_of):
    job = job_of(3)
    team = job.team()
    at_steps(team, 2, 2, 2)
    team[0].w.call("Notify", reason="my host goes")
    team[0].leave(1)
    for t in team[1:]:
        assert t.until_told() == ("save_exit", 3)
        t.save_and_leave()
    ended = job.ended()
    verdict = verdict_of(ended, "preempted")
    assert verdict["exit_status"] == 42 and verdict["root_cause"]["rank"] == 0
    assert "worker:0 ended before step 3 (its last was 2)" in verdict["message"], verdict
    assert [t["state"] for t in ended["workers"]] == ["failed", "stopped", "stopped"]


def test_a_task_that_ends_while_it_saves_is_named(job_of):
    job = job_of(2, restart={"max": 5})
    team = job.team()
    at_steps(team, 1, 1)
    job.preempt()
    assert team[0].until_told() == ("save_exit", 2)
    team[0].leave(9)
    assert team[1].until_told() == ("save_exit", 2)
    team[1].save_and_leave()
    ended = job.ended()
    verdict = verdict_of(ended, "preempted")
    assert verdict["root_cause"]["exit"]["code"] == 9
    assert "1 of 2 saved at step 2" in verdict["message"]
    assert "worker:0 ended before it reported that it had saved" in verdict["message"]
    assert job.events("restart", "worker-restart") == [] and ended["restarts"] == 0


def test_a_silent_task_is_stopped_at_the_limit_and_named(job_of):
    job = job_of(4)
    team = job.team()
    at_steps(team, 5, 5, 5, 2)
    job.preempt()
    for t in team[:3]:
        assert t.until_told() == ("save_exit", 6)
        t.save_and_leave()
    job.daemon.wait_event(job.name, "left", count=3)
    job.preempt(grace_ms=200)  # what has to happen has happened
    ended = job.ended()
    verdict = verdict_of(ended, "preempted")
    assert "worker:3 did not reach step 6 (its last was 2)" in verdict["message"], verdict
    assert "the time is over" in verdict["message"] and "3 of 4 saved" in verdict["message"]
    assert "root_cause" not in verdict
    assert ended["workers"][3]["exit"]["signal"] == 15


def test_a_slow_task_has_its_time(job_of):
    job = job_of(2)
    team = job.team()
    at_steps(team, 40, 3)
    job.preempt()
    assert team[0].until_told() == ("save_exit", 41)
    team[0].save_and_leave()
    job.daemon.wait_event(job.name, "left")
    assert team[1].until_told() == ("save_exit", 41)
    team[1].save_and_leave()
    verdict_of(job.ended(), "preempted")


def test_training_that_was_over_before_the_agreed_step_has_succeeded(job_of):
    job = job_of(2)
    team = job.team()
    at_steps(team, 9, 9)
    job.preempt()
    for t in team:
        t.leave(0)
    ended = job.ended()
    verdict_of(ended, "succeeded")
    assert [t["state"] for t in ended["workers"]] == ["succeeded"] * 2


def test_some_that_were_done_and_some_that_were_not_are_preempted(job_of):
    job = job_of(2)
    team = job.team()
    at_steps(team, 3, 3)
    job.preempt()
    team[0].leave(0)
    assert team[1].until_told() == ("save_exit", 4)
    team[1].save_and_leave()
    ended = job.ended()
    verdict_of(ended, "preempted")
    assert [t["state"] for t in ended["workers"]] == ["succeeded", "stopped"]


def test_an_error_of_one_is_told_to_all_and_saves_wait_for_no_one(job_of):
    job = job_of(2)
    team = job.team()
    at_steps(team, 1, 1)
    job.preempt()
    team[0].w.call("ReportError", code="Internal", message="nan in the loss")
    for t in team:
        e = t.w.refused("Step", step=2)
        assert e.name == "GroupFailed" and e.parameters["error"]["message"] == "nan in the loss"
        t.leave(1)
    verdict = verdict_of(job.ended(), "preempted")
    assert "nan in the loss" in verdict["root_cause"]["message"]


def test_the_first_step_of_all_is_the_one_agreed_on(job_of):
    """Nobody has told a step before: the first one that is begun decides."""
    job = job_of(2, preemption={"how": "agree"})
    team = job.team()
    job.preempt()
    team[0].tell(100)
    team[0].w.send("Step", step=100)
    assert team[0].w.reply()["action"] == "continue"
    assert team[0].step(101) == "save_exit"
    # Before the first one has left: who never began a step is stopped then.
    assert team[1].until_told() == ("save_exit", 101)
    for t in team:
        t.save_and_leave()
    verdict_of(job.ended(), "preempted")


# --- the board -------------------------------------------------------------------------------------


def test_a_board_that_is_cut_while_a_notice_is_up_has_the_notice_again(job_of):
    job = job_of(2)
    a, b = job.trainee("worker:0"), job.trainee("worker:1", OutsideTrainee)
    at_steps([a, b], 3, 5)
    job.preempt()
    assert job.status()["preemption"]["step"] == 6, "what is said in the file counts"
    os.truncate(b.path, 0)
    job.daemon.status(job.name, live=True)  # the agent looks at it
    assert b.notice() and b.word(SAVE_AT_AT, "q") == 6
    for t in (b, a):
        assert t.until_told() == ("save_exit", 6)
        t.save_and_leave()
    told = verdict_of(job.ended(), "preempted")["preemption"]
    assert (told["participants"], told["saved"]) == (2, 2)
    assert len(job.events("board-damaged")) == 1


@pytest.mark.root
def test_a_notice_is_heard_where_a_board_that_was_cut_has_no_room(box, small_disk, job_of):
    daemon = box.new_daemon()
    daemon.runtime = small_disk / "run"
    daemon.start()
    job = job_of(1, daemon)
    (t,) = job.team()
    at_steps([t], 3)
    os.truncate(t.env["ELASTICD_BOARD"] + ".file", 0)
    fill(small_disk / "ballast")
    job.preempt()
    assert t.notice()
    assert t.until_told() == ("save_exit", 4)
    t.save_and_leave()
    (small_disk / "ballast").unlink()
    verdict_of(job.ended(), "preempted")


# --- what is refused -------------------------------------------------------------------------------


def test_preempt_wants_a_job_and_a_source_that_it_knows(job_of):
    job = job_of(1)
    with job.agent() as v:
        for parameters, field in (({}, "job"), ({"job": job.name, "source": "moon"}, "source"),
                                  ({"job": job.name, "grace_ms": -1}, "grace_ms")):
            with pytest.raises(VarlinkError) as e:
                v.call("Preempt", **parameters)
            assert e.value.parameters["parameter"] == field
        with pytest.raises(VarlinkError) as e:
            v.call("Preempt", job="another")
        assert e.value.name == "NotFound"
    assert "preemption" not in job.status()
