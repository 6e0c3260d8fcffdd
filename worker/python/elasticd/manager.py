# SPDX-License-Identifier: Apache-2.0
"""Starts jobs under elasticd, watches them, and ends them: what elasticctl does, for programs.

    with elasticd.Manager() as m:
        job = m.start({"name": "train", "roles": [{"replicas": 8, "command": ["python3", "train.py"]}]})
        for line in job.logs(follow=True):
            print(line.rank, line.text)
        if job.wait().verdict.exit_status != 0:
            print(job.errors()[0].text)

It speaks io.elasticd.Manager (elasticd-protocol(7)) and needs neither libelasticd nor elasticctl, except
that elasticctl reads the job files that start() is given. Records (Job, Worker, Failure, Event, Line, ...)
have the members of the interface; those that elasticd left out are None. Errors are the exceptions of the
package, by their status codes: NotFound, InvalidArgument, DeadlineExceeded, and so on; error.about has what
elasticd says besides. Disconnected, which is an Unavailable, means that elasticd could not be reached.

Any thread may use a Manager and its jobs: each call has a connection to itself, which later calls use again.
A stream of lines or events has a connection of its own, until it is closed or over; one thread reads it, any
thread may close it. In a child of fork() a Manager makes new connections.

A connection that breaks fails the call that was under way with Disconnected, and the next call makes a new
one: no call is repeated that could have an effect twice. wait() and following events() of a job have none,
and so go on where they were, if elasticd comes back within reconnect seconds: it may be upgraded meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import subprocess
import threading
import time
from typing import Any, Generic, Iterator, Mapping, Optional, TypeVar, Union

from ._core import DEFAULT_TIMEOUT, Deadline
from ._endpoint import Disconnected, Endpoint, Frames, Link, decode, encode
from ._errors import Cancelled, DeadlineExceeded, FailedPrecondition
from ._manager_types import (
    AttachOrder,
    Budget,
    Event,
    Exit,
    Failure,
    Host,
    HostRole,
    Job,
    Line,
    PlatformWatch,
    Preemption,
    Verdict,
    WhyAnswer,
    Worker,
    WorkerResult,
    WorkQueue,
)
from ._plans import (
    ANSWER_TIMEOUT,
    RECONNECT,
    Call,
    Flow,
    Gaps,
    Next,
    Open,
    Path,
    Plan,
    Plans,
    Program,
    Ranks,
    Sleep,
    Spec,
    Step,
    When,
    logs_parameters,
    sooner,
)
from ._pool import Pool

__all__ = [
    "AttachOrder",
    "Budget",
    "Disconnected",
    "Event",
    "Exit",
    "Failure",
    "Host",
    "HostRole",
    "Job",
    "Line",
    "Lines",
    "ManagedJob",
    "Manager",
    "PlatformWatch",
    "Preemption",
    "Stream",
    "Verdict",
    "WhyAnswer",
    "WorkQueue",
    "Worker",
    "WorkerResult",
]

_T = TypeVar("_T")
_S = TypeVar("_S", bound="Stream[Any]")


class _Wire:
    """A connection that one thread uses."""

    def __init__(self, link: Link) -> None:
        self._link, self._frames = link, Frames()

    def send(self, method: str, parameters: dict[str, Any], more: bool = False) -> None:
        message = encode(method, parameters, more)
        self._link.sock.settimeout(None)
        # elasticd may have said why before it closed: then receive() returns it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._link.sock.sendall(message)

    def receive(self, timeout: Optional[float]) -> bytes:
        """The next message."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            message = self._frames.next()
            if message is not None:
                return message
            self._link.sock.settimeout(None if end is None else max(end - time.monotonic(), 0.001))
            try:
                data = self._link.sock.recv(1 << 18)
            except socket.timeout:
                raise DeadlineExceeded(f"{self._link.place}: no answer in {timeout:g} s") from None
            except OSError as e:
                raise self._link.lost(e.strerror or str(e)) from None
            if not data:
                raise self._link.lost()
            self._frames.feed(data)

    def fresh(self) -> bool:
        return self._link.quiet()

    def interrupt(self) -> None:
        self._link.shutdown()

    def close(self) -> None:
        self._link.close()


