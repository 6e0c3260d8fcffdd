# SPDX-License-Identifier: Apache-2.0
"""The same as elasticd.manager, for asyncio: the same names, awaited, and streams for "async for".

    async with elasticd.aio.Manager() as m:
        job = await m.start("train.yaml")
        async with job.events(follow=True) as events:
            async for event in events:
                print(event.text)
        print((await job.wait()).verdict)

A Manager belongs to one event loop. A task that is cancelled within a call ends its connection; elasticd may
or may not have done the call. A read of a stream that is cancelled, also by asyncio.wait_for(), loses
nothing: the next one goes on. A stream opens its connection at "async with" or at its first read.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, AsyncIterator, Generic, Mapping, Optional, TypeVar, Union

from ._core import DEFAULT_TIMEOUT
from ._endpoint import Disconnected, Endpoint, Frames, Link, decode, encode
from ._errors import Cancelled, DeadlineExceeded
from ._manager_types import Event, Failure, Job, Line, WhyAnswer, WorkerResult
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
)
from ._pool import Pool
from .manager import no_program

__all__ = ["Disconnected", "Lines", "ManagedJob", "Manager", "Stream"]

_T = TypeVar("_T")
_S = TypeVar("_S", bound="Stream[Any]")


class _Wire:
    """A connection that one task uses."""

    def __init__(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._link, self._frames = link, Frames()
        self._reader, self._writer = reader, writer

    async def send(self, method: str, parameters: dict[str, Any], more: bool = False) -> None:
        self._writer.write(encode(method, parameters, more))
        # elasticd may have said why before it closed: then receive() returns it.
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def receive(self, timeout: Optional[float]) -> bytes:
        """The next message."""
        if timeout is None:
            return await self._receive()
        try:
            return await asyncio.wait_for(self._receive(), timeout)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(f"{self._link.place}: no answer in {timeout:g} s") from None

    async def _receive(self) -> bytes:
        while True:
            message = self._frames.next()
            if message is not None:
                return message
            try:
                data = await self._reader.read(1 << 18)
            except OSError as e:
                raise await self._lost(e.strerror or str(e)) from None
            if not data:
                raise await self._lost("the connection was closed")
            self._frames.feed(data)

    async def _lost(self, why: str) -> Disconnected:
        """ssh may need a moment to say why."""
        if not self._link.is_remote():
            return self._link.lost(why)
        return await asyncio.get_running_loop().run_in_executor(None, self._link.lost, why)

    def fresh(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def interrupt(self) -> None:
        self._link.shutdown()

    def close(self) -> None:
        self._link.shutdown()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._writer.transport.abort()
        try:  # ssh may need seconds to end
            loop = asyncio.get_running_loop() if self._link.is_remote() else None
        except RuntimeError:  # no loop runs
            loop = None
        if loop is None:
            self._link.close()
        else:
            loop.run_in_executor(None, self._link.close)


class Manager:
    """As elasticd.Manager, whose arguments it has."""

    def __init__(self, socket: Optional[Path] = None, *, host: Optional[str] = None,
                 trust_uid: Optional[int] = None, timeout: Optional[float] = ANSWER_TIMEOUT,
                 reconnect: float = RECONNECT) -> None:
        self._plans = Plans(Endpoint(socket, host, trust_uid), timeout, reconnect)
        self._pool: Pool[_Wire] = Pool()

    async def start(self, spec: Spec, *, name: Optional[str] = None, cwd: Optional[Path] = None,
                    env: Optional[Mapping[str, str]] = None) -> ManagedJob:
        job, run = await self._run(self._plans.start(spec, name, cwd, env))
        return ManagedJob(self, job, run)

    async def validate(self, spec: Spec) -> dict[str, Any]:
        return await self._run(self._plans.validate(spec))

    def job(self, name: str) -> ManagedJob:
        return ManagedJob(self, name)

    async def jobs(self, *, ended: bool = False) -> list[Job]:
        return await self._run(self._plans.records("List", "jobs", Job, ended=ended or None))

    def events(self) -> Stream[Event]:
        return Stream(self, self._plans.events(None, None, True))

    async def ping(self) -> None:
        await self._run(self._plans.void("Ping"))

    async def version(self) -> str:
        return str((await self.call("Version")).get("version"))

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._run(self._plans.call(method, parameters))

    @property
    def closed(self) -> bool:
        return self._pool.closed

    async def close(self) -> None:
        streams = list(self._pool.streams)
        self._pool.close()
        for stream in streams:
            await stream.close()

    async def __aenter__(self) -> Manager:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<elasticd.aio.Manager at {self._plans.endpoint}>"

    # How plans are carried out

    async def _run(self, plan: Plan[_T]) -> _T:
        flow = Flow(plan)
        while not flow.over:
            try:
                result = await self._do(flow.step)
            except Exception as e:
                flow.failed(e)
            else:
                flow.done(result)
        value: _T = flow.value
        return value

    async def _do(self, step: Optional[Step]) -> Any:
        if isinstance(step, Call):
            return await self._call(step)
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return self._pool.check()
        assert isinstance(step, Program), step
        try:
            program = await asyncio.create_subprocess_exec(
                *step.argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE)
        except OSError as e:
            raise no_program(step, e) from None
        out, err = await program.communicate()
        return program.returncode, out, err

    async def _connect(self) -> _Wire:
        """In a thread: ssh is started there, and a socket may be slow to take a connection."""
        connecting = asyncio.get_running_loop().run_in_executor(None, self._plans.endpoint.connect)
        try:
            link = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_unwanted)
            raise
        link.sock.setblocking(False)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=link.sock)
        except BaseException:
            link.close()
            raise
        return _Wire(link, reader, writer)

    async def _call(self, call: Call) -> dict[str, Any]:
        wire = self._pool.take()
        if wire is None:
            wire = await self._connect()
            self._pool.add(wire)
        good = False
        try:
            await wire.send(call.method, call.parameters)
            message = await wire.receive(call.timeout)
            good = True
        except Disconnected:
            self._pool.check()
            raise
        finally:
            self._pool.give_back(wire, good)
        return decode(message)[0]


def _close_unwanted(connecting: asyncio.Future[Link]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


class ManagedJob:
    """As elasticd.manager.ManagedJob."""

    def __init__(self, manager: Manager, name: str, run: Optional[str] = None) -> None:
        self.name, self.run = name, run
        self._manager, self._plans = manager, manager._plans

    @property
    def _job(self) -> str:
        return self.run or self.name

    async def status(self, *, live: bool = False) -> Job:
        return await self._manager._run(self._plans.status(self._job, live))

    async def wait(self, timeout: Optional[float] = DEFAULT_TIMEOUT, *, until: str = "ended") -> Job:
        return await self._manager._run(self._plans.wait(self._job, timeout, until))

    async def stop(self, grace: Optional[float] = None) -> None:
        await self._manager._run(self._plans.stop(self._job, grace))

    async def restart(self) -> None:
        self.run = await self._manager._run(self._plans.restart(self._job))

    async def kill(self, signal: Union[str, int] = "TERM", *, ranks: Ranks = None,
                   whom: Optional[str] = None) -> int:
        return await self._manager._run(self._plans.kill(self._job, signal, ranks, whom))

    async def scale(self, replicas: int, *, role: Optional[str] = None) -> None:
        await self._manager._run(self._plans.scale(self._job, replicas, role))

    async def preempt(self, grace: Optional[float] = None, *, reason: Optional[str] = None) -> None:
        await self._manager._run(self._plans.preempt(self._job, grace, reason))

    async def remove(self, *, logs: bool = False) -> int:
        return await self._manager._run(self._plans.remove(self._job, logs))

    def logs(self, *, follow: bool = False, ranks: Ranks = None, stream: Optional[str] = None,
             attempt: Optional[int] = None, lines: Optional[int] = None, since: When = None,
             until: When = None, contains: Optional[str] = None) -> Lines:
        return Lines(self._manager, self._plans, logs_parameters(
            self._job, follow, ranks, stream, attempt, lines, since, until, contains))

    def events(self, *, follow: bool = False, since: Optional[int] = None) -> Stream[Event]:
        return Stream(self._manager, self._plans.events(self._job, since, follow))

    async def errors(self, attempt: Optional[int] = None) -> list[Failure]:
        return await self._manager._run(self._plans.errors(self._job, attempt))

    async def results(self) -> list[WorkerResult]:
        return await self._manager._run(self._plans.results(self._job))

    async def spec(self) -> dict[str, Any]:
        return await self._manager._run(self._plans.spec_of(self._job))

    async def why(self) -> WhyAnswer:
        return await self._manager._run(self._plans.why(self._job))

    def __repr__(self) -> str:
        return f"<elasticd.aio.ManagedJob {self._job}>"


class Stream(Generic[_T]):
    """An asynchronous iterator and context manager; one task reads it, any task may close it."""

    def __init__(self, manager: Manager, plan: Plan[None]) -> None:
        self._manager, self._flow = manager, Flow(plan)
        self._wire: Optional[_Wire] = None
        self._doing: Optional[asyncio.Future[Any]] = None  # the step that is under way
        self._closed = False
        manager._pool.check()
        manager._pool.streams.add(self)

    async def next(self, timeout: Optional[float] = None) -> Optional[_T]:
        """The next item; None after timeout seconds, and at the end."""
        if timeout is None:
            return await self._read()
        try:
            return await asyncio.wait_for(self._read(), timeout)
        except asyncio.TimeoutError:
            return None

    async def _read(self) -> Optional[_T]:
        flow = self._flow
        try:
            while not flow.items and not flow.over and not self._closed:
                await self._carry_out()
        except (Disconnected, Cancelled):
            if not self._closed:
                raise
        finally:
            if flow.over or self._closed:
                self._drop()
        if self._closed or not flow.items:
            return None
        item: _T = flow.items.popleft()
        return item

    async def _carry_out(self) -> None:
        """A reader that is cancelled leaves the step under way, for the next reader."""
        if self._doing is None:
            self._doing = asyncio.ensure_future(self._do(self._flow.step))
            # The step may fail while no task reads, and asyncio would complain.
            self._doing.add_done_callback(lambda step: step.cancelled() or step.exception())
        doing = self._doing
        await asyncio.wait({doing})
        self._doing = None
        if doing.cancelled():  # by close()
            return
        try:
            result = doing.result()
        except Exception as e:
            self._flow.failed(e)
        else:
            self._flow.done(result)

    async def _do(self, step: Optional[Step]) -> Any:
        if isinstance(step, Open):
            wire = await self._manager._connect()
            self._drop()
            self._wire = wire
            return await wire.send(step.method, step.parameters, more=True)
        if isinstance(step, Next):
            assert self._wire is not None
            return decode(await self._wire.receive(None))
        return await self._manager._do(step)

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    @property
    def closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        """Ends the connection, and the loop of the task that reads."""
        self._closed = True
        if self._doing is not None:
            self._doing.cancel()
        self._drop()

    def __aiter__(self) -> AsyncIterator[_T]:
        return self

    async def __anext__(self) -> _T:
        item = await self.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def __aenter__(self: _S) -> _S:
        if isinstance(self._flow.step, Open):
            await self._carry_out()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Lines(Gaps, Stream[Line]):
    """As elasticd.manager.Lines."""

    def __init__(self, manager: Manager, plans: Plans, parameters: dict[str, Any]) -> None:
        Gaps.__init__(self)
        Stream.__init__(self, manager, plans.logs(parameters, self))
