# SPDX-License-Identifier: Apache-2.0
"""Up to 64 workers, and coordinators within the job and without, while workers, the agent and elasticd are
killed as a seed says. What workers did is read from ledgers of their own, and each task that was accepted,
each resource that one needs and each call is accounted for.

ELASTIC_STRESS_SEEDS names other seeds than those of every day, as 7 or 100-200. Those that are even have a
durable queue, and there agents are killed, too."""

import contextlib
import os
import pathlib
import random
import signal
import threading
import time
from collections import defaultdict
from typing import NamedTuple

import pytest

from harness import BUILD, PATIENCE, SLOWER, VarlinkError
from queue_workers import Coordinator, Hand, Hands, QueueError

DRUDGE = BUILD / "tests/tools/drudge"
OVER = ("succeeded", "failed", "cancelled")
# What a task comes to that nobody has cancelled.
ENDS = {"fail": "failed", "hang": "failed", "deaf": "failed"}
ALONE = ("fail", "hang", "deaf")
# The ranks that cannot build it are divided by that.
RESOURCES = {"good": 0, "third": 3, "never": 1}
CHIEFS = 2
# There is no agent, or none any more; the process that one was taken for has ended.
AWAY = ("Unavailable", "Cancelled")
ENDED = "this is an earlier process of chief:"


def seeds():
    first, _, last = os.environ.get("ELASTIC_STRESS_SEEDS", "1-6").partition("-")
    return range(int(first), int(last or first) + 1)


class Plan:
    def __init__(self, seed):
        rng = random.Random(seed)
        self.seed, self.durable = seed, seed % 2 == 0
        self.workers = 16 if SLOWER > 1 else rng.choice((16, 32, 64))
        self.slots = rng.choice((1, 1, 3))
        self.steps = 8 if SLOWER > 1 else 20
        self.queue = {"max": rng.choice((20, 200, 0)), "slots": self.slots, "cancel_grace": "100ms",
                      "blame_limit": 10, "durable": self.durable}
        # Who is killed when so many tasks were accepted. An agent that is lost a third time is given up.
        who = ["worker"] * rng.randrange(5, 20) + ["chief"] * rng.randrange(3)
        who += ["elasticd"] * rng.randrange(4)
        who += ["agent"] * (rng.randrange(1, 3) if self.durable else 0)
        end = 5 * self.steps * 8
        self.deaths = sorted((rng.randrange(10, end), victim) for victim in who)

    def spec(self, directory):
        def command(slots):
            return [str(DRUDGE), str(directory), str(slots)]

        roles = [{"name": "chief", "replicas": CHIEFS, "command": command(0)},
                 {"name": "worker", "replicas": self.workers, "command": command(self.slots)}]
        return {"name": "stress", "roles": roles, "queue": self.queue,
                "restart": {"scope": "worker", "max": 10000, "backoff": "0s"}}


class Task(NamedTuple):
    """One that was accepted. at: by then."""

    number: int
    queue: str
    word: str
    name: str
    at: int
    needs: tuple = ()


class Said(NamedTuple):
    """An answer that says something of all tasks that were accepted before the question: they are over."""

    asked: int
    answered: int
    queue: str
    tasks: frozenset  # of these only, or empty: of all


class Call(NamedTuple):
    """One that was answered. workers: of these only, or empty: of all."""

    name: str
    answered: int
    workers: tuple
    answers: tuple


class Book:
    """What coordinators were promised, all of them together."""

    def __init__(self):
        self.lock = threading.Condition()
        self.tasks, self.unsure = {}, set()
        self.cancels, self.ends = [], []
        self.wanted = set()  # tasks that somebody wanted to cancel, and queues
        self.released, self.maybe_released = set(), set()
        self.needs = {}  # of tasks that have some, by their names, accepted or not
        self.calls, self.lost_calls = [], set()
        self.over = False

    def accept(self, tasks):
        with self.lock:
            for t in tasks:
                assert t.number not in self.tasks, f"a number was given twice: {t}"
                self.tasks[t.number] = t
            self.lock.notify_all()

    def until(self, count):
        """So many were accepted, or no more will be."""
        with self.lock:
            self.lock.wait_for(lambda: self.over or len(self.tasks) >= count)
            return not self.over

    def finish(self):
        with self.lock:
            self.over = True
            self.lock.notify_all()


