# SPDX-License-Identifier: Apache-2.0
"""Sixty-four tasks at random speeds, with notices and deaths as a seed says. What each task did is read
from its own log, what was agreed from events.jsonl, what became of it from verdict.json.

ELASTIC_STRESS_SEEDS names other seeds than those of every day, as 7 or 100-200. Four in a row have all
kinds of notices."""

import contextlib
import json
import os
import random
import threading

import pytest

from harness import ALL, BUILD, PATIENCE, SANITIZED, Unmet, VarlinkError, wait_file, wait_for
from trainees import preempt

RACER = BUILD / "tests/tools/racer"
TASKS, EXIT_CODE, HOUR = 64, 42, 3600 * 1000
CONTINUE, SAVE, SAVE_AND_EXIT, EXIT = range(4)
LONG = 4 * PATIENCE  # sixty-four trainings on two processors
MORTAL = ("die", "notify-die", "die-saving", "die-saved", "fail")


def seeds():
    of_every_day = "1-4" if SANITIZED and not ALL else "1-8"
    first, _, last = os.environ.get("ELASTIC_STRESS_SEEDS", of_every_day).partition("-")
    return range(int(first), int(last or first) + 1)


class Plan:
    """What a seed has the tasks and the host do. `now`: how the last notice comes."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.notices = ("one", "many", "countdown", "workers")[seed % 4]
        self.how = ["live"] * TASKS
        special = rng.sample(range(TASKS), TASKS)
        for how in rng.choices(("hang", *(m for m in MORTAL if m != "notify-die")), k=rng.randrange(12)):
            self.how[special.pop()] = how
        if self.notices == "workers":
            for _ in range(rng.randint(1, 4)):
                self.how[special.pop()] = rng.choice(("notify", "notify-die"))
        self.last = {special.pop(): rng.randrange(10, 300) for _ in range(rng.randrange(4))}
        self.late = {special.pop() for _ in range(rng.randrange(4))}
        self.pause = [rng.choice((1000, 4000, 16000)) for _ in range(TASKS)]
        # About as many steps a second for all, or those with long ones would be waited for.
        self.stride = [pause // 1000 * rng.choice((1, 1, 2)) for pause in self.pause]

    def lines(self):
        for rank in range(TASKS):
            yield (f"{self.rng.randrange(1 << 30)} {self.pause[rank]} {self.stride[rank]} "
                   f"{self.last.get(rank, -1)} {int(rank in self.late)} {self.how[rank]}\n")


class Race:
    def __init__(self, box, daemon, seed):
        self.daemon, self.plan, self.dir = daemon, Plan(seed), box.path("race")
        self.dir.mkdir()
        (self.dir / "plan").write_text("".join(self.plan.lines()))
        self.name, self.run = daemon.submit({
            "name": "race", "preemption": {"timeout": "1h"},
            "roles": [{"replicas": TASKS, "command": [str(RACER), str(self.dir)]}]})
        daemon.wait(self.run, until="running")

    def log(self, rank):
        return self.dir / f"log.{rank}"

    def notice(self, grace_ms=0):
        """One, where the job has not ended yet."""
        with contextlib.suppress(VarlinkError, OSError):
            preempt(self.daemon, self.name, grace_ms=grace_ms, reason="a seed")

    def notices(self, *graces):
        """At once."""
        threads = [threading.Thread(target=self.notice, args=(g,)) for g in graces]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def until(self, rank, lines=1 << 60):
        """A task has written so many lines, or nothing comes any more."""
        wait_file(self.log(rank), LONG)

        def there():
            text = self.log(rank).read_text()
            return text.count("\n") >= lines or text.endswith("die\n") or "\nend " in text

        wait_for(there, self.log(rank), timeout=LONG, what=f"rank {rank} to get on")

    def go(self):
        plan, rng = self.plan, self.plan.rng
        # Whose log is there is known to use the library: a notice signals who is not.
        for rank in range(TASKS):
            wait_file(self.log(rank), LONG)
        (self.dir / "go").touch()
        runners = [r for r in range(TASKS) if r not in plan.late]
        for rank in runners:  # all take part
            self.until(rank, 1)
        endless = [r for r in runners if r not in plan.last]
        self.until(rng.choice(endless), rng.randrange(1, 200))
        if plan.notices == "one":
            self.notice()
        elif plan.notices == "many":
            self.notices(*rng.choices((0, HOUR), k=8))
            self.notice()
        elif plan.notices == "countdown":
            self.notices(*[HOUR + rng.randrange(1000) for _ in range(3)])
            (self.dir / "wake").touch()
            with contextlib.suppress(Unmet):  # a death takes the second save away
                self.daemon.wait_event(self.run, "countdown", LONG)
                self.until(rng.choice(endless), 300)
            self.notices(2 * HOUR, 0, HOUR, 0)

    def finish(self):
        """Those that hang keep nobody, and are waited for."""
        hanging = [r for r in range(TASKS) if self.plan.how[r] == "hang"]
        for rank in set(range(TASKS)) - set(hanging):
            self.until(rank)
        if hanging and self.plan.notices != "countdown":
            assert self.daemon.status(self.run)["state"] == "running"
        (self.dir / "wake").touch()
        return self.daemon.wait(self.run, timeout=LONG)


class Told:
    """What a task wrote."""

    def __init__(self, path):
        self.begun, self.saved, self.died, self.code = [], [], False, None
        for line in path.read_text().splitlines() if path.exists() else []:
            word, *numbers = line.split()
            numbers = [int(n) for n in numbers]
            if word == "begin":
                self.begun.append(tuple(numbers))
            elif word == "saved":
                self.saved += numbers
            elif word == "die":
                self.died = True
            else:
                self.code = numbers[0]
        self.told = [n for n, action in self.begun if action in (SAVE, SAVE_AND_EXIT)]

    def first(self, step):
        return next((n for n, _ in self.begun if n >= step), None)


def check_task(rank, told, rounds, plan, task):
    """One task's story against what was agreed."""
    last_action = told.begun[-1][1] if told.begun else None
    # Each order is the first step at or behind the one agreed, and there is one for each round.
    places = [told.first(step) for step in rounds]
    assert set(told.told) <= set(places) and len(set(told.told)) == len(told.told), (told.told, places)
    unsaved = told.died and plan.how[rank] == "die-saving"
    assert told.saved == (told.told[:-1] if unsaved else told.told)
    # Nobody goes on there without having saved.
    for n, action in told.begun:
        if action == CONTINUE:
            assert len(rounds) < 2 or n < rounds[1], (n, rounds)
            late = len(rounds) == 2 and rank in plan.late  # came when all others had saved already
            assert n < rounds[0] or late or any(n > at for at in told.told), (n, rounds)
    if plan.how[rank] in MORTAL and (told.died or told.code == 3):
        assert task["state"] == "failed", task
        return
    if rank in plan.last and told.code == 0:
        assert task["state"] == "succeeded", task
        return
    # It lives until the end.
    assert not told.died and told.code == EXIT_CODE and last_action in (SAVE_AND_EXIT, EXIT)
    if rank not in plan.late:
        assert len(told.saved) == len(rounds), (told.saved, rounds)
    assert told.saved and task["state"] == "stopped"
    assert (task["saved_step"], task["saved_path"]) == (told.saved[-1], f"{rank}/{told.saved[-1]}")


