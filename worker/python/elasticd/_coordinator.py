# SPDX-License-Identifier: Apache-2.0
"""Coordinators of a job's queues, whether or not they are workers of the job."""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_size_t, string_at
from typing import Any, Final, Iterable, NamedTuple, Optional, Union

from ._core import LONGEST_MS, Core, Deadline
from ._errors import CallFailed, Error, error_of, of_kind
from ._library import names_argument, names_array, text_argument, text_of
from ._queue import Queue
from ._queue_types import CAnswer, CBytes
from ._values import decode, encode


class JobDefault:
    """Stands for a time limit that the job's specification has."""

    def __repr__(self) -> str:
        return "JOB_DEFAULT"


JOB_DEFAULT: Final = JobDefault()


class Answer(NamedTuple):
    """The answer of one worker ("role:index") to a call: a value, or an error."""

    worker: str
    value: Any
    error: Optional[Error]


class Coordinator:
    """Queues of tasks, calls to all workers, and what workers build."""

    _core: Core

    def queue(self, name: Optional[str] = None) -> Queue:
        """Opens the queue of that name. Without a name: a new queue of this process; everything in it is
        cancelled and forgotten when it is closed or the process ends."""
        return Queue(self._core, name)

    def call(self, payload: Any = None, workers: Optional[Iterable[str]] = None, *,
             timeout: Union[float, None, JobDefault] = JOB_DEFAULT,
             answer_timeout: Union[float, None, JobDefault] = JOB_DEFAULT) -> list[Answer]:
        """Calls all workers that take tasks, or these workers. Each answers before its next task (see
        tasks(calls=...)). Returns all answers, in the order of ranks. Raises CallFailed, which has all
        answers, where a worker has failed, has died, or has not answered after answer_timeout seconds.

        Limits that are left out are those of the job: queue.call_timeout (5 minutes unless the job says
        otherwise) and queue.answer_timeout (2 minutes). None: no limit."""
        core, library, handle = self._core, self._core.library, self._core.handle()
        names = None if workers is None else names_argument(workers, "workers")
        array, n = names_array(names, "workers")
        raw, form = encode(payload)
        data = CBytes(raw, len(raw), form)
        limit = None if isinstance(timeout, JobDefault) else Deadline(timeout)
        answer_ms = (-1 if isinstance(answer_timeout, JobDefault)
                     else _no_default(Deadline(answer_timeout, "answer_timeout").left_ms()))
        answers, count = POINTER(CAnswer)(), c_size_t()
        core.wait(lambda ms: library.queue_call(handle, array, n, byref(data),
                                                ms if limit is None else _no_default(ms), answer_ms,
                                                byref(answers), byref(count)), limit)
        try:
            said = [_answer(a) for a in answers[:count.value]]
        finally:
            library.queue_answers_free(answers, count)
        for answer in said:
            if answer.error is not None:
                failed = of_kind(CallFailed, int(answer.error.code), f"{answer.worker}: {answer.error}",
                                 (answer.worker,))
                failed.worker, failed.details = answer.worker, answer.error.details
                failed.answers = tuple(said)  # type: ignore[attr-defined]
                raise failed
        return said

    def create_resource(self, name: str, payload: Any = None) -> None:
        """Has all workers, later ones too, build this resource from payload before their next task (see
        tasks(resources=...)). AlreadyExists."""
        raw, form = encode(payload)
        data = CBytes(raw, len(raw), form)
        self._core.call("queue_resource_create", text_argument(name, "name"), byref(data))

    def drop_resource(self, name: str) -> None:
        """Drops a resource; tasks that need it and are not over fail."""
        self._core.call("queue_resource_drop", text_argument(name, "name"))

    def close_queues(self) -> None:
        """Closes all queues of the job for new tasks. The loops of the workers end with the last task."""
        self._core.call("queue_close_all")


class Connection(Coordinator):
    """The queues of a job, for a program that is not a worker of it; connect() makes one."""

    def __init__(self, job: str, socket: Union[str, os.PathLike[str], None] = None) -> None:
        self.name = job
        self._core = _outside(job, socket)

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Ends the waits of other threads with Cancelled."""
        self._core.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<elasticd.Connection to {self.name}>"


def connect(job: str, socket: Union[str, os.PathLike[str], None] = None) -> Connection:
    """The queues of a job, for a program that is not a worker of it. socket: elasticd's, where it is neither
    ELASTICD_SOCKET nor the usual one."""
    return Connection(job, socket)


def connect_queue(job: str, name: Optional[str] = None,
                  socket: Union[str, os.PathLike[str], None] = None) -> Queue:
    """One queue of a job, for a program that is not a worker of it; see Coordinator.queue()."""
    return Queue(_outside(job, socket), name, owns_core=True)


def _outside(job: str, socket: Union[str, os.PathLike[str], None]) -> Core:
    path = None if socket is None else text_argument(os.fspath(socket), "socket")
    return Core(text_argument(job, "job"), path)


def _no_default(ms: int) -> int:
    """A limit for a call of the library whose negative limits are those of the job."""
    return LONGEST_MS if ms < 0 else ms


def _answer(a: CAnswer) -> Answer:
    worker = text_of(a.worker)
    if a.code:
        error = error_of(a.code, text_of(a.message))
        error.worker, error.details = worker, text_of(a.details)
        return Answer(worker, None, error)
    return Answer(worker, decode(string_at(a.value, a.len), a.format or b"") if a.value else b"", None)