class Manager:
    """elasticd, the system's or the user's own.

    socket: its control socket; without one, as for elasticctl: ELASTICD_SOCKET, else that of the user's own
    daemon, else the system's. host: one on another host, as HOST or USER@HOST, through ssh (ELASTICD_SSH
    names another program); socket is then one of that host. Without host and socket, ELASTICD_HOST names the
    host. Only root and the own user may run elasticd, besides trust_uid, which sees everything that is sent
    to the socket that is named.

    timeout: the seconds that elasticd may take to answer calls that wait for nothing (None: no limit).
    reconnect: for how many seconds wait() and following events() of a job look for an elasticd that has gone.
    """

    def __init__(self, socket: Optional[Path] = None, *, host: Optional[str] = None,
                 trust_uid: Optional[int] = None, timeout: Optional[float] = ANSWER_TIMEOUT,
                 reconnect: float = RECONNECT) -> None:
        self._plans = Plans(Endpoint(socket, host, trust_uid), timeout, reconnect)
        self._pool: Pool[_Wire] = Pool()

    def start(self, spec: Spec, *, name: Optional[str] = None, cwd: Optional[Path] = None,
              env: Optional[Mapping[str, str]] = None) -> ManagedJob:
        """Starts a job: of a specification (elasticd-job(5)), or of a job file, which elasticctl reads.
        Returns when the job is on disk, before it runs. name and cwd replace those of the specification;
        where neither names a directory it is the current one. As with elasticctl, workers get PATH,
        VIRTUAL_ENV, CONDA_PREFIX, LD_LIBRARY_PATH and PYTHONPATH of this process; env changes these and adds
        others, and the specification's own come last. AlreadyExists: a job of that name is active."""
        job, run = self._run(self._plans.start(spec, name, cwd, env))
        return ManagedJob(self, job, run)

    def validate(self, spec: Spec) -> dict[str, Any]:
        """Checks a specification or a job file, and returns it with all defaults filled in."""
        return self._run(self._plans.validate(spec))

    def job(self, name: str) -> ManagedJob:
        """A job by its name, which means its newest run, or by a run's identifier. Makes no call."""
        return ManagedJob(self, name)

    def jobs(self, *, ended: bool = False) -> list[Job]:
        """All jobs that this user may see, without their workers. ended: also jobs that have ended."""
        return self._run(self._plans.records("List", "jobs", Job, ended=ended or None))

    def events(self) -> Stream[Event]:
        """What happens from now on to all jobs that this user may see."""
        return Stream(self, self._plans.events(None, None, True))

    def ping(self) -> None:
        """Returns when elasticd has answered."""
        self._run(self._plans.void("Ping"))

    def version(self) -> str:
        """elasticd's."""
        return str(self.call("Version").get("version"))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Any method of io.elasticd.Manager, or of another interface by its whole name, as it is."""
        return self._run(self._plans.call(method, parameters))

    @property
    def closed(self) -> bool:
        return self._pool.closed

    def close(self) -> None:
        """Ends calls and streams of other threads: calls raise Cancelled. Jobs go on."""
        self._pool.close()
        for stream in list(self._pool.streams):
            stream.close()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<elasticd.Manager at {self._plans.endpoint}>"

    # How plans are carried out

    def _run(self, plan: Plan[_T]) -> _T:
        flow = Flow(plan)
        while not flow.over:
            try:
                result = self._do(flow.step)
            except Exception as e:
                flow.failed(e)
            else:
                flow.done(result)
        value: _T = flow.value
        return value

    def _do(self, step: Optional[Step]) -> Any:
        if isinstance(step, Call):
            return self._call(step)
        if isinstance(step, Sleep):
            time.sleep(step.seconds)
            return self._pool.check()
        assert isinstance(step, Program), step
        try:
            ended = subprocess.run(step.argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except OSError as e:
            raise no_program(step, e) from None
        return ended.returncode, ended.stdout, ended.stderr

    def _connect(self) -> _Wire:
        return _Wire(self._plans.endpoint.connect())

    def _call(self, call: Call) -> dict[str, Any]:
        wire = self._pool.take()
        if wire is None:
            wire = self._connect()
            self._pool.add(wire)
        good = False
        try:
            wire.send(call.method, call.parameters)
            message = wire.receive(call.timeout)
            good = True
        except Disconnected:
            self._pool.check()
            raise
        finally:
            self._pool.give_back(wire, good)
        return decode(message)[0]


def no_program(step: Program, error: OSError) -> FailedPrecondition:
    return FailedPrecondition(f"job files are read by elasticctl, and {step.argv[0]} cannot be executed: "
                              f"{error.strerror}; name it with ELASTICCTL, or hand over a dict")


class ManagedJob:
    """A job under elasticd: its newest run, or, from Manager.start() and restart() on, that run. name is as
    it was given; run is None where only a name is known."""

    def __init__(self, manager: Manager, name: str, run: Optional[str] = None) -> None:
        self.name, self.run = name, run
        self._manager, self._plans = manager, manager._plans

    @property
    def _job(self) -> str:
        return self.run or self.name

    def status(self, *, live: bool = False) -> Job:
        """The job as it is now. live: with memory, processor time and the last line of each worker."""
        return self._manager._run(self._plans.status(self._job, live))

    def wait(self, timeout: Optional[float] = DEFAULT_TIMEOUT, *, until: str = "ended") -> Job:
        """Waits until the run has ended, or, with until="running" or "ready", is in that state or has ended.
        DeadlineExceeded after timeout seconds; None: no limit. It goes on where elasticd is started again
        meanwhile."""
        return self._manager._run(self._plans.wait(self._job, timeout, until))

    def stop(self, grace: Optional[float] = None) -> None:
        """Begins an orderly stop; wait() waits for its end. grace: after so many seconds the workers are
        killed, in place of the specification's stop.timeout."""
        self._manager._run(self._plans.stop(self._job, grace))

    def restart(self) -> None:
        """Stops the group and starts its next attempt, uncounted. A run that has ended is started again as a
        new run, which this object then means."""
        self.run = self._manager._run(self._plans.restart(self._job))

    def kill(self, signal: Union[str, int] = "TERM", *, ranks: Ranks = None,
             whom: Optional[str] = None) -> int:
        """Sends a signal to workers: all, or ranks (3, [0, 3], "0,3-7"). whom: "group" (the default), "main"
        or "all" of their processes. Returns how many got it."""
        return self._manager._run(self._plans.kill(self._job, signal, ranks, whom))

    def scale(self, replicas: int, *, role: Optional[str] = None) -> None:
        """Changes the number of workers of a role, which may be left out where there is one. The group starts
        again with the new world size."""
        self._manager._run(self._plans.scale(self._job, replicas, role))

    def preempt(self, grace: Optional[float] = None, *, reason: Optional[str] = None) -> None:
        """Gives notice of preemption: the workers agree on a step, save there, and leave. grace: for how many
        seconds the machine will still be there."""
        self._manager._run(self._plans.preempt(self._job, grace, reason))

    def remove(self, *, logs: bool = False) -> int:
        """Forgets runs that have ended; logs: removes their log directories too. Returns how many."""
        return self._manager._run(self._plans.remove(self._job, logs))

    def logs(self, *, follow: bool = False, ranks: Ranks = None, stream: Optional[str] = None,
             attempt: Optional[int] = None, lines: Optional[int] = None, since: When = None,
             until: When = None, contains: Optional[str] = None) -> Lines:
        """The lines of the workers, in the order of their times, as far as these are known. follow: goes on
        until the run ends, over restarts. ranks as in kill(); stream: "stdout" or "stderr"; lines: only the
        last so many of each file; since, until: a datetime, a timedelta ago, or seconds since the epoch;
        contains: only lines with this text."""
        return Lines(self._manager, self._plans, logs_parameters(
            self._job, follow, ranks, stream, attempt, lines, since, until, contains))

    def events(self, *, follow: bool = False, since: Optional[int] = None) -> Stream[Event]:
        """The events of the run, after the one with the number since. follow: goes on until the run ends,
        also where elasticd is started again meanwhile."""
        return Stream(self._manager, self._plans.events(self._job, since, follow))

    def errors(self, attempt: Optional[int] = None) -> list[Failure]:
        """The failures of an attempt (the newest that has any), the root cause first."""
        return self._manager._run(self._plans.errors(self._job, attempt))

    def results(self) -> list[WorkerResult]:
        """The results and errors that workers reported."""
        return self._manager._run(self._plans.results(self._job))

    def spec(self) -> dict[str, Any]:
        """The specification that the run was started with."""
        return self._manager._run(self._plans.spec_of(self._job))

    def why(self) -> WhyAnswer:
        """The restart budget: what was counted, what is left, when the next attempt is."""
        return self._manager._run(self._plans.why(self._job))

    def __repr__(self) -> str:
        return f"<elasticd.manager.ManagedJob {self._job}>"