class Lost(Exception):
    """The connection is gone, and with it the answer."""


class Boss(threading.Thread):
    """A coordinator. calm: each failure is its task's own, and no more is cancelled than what it names."""

    def __init__(self, race, number, queue, calm=True, chief=None, private=False):
        super().__init__(name=f"{queue}.{number}", daemon=True)
        self.race, self.book, self.queue = race, race.book, queue
        self.calm, self.chief, self.private = calm, chief, private
        self.rng = random.Random(f"{race.plan.seed}.{number}")
        self.connection, self.keeping, self.mine = None, None, []
        self.count, self.problem = 0, None

    # Its connection.

    def open(self):
        if self.chief is None:
            return Coordinator(self.race.daemon.socket, "stress")
        socket, token = (self.race.dir / f"chief.{self.chief}").read_text().split()
        return Hand(socket, token)

    def connect(self):
        """Goes on until somebody answers there."""
        deadline = time.monotonic() + 2 * PATIENCE
        while True:
            try:
                connection = self.open()
                connection.sock.settimeout(2 * PATIENCE)
                self.keep()
                return connection
            except (OSError, QueueError):
                assert time.monotonic() < deadline, f"{self.name} finds nobody"
                time.sleep(0.02)

    def keep(self):
        if self.private:
            self.drop_keeping()
            self.keeping = self.open()
            next(self.keeping.stream("Keep", queue=self.queue))

    def drop_keeping(self):
        if self.keeping:
            self.keeping.close()
            self.keeping = None

    def drop(self):
        if self.connection:
            self.connection.close()
            self.connection = None
        self.drop_keeping()

    def ask(self, method, **parameters):
        try:
            self.connection = self.connection or self.connect()
            return self.connection.call(method, **parameters)
        except (OSError, QueueError) as e:
            if isinstance(e, TimeoutError):
                raise
            if isinstance(e, QueueError) and e.name not in AWAY and ENDED not in e.message:
                raise
            self.drop()
            raise Lost(str(e)) from e

    # What it does.

    def run(self):
        try:
            for _ in range(self.race.plan.steps):
                with contextlib.suppress(Lost):
                    self.step()
            self.settle()
        except BaseException as e:  # told by the test
            self.problem = e
        finally:
            self.drop()

    def step(self):
        todo = self.rng.choices((self.submit, self.fetch, self.cancel, self.end, self.die), (8, 4, 2, 1, 1))
        try:
            todo[0]()
        except QueueError as e:
            if self.calm or e.name != "QueueFailed":
                raise

    def new(self):
        """(word, name, parameters) of a task."""
        self.count += 1
        name = f"{self.name}.{self.count}"
        word = self.rng.choices(("do", "slow", "fail", "retry", "back", "die", "hang", "deaf", "spawn"),
                                (20, 5, 2 if self.calm else 1, 2, 2, 2, 1, 1, 2))[0]
        number = self.rng.randrange(30) if word == "slow" else self.rng.randrange(1, 4)
        parameters = {"payload": f"{word} {name} {number} {self.queue}"}
        if word in ALONE and (self.calm or word != "fail"):
            parameters["alone"] = True
        if word in ("hang", "deaf"):
            parameters["limit_ms"] = self.rng.randrange(1, 300)
        needs = self.rng.choices(((), ("good",), ("third",), ("good", "third"), ("never", "good")),
                                 (60, 15, 10, 10, 5))[0]
        if needs:
            self.book.needs[name] = needs
            parameters["resources"] = list(needs)
        if "never" in needs or "third" in needs:  # all who are there may be of those who cannot build it
            parameters["alone"] = True
        return word, name, parameters

    def submit(self):
        some = [self.new() for _ in range(self.rng.choice((1, 1, 5, 20)))]
        if len(some) == 1:
            self.submit_some(some, "Submit", **some[0][2])
        while len(some) > 1:
            some = self.submit_some(some, "SubmitMany", tasks=[t[2] for t in some])

    def submit_some(self, some, method, **parameters):
        """Returns those that were not taken."""
        try:
            answer = self.ask(method, queue=self.queue, **parameters)
        except (Lost, QueueError):  # where a queue has failed, some had been in before it did
            with self.book.lock:
                self.book.unsure.update(name for _, name, _ in some)
            raise
        at, first = time.monotonic_ns(), answer.get("first", answer.get("task"))
        taken = some[:answer.get("accepted", 1)]
        tasks = [Task(first + i, self.queue, t[0], t[1], at, tuple(t[2].get("resources", ())))
                 for i, t in enumerate(taken)]
        self.book.accept(tasks)
        self.mine += tasks
        return some[len(taken):]

    def pick(self, most):
        left = [t.number for t in self.mine if t.number not in self.book.maybe_released]
        return self.rng.sample(left, min(len(left), self.rng.randrange(1, most)))

    def fetch(self):
        tasks = self.pick(10)
        if not tasks:
            return
        release, some = self.rng.random() < 0.3, self.rng.random() < 0.5
        if release:
            self.book.maybe_released.update(tasks)
        try:
            found = self.ask("FetchMany", tasks=tasks, any=some, release=release)["outcomes"]
        except QueueError as e:
            assert self.private and e.name == "NotFound", e
            return
        assert {o["task"] for o in found} <= set(tasks) and found
        for o in found:
            self.look(o)
            if release:
                self.book.released.add(o["task"])

    def look(self, outcome):
        assert outcome["state"] in OVER, outcome
        self.race.look(self.book.tasks[outcome["task"]], outcome)

    def cancel(self):
        tasks = self.pick(20)
        all_of_it = not self.calm and self.rng.random() < 0.5
        if not tasks and not all_of_it:
            return
        self.book.wanted.update([self.queue] if all_of_it else tasks)
        asked = time.monotonic_ns()
        self.ask("Cancel", queue=self.queue, **({} if all_of_it else {"tasks": tasks}))
        said = Said(asked, time.monotonic_ns(), self.queue, frozenset([] if all_of_it else tasks))
        self.book.cancels.append(said)

    def end(self):
        """Joins, or asks whether there would be nothing to wait for."""
        asked, method = time.monotonic_ns(), self.rng.choice(("Join", "Join", "Done"))
        if self.ask(method, queue=self.queue).get("done", True):
            self.book.ends.append(Said(asked, time.monotonic_ns(), self.queue, frozenset()))

    def die(self):
        """Goes away, or in the middle of a submission, and comes back."""
        if self.rng.random() < 0.5:
            some = [self.new() for _ in range(self.rng.randrange(1, 10))]
            with self.book.lock:
                self.book.unsure.update(name for _, name, _ in some)
            with contextlib.suppress(OSError):
                self.connection = self.connection or self.connect()
                self.connection.send("SubmitMany", queue=self.queue, tasks=[t[2] for t in some])
        self.drop()

    def settle(self):
        """Waits until nothing of it is left, and fetches all that came of it."""
        while True:
            try:
                self.end_for_good()
                return
            except Lost:
                pass
            except QueueError as e:
                if self.calm or e.name != "QueueFailed":
                    raise

    def end_for_good(self):
        asked = time.monotonic_ns()
        self.ask("Join", queue=self.queue)
        self.book.ends.append(Said(asked, time.monotonic_ns(), self.queue, frozenset()))
        for t in self.mine:
            try:
                self.look(self.ask("Fetch", task=t.number, timeout_ms=0)["outcome"])
                assert t.number not in self.book.released, f"{t} is there again"
            except QueueError as e:
                assert e.name == "NotFound" and (self.private or t.number in self.book.maybe_released), (t, e)


