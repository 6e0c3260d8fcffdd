# SPDX-License-Identifier: Apache-2.0
"""libelasticd's promise when a machine is taken away: all tasks of a group save at the same step, once,
and leave with the code that was agreed; and an error of one task is every task's error."""

import json
import re

import pytest
from harness import BUILD
from workers import Group

LIBWORKER = str(BUILD / "tests/tools/libworker")
FOR_EVER = 1_000_000_000


def job(*steps, replicas=3, **top):
    role = {"replicas": replicas, "command": [LIBWORKER, *steps]}
    role.update(top.pop("role", {}))
    return {"roles": [role], **top}


def train(first, last=FOR_EVER, *more):
    return ":".join(str(x) for x in ("train", first, last, *more))


def output(daemon, job, rank=0, attempt=0):
    return daemon.log(job, attempt, rank).read_text().splitlines()


def heard_by(n):
    """The last steps of a worker: it waits until all are there, since the first to fail stops the others."""
    return ["put:heard/%r=1", *[f"get:heard/{rank}" for rank in range(n)], "exit:1"]


def saves(daemon, done, replicas=3):
    """The steps at which the workers saved: the same for all, each once."""
    every = []
    for rank in range(replicas):
        out = output(daemon, done, rank)
        steps = [int(line.split()[1]) for line in out if line.startswith("save ")]
        assert [line for line in out if line.startswith("saved ")] == [f"saved {n}" for n in steps], out
        every.append(steps)
    assert all(steps == every[0] for steps in every), every
    return every[0]


def test_all_save_once_at_the_same_step_and_leave(daemon):
    done = daemon.run(job(train(0, 10), "barrier:ready", "if-rank:1:notify:-1:tired", train(10)))
    assert (done["state"], done["verdict"]["exit_status"]) == ("preempted", 42)
    assert len(saves(daemon, done)) == 1
    for rank in range(3):
        assert output(daemon, done, rank)[-1] == "left saved 42"


def test_a_group_whose_steps_depend_on_each_other_agrees_too(daemon):
    together = [s for n in range(200) for s in (f"train:{n}:{n + 1}", f"barrier:{n}")]
    done = daemon.run(job(*together[:20], "if-rank:2:notify:-1:tired", *together[20:]))
    assert done["state"] == "preempted"
    assert len(saves(daemon, done)) == 1


def test_notices_of_all_at_once_are_one(daemon):
    done = daemon.run(job(train(0, 10), "barrier:now", "notify:-1:tired", train(10), replicas=4))
    assert done["state"] == "preempted"
    assert len(saves(daemon, done, 4)) == 1


def test_with_a_grace_period_training_goes_on_between_two_saves(daemon):
    # A day, which another notice cuts short once all have saved: how fast they are does not matter.
    _, run = daemon.submit(job(train(0, 3), "barrier:ready", "if-rank:0:notify:86400000:maintenance",
                               train(3)))
    daemon.wait_event(run, "countdown")
    daemon.call("Preempt", job=run, reason="now")
    done = daemon.wait(run)
    assert done["state"] == "preempted", done
    first, second = saves(daemon, done)
    assert second > first
    for rank in range(3):
        assert output(daemon, done, rank)[-1] == "left saved 42"


def test_a_worker_half_as_fast_as_the_others_saves_twice_too(daemon):
    # Rank 0 makes a step in 50 ms, rank 1 in 100 ms, and neither waits for the other. The notice leaves six
    # seconds. The steps are long because a process wakes late where many others run: a step that took a
    # fourth longer than those before it would be too slow.
    done = daemon.run(job(
        "barrier:ready", f"if-rank:1:{train(0, FOR_EVER, 100)}", f"if-rank:0:{train(0, 10, 50)}",
        "if-rank:0:notify:6000:maintenance", f"if-rank:0:{train(10, FOR_EVER, 50)}", replicas=2))
    assert done["state"] == "preempted", done
    verdict = done["verdict"]
    if "no second save: " in verdict["message"]:
        pytest.skip("this machine is so slow that there was no time: " + verdict["message"])
    first, second = saves(daemon, done, 2)
    assert second > first + 20, "the time was used"
    assert f"all 2 saved at step {second}" in verdict["message"], verdict
    assert verdict["preemption"]["saved"] == 2


def test_the_verdict_says_when_a_slow_worker_has_no_time_for_a_second_save(daemon):
    # Rank 1 is five times as slow as rank 0. When rank 1 has come to the step of the first save, the time
    # that is left is too short for it to reach the step at which rank 0 is by then. Rank 0 asks the agent at
    # each step meanwhile, which may take as long as three of its steps.
    done = daemon.run(job(
        "barrier:ready", f"if-rank:1:{train(0, FOR_EVER, 100)}", f"if-rank:0:{train(0, 30, 20)}",
        "if-rank:0:notify:6000:maintenance", f"if-rank:0:{train(30, FOR_EVER, 20)}", replicas=2))
    assert done["state"] == "preempted", done
    message = done["verdict"]["message"]
    assert re.search(r"no second save: worker:1 is \d+ steps behind, which takes it .*, and .* are left",
                     message), message
    assert len(saves(daemon, done, 2)) == 1