def check(race, job):
    plan = race.plan
    record = race.daemon.record(race.run)
    verdict = json.loads((record / "verdict.json").read_text())
    events = [json.loads(line) for line in (record / "events.jsonl").read_text().splitlines()]
    rounds = [e["data"]["step"] for e in events if e["event"] == "agreed"]
    assert 1 <= len(rounds) <= 2 and rounds == sorted(set(rounds))
    if plan.notices in ("one", "workers"):
        assert len(rounds) == 1
    assert (verdict["result"], verdict["exit_status"]) == ("preempted", EXIT_CODE)
    about = verdict["preemption"]
    assert (about["state"], about["step"], about["final"]) == ("over", rounds[-1], True)
    stories = [Told(race.log(rank)) for rank in range(TASKS)]
    for rank, (told, task) in enumerate(zip(stories, job["workers"])):
        try:
            check_task(rank, told, rounds, plan, task)
        except AssertionError as e:
            raise AssertionError(f"rank {rank} ({plan.how[rank]}): {e}; agreed {rounds}; "
                                 f"{told.begun[-5:]} {told.saved} {task}") from e
    dead = [r for r in range(TASKS) if stories[r].died or stories[r].code == 3]
    assert set(dead) == {e["rank"] for e in events if e["event"] == "worker-failed"}
    if dead:
        assert verdict["root_cause"]["rank"] in dead, verdict
    else:
        assert "root_cause" not in verdict
    assert not [e for e in events if e["event"] in ("restart", "killed", "leftovers", "worker-restart")]
    assert not [e for e in events if e["event"] == "started" and e["attempt"] != 0]


@pytest.mark.slow
@pytest.mark.seconds(1200)
@pytest.mark.parametrize("seed", seeds())
def test_all_living_tasks_save_once_at_the_step_agreed(box, daemon, seed):
    race = Race(box, daemon, seed)
    race.go()
    job = race.finish()
    check(race, job)