class Caller(Boss):
    """Calls all workers, or some."""

    def step(self):
        self.count += 1
        name, names = f"{self.name}.{self.count}", [f"worker:{i}" for i in range(self.race.plan.workers)]
        some = self.rng.sample(names, self.rng.randrange(1, 5)) if self.rng.random() < 0.5 else []
        try:
            answers = self.ask("Call", payload=name, **({"workers": some} if some else {}))["answers"]
        except Lost:
            self.book.lost_calls.add(name)
            raise
        self.book.calls.append(Call(name, time.monotonic_ns(), tuple(some), tuple(answers)))

    def settle(self):
        pass


class Race:
    def __init__(self, box, daemon, seed):
        self.daemon, self.plan, self.dir, self.book = daemon, Plan(seed), box.path("stress"), Book()
        self.dir.mkdir()
        self.outcomes = {}
        self.group = Hands(daemon, self.plan.spec(self.dir))
        self.rng, self.problem = random.Random(f"{seed}.killer"), None
        self.lost = None  # the last agent that was killed

    def look(self, task, outcome):
        """What became of a task stays what became of it."""
        what = (outcome["state"], outcome.get("value"), (outcome.get("error") or {}).get("message"))
        assert self.outcomes.setdefault(task.number, what) == what, (task, what)

    # The killer.

    def kill(self, victim):
        if victim == "elasticd":
            self.daemon.restart()
            return
        job = self.daemon.status("stress")
        if victim == "agent":
            pid, name = job.get("agent_pid"), b"elastic-agent"
        else:
            pids = [t["pid"] for t in job["workers"] if t["role"] == victim and t.get("pid")]
            pid, name = self.rng.choice(pids or [None]), os.fsencode(self.dir)
        # What has ended meanwhile is nobody else by now.
        with contextlib.suppress(OSError):
            if pid and name in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                self.lost = pid if victim == "agent" else self.lost

    def go(self):
        bosses = [Boss(self, 0, "a"), Boss(self, 1, "a", chief=0), Boss(self, 2, "b", chief=1),
                  Boss(self, 3, "storm", calm=False), Boss(self, 4, "storm", calm=False, chief=0),
                  Boss(self, 5, "mine", private=True), Caller(self, 6, "call"),
                  Caller(self, 7, "call", chief=1)]
        self.create()
        for boss in bosses:
            boss.start()
        killer = threading.Thread(target=self.kill_all, daemon=True)
        killer.start()
        for boss in bosses:
            boss.join()
        self.book.finish()
        killer.join()
        for who in (*bosses, self):
            if who.problem:
                raise AssertionError(f"{getattr(who, 'name', 'killer')}: {who.problem!r}") from who.problem

    def create(self):
        with Coordinator(self.daemon.socket, "stress") as c:
            for name, divisor in RESOURCES.items():
                c.call("CreateResource", name=name, payload=str(divisor))

    def kill_all(self):
        try:
            for count, victim in self.plan.deaths:
                if not self.book.until(count):
                    return
                with contextlib.suppress(VarlinkError):
                    self.kill(victim)
        except Exception as e:
            self.problem = e

    def join_all(self, c):
        """Returns what is queued, runs and waits after that."""
        for queue in ("a", "b", "storm", "mine"):
            try:
                c.call("Join", queue=queue)
            except QueueError as e:
                assert e.name == "QueueFailed" and queue == "storm", e
        stats = c.stats()
        return stats["queued"], stats["running"], stats["waiting"]

    def finish(self):
        """What unsure submissions left, and what workers spawned, is done too; then all leave."""
        self.daemon.watch("stress", lambda j, _: j["state"] == "running" and j["agent_pid"] != self.lost)
        c = Coordinator(self.daemon.socket, "stress")
        # What a coordinator that went away had sent may come behind what it sent later.
        while any(self.join_all(c)):
            pass
        listed, more = {}, True
        while more:
            answer = c.call("List", after=max(listed, default=0), limit=1000)
            more = answer["more"]
            for t in answer["tasks"]:
                assert t["state"] in OVER, t
                listed[t["task"]] = c.fetch(t["task"])
        for r in c.call("Resources")["resources"]:
            divisor = RESOURCES[r["name"]]
            assert (r["ready"] > 0, r["failed"] > 0) == (divisor != 1, divisor != 0), r
        c.call("Close")
        c.close()
        (self.dir / "over").touch()
        job = self.daemon.wait("stress")
        assert job["verdict"]["result"] == "succeeded", job["verdict"]
        return listed


