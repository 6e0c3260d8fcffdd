# SPDX-License-Identifier: Apache-2.0
"""What the verbs of a Manager do, without input and output: generators that yield steps and get their
results. manager.py and aio.py carry the steps out, each in its way, so that no verb is written twice.

A verb's plan returns the verb's result. A stream's plan yields Items as they come, and returns at its end.
"""

from __future__ import annotations

import collections
import datetime
import itertools
import json
import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Generator, Iterable, Mapping, Optional, Sequence, TypeVar, Union

from ._core import Deadline, seconds_argument
from ._endpoint import Disconnected, Endpoint
from ._errors import DataLoss, DeadlineExceeded, InvalidArgument
from ._library import SONAME, number_argument, places, text_argument
from ._manager_types import Event, Failure, Job, Line, WhyAnswer, WorkerResult
from ._records import Record

_T = TypeVar("_T")
_R = TypeVar("_R", bound=Record)

Path = Union[str, "os.PathLike[str]"]
Spec = Union[Mapping[str, Any], Path]
Ranks = Union[str, int, Iterable[int], None]
When = Union[datetime.datetime, datetime.timedelta, float, None]

INTERFACE = "io.elasticd.Manager."
RECONNECT = 30.0
ANSWER_TIMEOUT = 60.0
PATIENCE = 10.0  # beyond the time limit that elasticd itself keeps
PAUSES = (0.1, 0.2, 0.4, 0.8)
USUAL_VARIABLES = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "PYTHONPATH")
LONGEST_MS = 2**53  # of a time limit in the interface


@dataclass(frozen=True)
class Call:
    """One call on a connection of the pool; its result is the answer's parameters. timeout: in seconds, None
    for no limit."""

    method: str
    parameters: dict[str, Any]
    timeout: Optional[float]


@dataclass(frozen=True)
class Open:
    """Opens the stream's connection, in place of the one before, and sends a "more" call."""

    method: str
    parameters: dict[str, Any]


class Next:
    """Waits for the stream's next answer; its result is (parameters, whether others follow)."""


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Program:
    """Runs a program; its result is (exit status, standard output, standard error)."""

    argv: list[str]


@dataclass(frozen=True)
class Items:
    """What a stream hands out."""

    items: Sequence[Any]


Step = Union[Call, Open, Next, Sleep, Program, Items]
Plan = Generator[Step, Any, _T]


class Flow:
    """A plan that is being carried out: its present step waits for done() or failed(). Where neither is
    called, because a signal or a cancelled task interrupted the step, the step can be begun again."""

    def __init__(self, plan: Plan[Any]) -> None:
        self._plan = plan
        self.items: collections.deque[Any] = collections.deque()
        self.over = False
        self.value: Any = None
        self.step: Optional[Step] = None
        self._go_on(lambda: next(plan))

    def done(self, result: Any) -> None:
        self._go_on(lambda: self._plan.send(result))

    def failed(self, error: Exception) -> None:
        """Raises it, where the plan does not go on without that step."""
        self._go_on(lambda: self._plan.throw(error))

    def _go_on(self, resume: Callable[[], Step]) -> None:
        try:
            step = resume()
            while isinstance(step, Items):
                self.items.extend(step.items)
                step = next(self._plan)
            self.step = step
        except StopIteration as end:
            self.over, self.value, self.step = True, end.value, None
        except BaseException:
            self.over, self.step = True, None
            raise


class Gaps:
    """What a stream of lines could not hand out. missed: how many lines were left out because they came
    faster than they were read; notes: what elasticd says of lines that are missing."""

    def __init__(self) -> None:
        self.missed = 0
        self.notes: list[str] = []

    def add(self, missed: int, note: Optional[str]) -> None:
        self.missed += missed
        if note:
            self.notes.append(note)


def sooner(seconds: Optional[float], deadline: Optional[Deadline]) -> Optional[float]:
    """That many seconds (None: no limit), or what is left of the deadline."""
    left = -1 if deadline is None else deadline.left_ms()
    if left < 0:
        return seconds
    return left / 1000 if seconds is None else min(seconds, left / 1000)