def test_workers_agree_on_steps_that_skip_numbers(daemon):
    # No worker waits for the one that is far ahead: the others train until they are there.
    at = [5, 300, 2]
    before = [f"if-rank:{rank}:{train(0, n)}" for rank, n in enumerate(at)]
    after = [f"if-rank:{rank}:{train(n)}" for rank, n in enumerate(at)]
    done = daemon.run(job(*before, "barrier:ready", "if-rank:0:notify:-1:tired", *after))
    assert done["state"] == "preempted"
    assert saves(daemon, done)[0] >= 300


def test_a_worker_that_dies_before_the_agreed_step_does_not_keep_the_others(daemon):
    done = daemon.run(job(train(0, 10), "barrier:ready", "if-rank:0:notify:-1:tired", "await-notice",
                          "if-rank:2:kill", "await-end:worker:2", train(10)))
    assert done["state"] == "preempted"
    assert len(saves(daemon, done, 2)) == 1
    assert done["verdict"]["root_cause"]["rank"] == 2


def test_children_of_fork_and_programs_they_run_are_the_same_worker(daemon):
    done = daemon.run(job("in-child:" + train(0, 10), replicas=1))
    assert done["state"] == "succeeded"
    done = daemon.run({"roles": [
        {"name": "fork", "command": [LIBWORKER, "step:0", "barrier:ready", "in-child:" + train(1)]},
        {"name": "exec", "command": ["sh", "-c", '"$0" "$@"; exit $?', LIBWORKER, "step:0", "barrier:ready",
                                     train(1)]},
        {"name": "first", "command": [LIBWORKER, train(0, 50), "barrier:ready", "notify:-1:tired",
                                      train(50)]}]})
    assert done["state"] == "preempted"
    assert len(saves(daemon, done)) == 1


def test_hooks_save_and_leave(daemon):
    done = daemon.run(job("hooks:0:10", "barrier:ready", "if-rank:1:notify:-1:tired", f"hooks:10:{FOR_EVER}",
                          preemption={"exit_code": 99}))
    assert (done["state"], done["verdict"]["exit_status"]) == ("preempted", 99)
    steps = {tuple(s for s in output(daemon, done, rank) if s.startswith("save ")) for rank in range(3)}
    assert len(steps) == 1 and len(steps.pop()) == 1


def test_the_exit_code_is_the_jobs(daemon):
    done = daemon.run(job("exit-code", "step:0", "notify:-1:tired", train(1), replicas=1,
                          preemption={"exit_code": 99}))
    assert output(daemon, done)[0] == "exit-code 99"
    assert output(daemon, done)[-1] == "left saved 99"
    assert (done["state"], done["verdict"]["exit_status"]) == ("preempted", 99)


def test_between_steps_a_worker_asks_for_the_notice(daemon):
    done = daemon.run(job("preempted", "step:0", "barrier:asked", "if-rank:1:notify:600000:it reboots",
                          "await-notice", "preempted", *heard_by(2),
                          replicas=2, preemption={"timeout": "60s"}))
    for rank in (0, 1):
        said = [line for line in output(daemon, done, rank) if line.startswith("preempted")]
        assert said == ["preempted 0 :  final 0", "preempted 1 worker: it reboots final 0 with a deadline"]


def test_an_unrequested_save_is_refused(daemon):
    done = daemon.run(job("saved:1:x", "step:0", "notify:-1:tired", "saved:90:x", train(1), replicas=1))
    assert done["state"] == "preempted"
    out = output(daemon, done)
    assert out[0].startswith("saved FailedPrecondition: ")
    assert out[2].startswith("saved OutOfRange: ")


def test_an_application_error_of_one_worker_is_every_workers_error(daemon):
    done = daemon.run(job(train(0, 10), "if-rank:1:error:8:Running out of resources", train(10),
                          *heard_by(3)))
    assert done["state"] == "failed"
    for rank in range(3):
        assert "train ResourceExhausted: Running out of resources|worker:1" in output(daemon, done, rank)
    doc = json.loads((daemon.log(done, 0, 1).parent / "error.json").read_text())
    assert doc["message"]["message"] == "Running out of resources"


def test_an_error_reaches_all_while_a_notice_is_up(daemon):
    done = daemon.run(job(train(0, 10), "barrier:ready", "if-rank:0:notify:-1:tired", "await-notice",
                          "if-rank:1:error:13:it broke", "if-rank:1:put:broken=1", "get:broken", "step:10",
                          *heard_by(3)))
    assert done["state"] in ("failed", "preempted")
    for rank in range(3):
        assert "step Internal: it broke|worker:1" in output(daemon, done, rank)


def test_a_long_error_is_whole_everywhere(daemon):
    text = "x" * 8000
    done = daemon.run(job(train(0, 2), f"if-rank:1:error:13:{text}", train(2), *heard_by(3)))
    for rank in range(3):
        assert f"train Internal: {text}|worker:1" in output(daemon, done, rank)