class Try:
    """A worker's, of a task. end: None where it was killed in it, as far as the ledger knows."""

    def __init__(self, pid, begin, task, lease, attempt, name):
        self.pid, self.begin, self.task, self.lease = pid, int(begin), int(task), int(lease)
        self.attempt, self.name = int(attempt), name
        self.end = self.how = self.value = None
        self.built = frozenset()

    def __repr__(self):
        return str(vars(self))


class Chores:
    """Of one process: what it builds, and what it answers. It has nothing else meanwhile."""

    def __init__(self, calls, rank, pid):
        self.calls, self.rank, self.pid = calls, rank, pid
        self.now, self.tried, self.built = None, set(), frozenset()

    def read(self, word, at, lease, name, how=None):
        if word in ("build", "call"):
            assert self.now is None
            self.now = (lease, name)
            if word == "build":
                assert name not in self.tried, "it is built twice"
                self.tried.add(name)
            else:
                assert self.rank not in self.calls[name], "it is asked twice"
                self.calls[name][self.rank] = (self.pid, int(at))
            return
        assert self.now == (lease, name)
        self.now = None
        if word == "built":
            divisor = RESOURCES[name]
            assert how == ("failed" if divisor and self.rank % divisor == 0 else "ok")
            self.built |= {name} if how == "ok" else set()