class Stream(Generic[_T]):
    """An iterator and a context manager: what elasticd sends, on a connection that ends with it."""

    def __init__(self, manager: Manager, plan: Plan[None]) -> None:
        self._manager, self._flow = manager, Flow(plan)
        self._wire: Optional[_Wire] = None
        self._lock, self._reading, self._closed = threading.Lock(), False, False
        manager._pool.check()
        manager._pool.streams.add(self)
        self._guarded(lambda: self._carry_out(Deadline(None)))  # opens it, so that it begins now

    def next(self, timeout: Optional[float] = None) -> Optional[_T]:
        """The next item; None after timeout seconds, and at the end."""
        item: Optional[_T] = self._guarded(lambda: self._read(Deadline(timeout)))
        return item

    def _guarded(self, body: Any) -> Any:
        """Runs it, as the one reader, and closes the connection where that has become necessary."""
        with self._lock:
            if self._closed:
                return None
            self._reading = True
        try:
            return body()
        except (Disconnected, Cancelled):
            if self._closed:
                return None
            raise
        finally:
            with self._lock:
                self._reading = False
                if self._closed or self._flow.over:
                    self._drop()

    def _read(self, deadline: Deadline) -> Any:
        flow = self._flow
        while not flow.items:
            if flow.over or self._closed or not self._carry_out(deadline):
                return None
            if not flow.items and isinstance(flow.step, (Sleep, Call)) and deadline.is_over():
                return None
        return flow.items.popleft()

    def _carry_out(self, deadline: Deadline) -> bool:
        """One step; False if the time was over before."""
        try:
            result = self._do(self._flow.step, deadline)
        except DeadlineExceeded as e:
            if isinstance(self._flow.step, Next):
                return False
            self._flow.failed(e)
        except Exception as e:
            self._flow.failed(e)
        else:
            self._flow.done(result)
        return True

    def _do(self, step: Optional[Step], deadline: Deadline) -> Any:
        if isinstance(step, Open):
            wire = self._manager._connect()
            with self._lock:
                self._drop()
                self._wire = wire
            return wire.send(step.method, step.parameters, more=True)
        if isinstance(step, Next):
            assert self._wire is not None
            return decode(self._wire.receive(sooner(None, deadline)))
        if isinstance(step, Sleep):
            step = Sleep(sooner(step.seconds, deadline) or 0)
        elif isinstance(step, Call):
            step = dataclasses.replace(step, timeout=sooner(step.timeout, deadline))
        return self._manager._do(step)

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Ends the connection, and the loop of the thread that reads."""
        with self._lock:
            self._closed = True
            if not self._reading:
                self._drop()
            elif self._wire is not None:
                self._wire.interrupt()

    def __iter__(self) -> Iterator[_T]:
        return self

    def __next__(self) -> _T:
        item: Optional[_T] = self.next()
        if item is None:
            raise StopIteration
        return item

    def __enter__(self: _S) -> _S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._drop()


class Lines(Gaps, Stream[Line]):
    """The lines of workers; see Gaps for those that it could not hand out."""

    def __init__(self, manager: Manager, plans: Plans, parameters: dict[str, Any]) -> None:
        Gaps.__init__(self)
        Stream.__init__(self, manager, plans.logs(parameters, self))