def test_the_end_of_a_worker_that_is_started_again_fails_no_step(daemon):
    done = daemon.run({"restart": {"scope": "worker", "max": 1, "backoff": "1s"}, "roles": [
        {"name": "steady", "command": [LIBWORKER, "step:0", "put:up=1", "await-end:shaky:0", train(1, 50),
                                       "get:back", "step:50"]},
        {"name": "shaky", "command": [
            "sh", "-c", 'test "$ELASTICD_START" = 0 || exec "$0" put:back=1; "$0" get:up; exit 3',
            LIBWORKER]}]})
    assert done["state"] == "succeeded", done["verdict"]
    assert output(daemon, done, 0) == ["put up", "get 1"]


# --- the same by the protocol


@pytest.fixture
def group(daemon):
    groups = []

    def make(**top):
        g = Group(daemon, job("step:0", "put:stepped/%r=1", "hang", **top))
        groups.append(g)
        for rank in range(top["replicas"]):
            g.connect("worker:0").get(f"stepped/{rank}", wait=True)
        return g

    yield make
    for g in groups:
        g.close()


def test_a_notice_is_an_event(group):
    g = group(replicas=2)
    a, b = g.all("worker:0", "worker:1")
    a.send("Events", more=True).reply()
    b.call("Notify", reason="the cloud says so", grace_ms=600000)
    event = a.reply()["event"]
    assert event["event"] == "notice"
    assert "the cloud says so" in event["text"]


def test_a_notice_is_described(group):
    g = group(replicas=1)
    w = g.connect("worker:0")
    assert w.refused("Preemption").name == "NotFound"
    assert w.refused("Saved", step=1).name == "FailedPrecondition"
    assert w.call("Step", step=1)["action"] == "continue"
    w.call("Notify", reason="why", grace_ms=600000)
    said = w.call("Preemption")
    assert said["exit_code"] == 42
    assert (said["notice"]["source"], said["notice"]["reason"]) == ("worker", "why")
    assert said["notice"]["deadline_us"] - said["notice"]["time_us"] >= 540_000_000
    assert w.refused("Notify", reason="x" * 5000).message == "reason: expected at most 4096 bytes, got 5000"
    assert "grace_ms" in json.dumps(w.refused("Notify", reason="x", grace_ms=-1).parameters)
    assert re.match("path: expected at most 4096 bytes", w.refused("Saved", step=1, path="x" * 5000).message)


def test_a_group_that_is_stopped_has_no_next_step(group, daemon):
    g = group(replicas=1, stop={"signal": "CONT", "timeout": "600s"})
    w = g.connect("worker:0")
    daemon.call("Stop", job=g.name)
    daemon.watch(g.name, lambda job, _: job["state"] == "stopping")
    assert w.refused("Step", step=1).name == "Cancelled"
    assert w.refused("Notify", reason="late").name == "FailedPrecondition"


def test_waits_for_a_worker_that_died_under_a_notice_end_and_name_it(daemon):
    # Two wait for a key of the third one, and once more in a barrier; then they go on and save.
    done = daemon.run(job(
        train(0, 10), "barrier:ready", "if-rank:0:notify:-1:tired", "await-notice", "if-rank:2:kill",
        "get:from/2", "barrier:all", train(10)))
    assert done["state"] == "preempted", done
    assert len(saves(daemon, done, 2)) == 1
    for rank in range(2):
        out = output(daemon, done, rank)
        get = next(line for line in out if line.startswith("get"))
        assert "Unavailable: worker:2 is lost (signal 9" in get and get.endswith("|worker:2"), get
        barrier = next(line for line in out if line.startswith("barrier Internal"))
        assert "worker:2 (signal 9" in barrier and barrier.endswith("|worker:2"), barrier
    assert done["verdict"]["root_cause"]["rank"] == 2


def test_leaving_does_not_wait_for_a_recoverable_worker_that_stays_dead(daemon):
    done = daemon.run(job(
        train(0, 3), "barrier:ready", "if-rank:0:notify:-1:tired", "await-notice", "if-rank:1:kill",
        "barrier:all", train(3), replicas=2, role={"recoverable": True},
        restart={"scope": "worker", "max": 5}))
    assert done["state"] == "preempted", done
    assert "barrier Internal" in "\n".join(output(daemon, done, 0))


def test_a_worker_that_has_not_saved_when_another_died_is_stopped_after_stop_timeout(daemon):
    done = daemon.run(job(
        train(0, 10), "barrier:ready", "if-rank:0:notify:-1:tired", "await-notice", "if-rank:1:kill",
        "hang", replicas=2, stop={"timeout": "1s"}))
    assert done["state"] == "preempted", done
    message = done["verdict"]["message"]
    assert "the time is over" in message and "worker:0 did not reach step" in message, message
    assert (done["ended_us"] - done["started_us"]) / 1e6 < 120, "the limit of a notice is ten minutes"