def read_ledgers(directory, slots):
    """Tries by task, the tasks that were spawned, and for each call (pid, time) by rank."""
    tries, spawned, calls = defaultdict(list), {}, defaultdict(dict)
    for path in directory.glob("ledger.*"):
        _, rank, pid = path.name.split(".")
        held, chores, text = {}, Chores(calls, int(rank), pid), path.read_text()
        for line in text.splitlines():
            word, at, *rest = line.split()
            if word in ("build", "built", "call", "called"):
                try:
                    assert not held
                    chores.read(word, at, *rest)
                except AssertionError as e:
                    raise AssertionError(f"{path}: {line!r}: {e}, of:\n{text}") from e
            elif word == "begin":
                assert chores.now is None, f"{path}: {line!r} during {chores.now}, of:\n{text}"
                t = held[rest[1]] = Try(pid, at, *rest)
                t.built = chores.built
                tries[t.task].append(t)
            elif word == "end":
                assert rest[1] in held, f"{path}: {line!r} ends what it has not, of:\n{text}"
                t = held.pop(rest[1])
                t.end, t.how, t.value = int(at), rest[2], rest[3]
            else:
                spawned[int(rest[0])] = rest[1]
        assert len(held) <= slots, f"{path} goes on without having ended {held}"
    for of_task in tries.values():
        of_task.sort(key=lambda t: t.begin)
    return tries, spawned, calls


def check_task(race, task, tries, outcome):
    """Its outcome against what workers wrote."""
    state, value, message = outcome
    if "never" in task.needs:
        assert not tries and state in ("failed", "cancelled")
        assert state == "cancelled" or "could not build: there is none" in message
        return
    if "third" in task.needs and state == "failed" and "could not build: there is none" in message:
        return
    free = task.queue in race.book.wanted or task.number in race.book.wanted or task.queue == "storm"
    if state == "succeeded":
        assert value in [t.value for t in tries], "nobody has written its value"
    if state == "failed" and task.word == "fail":
        assert message == task.name and "fail" in [t.how for t in tries]
    if state != "cancelled" or not (free or task.queue == "mine"):
        assert state == ENDS.get(task.word, "succeeded")