def given(**parameters: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {k: v for k, v in parameters.items() if v is not None}


class Plans:
    """The verbs, for one elasticd. timeout: how long it may take to answer what waits for nothing; reconnect:
    how long wait() and following events() look for it after their connection broke."""

    def __init__(self, endpoint: Endpoint, timeout: Optional[float], reconnect: float) -> None:
        self.endpoint = endpoint
        self.timeout = (None if timeout is None
                        else seconds_argument(timeout, "timeout", "seconds >= 0 or None"))
        self.reconnect = seconds_argument(reconnect, "reconnect", "seconds >= 0")
        self.seen = False  # whether it was ever there

    def call(self, method: str, parameters: dict[str, Any]) -> Plan[dict[str, Any]]:
        full = method if "." in method else INTERFACE + method
        answer: dict[str, Any] = yield Call(full, parameters, self.timeout)
        self.seen = True
        return answer

    def await_elasticd(self, broke: Disconnected, deadline: Optional[Deadline] = None) -> Plan[None]:
        """Looks for an elasticd that was there, until it answers; raises broke if it does not come back."""
        end = time.monotonic() + self.reconnect
        for pause in itertools.chain(PAUSES, itertools.repeat(PAUSES[-1])):
            if not self.seen or time.monotonic() >= end:
                raise broke
            if deadline is not None and deadline.is_over():
                raise DeadlineExceeded(f"{broke}; the time is over") from broke
            yield Sleep(pause)
            try:
                yield Call(INTERFACE + "Ping", {}, sooner(self.timeout, deadline))
            except (Disconnected, DeadlineExceeded):  # it may be there, and not answer yet
                continue
            return

    def void(self, method: str, **parameters: Any) -> Plan[None]:
        yield from self.call(method, given(**parameters))

    def records(self, method: str, member: str, kind: type[_R], **parameters: Any) -> Plan[list[_R]]:
        answer = yield from self.call(method, given(**parameters))
        return [kind.of(o) for o in member_of(answer, member, list)]

    def number(self, method: str, member: str, **parameters: Any) -> Plan[int]:
        answer = yield from self.call(method, given(**parameters))
        return int(member_of(answer, member, int))

    # Specifications

    def spec(self, spec: Spec) -> Plan[dict[str, Any]]:
        """A specification as it is, or of a job file, which elasticctl reads and checks."""
        if isinstance(spec, Mapping):
            return dict(spec)
        path = text_argument(os.fspath(spec), "spec").decode()
        if path.startswith("-"):
            path = os.path.join(".", path)
        argv = [elasticctl(), "validate", "--json", path]
        status, out, err = yield Program(argv)
        if status != 0:
            said = err.decode(errors="replace").rstrip().replace("elasticctl: ", "")
            raise InvalidArgument(said or f"{argv[0]} has ended with {status}")
        read: dict[str, Any] = json.loads(out)
        return read

    def start(self, spec: Spec, name: Optional[str], cwd: Optional[Path],
              env: Optional[Mapping[str, str]]) -> Plan[tuple[str, str]]:
        document = yield from self.spec(spec)
        if cwd is not None or "cwd" not in document:
            document["cwd"] = os.path.abspath(cwd or "")
        if name is not None:
            document["name"] = name
        variables = {n: os.environ[n] for n in USUAL_VARIABLES if n in os.environ}
        variables.update(env or {})
        if isinstance(document.get("roles"), list):
            document["roles"] = [{**r, "env": {**variables, **(r.get("env") or {})}}
                                 if isinstance(r, dict) else r for r in document["roles"]]
        answer = yield from self.call("Start", {"spec": document})
        return member_of(answer, "job", str), member_of(answer, "run", str)

    def validate(self, spec: Spec) -> Plan[dict[str, Any]]:
        document = yield from self.spec(spec)
        answer = yield from self.call("Validate", {"spec": document})
        checked: dict[str, Any] = member_of(answer, "spec", dict)
        return checked

    # One job

    def status(self, job: str, live: bool) -> Plan[Job]:
        answer = yield from self.call("Status", given(job=job, live=live or None))
        return Job.of(member_of(answer, "job", dict))

    def spec_of(self, job: str) -> Plan[dict[str, Any]]:
        answer = yield from self.call("Spec", {"job": job})
        spec: dict[str, Any] = member_of(answer, "spec", dict)
        return spec

    def why(self, job: str) -> Plan[WhyAnswer]:
        return WhyAnswer.of((yield from self.call("Why", {"job": job})))

    def errors(self, job: str, attempt: Optional[int]) -> Plan[list[Failure]]:
        return (yield from self.records("Errors", "failures", Failure, job=job, attempt=attempt))

    def results(self, job: str) -> Plan[list[WorkerResult]]:
        return (yield from self.records("Results", "results", WorkerResult, job=job))

    def stop(self, job: str, grace: Optional[float]) -> Plan[None]:
        yield from self.void("Stop", job=job, timeout_ms=milliseconds(grace, "grace"))

    def restart(self, job: str) -> Plan[str]:
        answer = yield from self.call("Restart", {"job": job})
        return str(member_of(answer, "run", str))

    def kill(self, job: str, signal: Union[str, int], ranks: Ranks, whom: Optional[str]) -> Plan[int]:
        return (yield from self.number("Kill", "signalled", job=job, signal=signal_text(signal),
                                       ranks=ranks_text(ranks), whom=whom))

    def scale(self, job: str, replicas: int, role: Optional[str]) -> Plan[None]:
        yield from self.void("Scale", job=job, replicas=number_argument(replicas, "replicas"), role=role)

    def preempt(self, job: str, grace: Optional[float], reason: Optional[str]) -> Plan[None]:
        yield from self.void("Preempt", job=job, grace_ms=milliseconds(grace, "grace"), reason=reason)

    def remove(self, job: str, logs: bool) -> Plan[int]:
        return (yield from self.number("Remove", "removed", job=job, logs=logs or None))

    def wait(self, job: str, timeout: Optional[float], until: str) -> Plan[Job]:
        """Goes on after its connection broke: a job outlives elasticd."""
        deadline = Deadline(timeout)
        if not self.seen:
            yield from self.call("Ping", {})
        while True:
            left = None if deadline.left_ms() < 0 else deadline.left_ms()
            call = Call(INTERFACE + "Wait", given(job=job, until=until, timeout_ms=left),
                        None if left is None else left / 1000 + PATIENCE)
            try:
                answer = yield call
            except Disconnected as e:
                yield from self.await_elasticd(e, deadline)
            else:
                return Job.of(member_of(answer, "job", dict))

    # Streams

    def logs(self, parameters: dict[str, Any], gaps: Gaps) -> Plan[None]:
        yield Open(INTERFACE + "Logs", parameters)
        more = True
        while more:
            answer, more = yield Next()
            gaps.add(answer.get("missed") or 0, answer.get("note"))
            yield Items([Line.of(line) for line in member_of(answer, "lines", list)])

    def events(self, job: Optional[str], since: Optional[int], follow: bool) -> Plan[None]:
        """Those of one job have numbers, by which a new connection goes on where the last one broke."""
        more = True
        while more:
            try:
                yield Open(INTERFACE + "Events", given(job=job, since=since, follow=follow or None))
                while more:
                    answer, more = yield Next()
                    events = [Event.of(event) for event in member_of(answer, "events", list)]
                    if events:
                        since = events[-1].seq
                    self.seen = True
                    yield Items(events)
            except Disconnected as e:
                if job is None or not follow:
                    raise
                yield from self.await_elasticd(e)


def logs_parameters(job: str, follow: bool, ranks: Ranks, stream: Optional[str],
                    attempt: Optional[int], lines: Optional[int], since: When, until: When,
                    contains: Optional[str]) -> dict[str, Any]:
    return given(job=job, follow=follow or None, ranks=ranks_text(ranks), stream=stream, attempt=attempt,
                 lines=lines, since_us=microseconds(since, "since"), until_us=microseconds(until, "until"),
                 contains=contains)


# --- values ------------------------------------------------------------------------------------------------


def member_of(answer: dict[str, Any], name: str, kind: type) -> Any:
    value = answer.get(name)
    if not isinstance(value, kind):
        raise DataLoss(f"elasticd gave an answer that cannot be used: it lacks {name}")
    return value


def milliseconds(seconds: Optional[float], what: str) -> Optional[int]:
    if seconds is None:
        return None
    return int(min(seconds_argument(seconds, what, "seconds >= 0") * 1000, LONGEST_MS))


def microseconds(when: When, what: str) -> Optional[int]:
    """A moment, so long ago, or seconds since the epoch."""
    if when is None:
        return None
    if isinstance(when, datetime.timedelta):
        when = time.time() - when.total_seconds()
    elif isinstance(when, datetime.datetime):
        when = when.timestamp()
    return int(min(seconds_argument(when, what, "a datetime, a timedelta or seconds since the epoch"), 2**40)
               * 1_000_000)


def ranks_text(ranks: Ranks) -> Optional[str]:
    if ranks is None or isinstance(ranks, str):
        return ranks
    if isinstance(ranks, int):
        return str(ranks)
    return ",".join(str(number_argument(r, "ranks", 0)) for r in ranks)


def signal_text(signal: Union[str, int]) -> str:
    """"TERM", signal.SIGTERM or 15."""
    return signal if isinstance(signal, str) else str(number_argument(signal, "signal", 1))


def elasticctl() -> str:
    """The program that reads job files: in a tree that is not installed, the one that was built there."""
    named = os.environ.get("ELASTICCTL")
    built = [p[:-len(SONAME)] + "elasticctl" for p in places() if p.endswith("/" + SONAME)]
    return named or next((p for p in built if os.access(p, os.X_OK)), "elasticctl")