def check_call(call, asked):
    """Its answers against what workers wrote, by rank."""
    ranks = []
    for a in call.answers:
        rank = int(a["worker"].removeprefix("worker:")) + CHIEFS
        ranks.append(rank)
        if a.get("error"):
            assert a["error"]["code"] == "Unavailable", a
        else:
            assert a["value"] == f"{call.name}/{rank}/{asked[rank][0]}", a
    assert ranks and ranks == sorted(set(ranks)), "they are not in order"
    if call.workers:
        assert len(ranks) == len(call.workers) and {a["worker"] for a in call.answers} == set(call.workers)
    assert set(asked) <= set(ranks), "somebody else was asked"
    assert all(at < call.answered for _, at in asked.values()), "somebody was asked later"


def check_calls(book, calls):
    names = {c.name for c in book.calls}
    assert set(calls) <= names | book.lost_calls
    for call in book.calls:
        try:
            check_call(call, calls[call.name])
        except (AssertionError, KeyError) as e:
            raise AssertionError(f"{call}: {e!r}; {calls[call.name]}") from e


def check(race, listed):
    book = race.book
    tries, spawned, calls = read_ledgers(race.dir, race.plan.slots)
    check_calls(book, calls)
    names = {t.name for t in book.tasks.values()} | set(spawned.values())
    for number, of_task in tries.items():
        # No two at a time, unless the first one was killed.
        for first, second in zip(of_task, of_task[1:]):
            assert first.end is None or first.end <= second.begin, (first, second)
        # Nobody has done what nobody wanted.
        name = of_task[0].name
        for t in of_task:
            assert t.built >= set(book.needs.get(name, ())), f"{t} has not built what it needs"
        assert {t.name for t in of_task} == {name}
        assert number not in book.tasks or book.tasks[number].name == name, (book.tasks[number], name)
        assert spawned.get(number, name) == name, (spawned[number], name)
        parent = name.removesuffix(".child")
        assert name in names or parent in book.unsure or parent != name and parent in names, name
    for number, outcome in listed.items():
        assert number not in book.released, outcome
        assert race.plan.durable or outcome["tries"] >= len(tries[number]), (outcome, tries[number])
        race.look(book.tasks.get(number) or Task(number, "", "", "", 0), outcome)
    kept = set(listed) | book.maybe_released
    for number, task in book.tasks.items():
        assert number in kept or task.queue == "mine", f"{task} is gone"
        if number in race.outcomes:
            try:
                check_task(race, task, tries[number], race.outcomes[number])
            except AssertionError as e:
                raise AssertionError(f"{task} {race.outcomes[number]}: {e}; {tries[number]}") from e
    for number, name in spawned.items():
        assert number not in book.tasks, f"{name} and {book.tasks[number]} have the same number"
        parent = name.removesuffix(".child")
        queue = parent.rpartition(".")[0].rpartition(".")[0]
        assert number in listed or queue in ("mine", ""), f"{name} is gone"
    for said, word in [(c, "cancelled") for c in book.cancels] + [(e, "over") for e in book.ends]:
        for task in book.tasks.values():
            if task.queue != said.queue or task.at > said.asked:
                continue
            if said.tasks and task.number not in said.tasks:
                continue
            late = [t for t in tries[task.number] if max(t.begin, t.end or 0) > said.answered]
            assert not late, f"{task} was {word}: {said.asked} to {said.answered}, but {late}"


@pytest.mark.slow
@pytest.mark.seconds(300)
@pytest.mark.parametrize("seed", seeds())
def test_each_task_is_accounted_for_whoever_is_killed(box, daemon, seed):
    race = Race(box, daemon, seed)
    race.go()
    check(race, race.finish())
