# SPDX-License-Identifier: Apache-2.0
"""What a coordinator of a job's work has, be it a task of the job or not."""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_size_t, string_at
from typing import Any, Iterable, NamedTuple, Optional, Union

from ._core import Core, Deadline
from ._errors import CallFailed, Error, error_of, of_kind
from ._library import names_argument, names_array, text_argument, text_of
from ._queue import Queue
from ._queue_types import CAnswer, CBytes
from ._values import decode, encode


class Answer(NamedTuple):
    """What one worker ("role:index") answered to a call: a value, or an error."""

    worker: str
    value: Any
    error: Optional[Error]


class Coordinator:
    """Queues of tasks, calls to all workers, and what workers build."""

    _core: Core

    def queue(self, name: Optional[str] = None) -> Queue:
        """The queue of that name. Left out: a new one of this process alone, all of which is cancelled and
        forgotten when it is closed or the process is gone."""
        return Queue(self._core, name)

    def call(self, payload: Any = None, workers: Optional[Iterable[str]] = None, *,
             timeout: Optional[float] = None, answer_timeout: Optional[float] = None) -> list[Answer]:
        """Calls all workers that take tasks, or these, each of which answers before its next task (see
        tasks(calls=...)). Returns when all have, in the order of their ranks; CallFailed, with all answers,
        where one has failed, died, or not answered for answer_timeout seconds. Both limits are those of the
        job where they are left out."""
        core, library, handle = self._core, self._core.library, self._core.handle()
        names = None if workers is None else names_argument(workers, "workers")
        array, n = names_array(names, "workers")
        raw, form = encode(payload)
        data = CBytes(raw, len(raw), form)
        answer_ms = -1 if answer_timeout is None else Deadline(answer_timeout, "answer_timeout").left_ms()
        answers, count = POINTER(CAnswer)(), c_size_t()
        core.wait(lambda ms: library.call(handle, array, n, byref(data), ms, answer_ms, byref(answers),
                                          byref(count)), timeout)
        try:
            said = [_answer(a) for a in answers[:count.value]]
        finally:
            library.answers_free(answers, count)
        for answer in said:
            if answer.error is not None:
                failed = of_kind(CallFailed, int(answer.error.code), f"{answer.worker}: {answer.error}",
                                 (answer.worker,))
                failed.worker, failed.details = answer.worker, answer.error.details
                failed.answers = tuple(said)  # type: ignore[attr-defined]
                raise failed
        return said

    def create_resource(self, name: str, payload: Any = None) -> None:
        """Has all workers, those to come too, build this from payload before their next task (see
        tasks(resources=...)); AlreadyExists."""
        raw, form = encode(payload)
        self._core.call("resource_create", text_argument(name, "name"), byref(CBytes(raw, len(raw), form)))

    def drop_resource(self, name: str) -> None:
        """Tasks that need it and are not over fail."""
        self._core.call("resource_drop", text_argument(name, "name"))

    def close_queues(self) -> None:
        """No more tasks: when all are done, the loops of the workers end."""
        self._core.call("close_queues")


class Connection(Coordinator):
    """A job's work as somebody sees it who is no task of the job; connect() makes one."""

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
    """The work of a job, for a program that is no task of it. socket: of elasticd, where it is not
    ELASTICD_SOCKET or the usual one."""
    return Connection(job, socket)


def connect_queue(job: str, name: Optional[str] = None,
                  socket: Union[str, os.PathLike[str], None] = None) -> Queue:
    """One queue of it; see Coordinator.queue()."""
    return Queue(_outside(job, socket), name, owns_core=True)


def _outside(job: str, socket: Union[str, os.PathLike[str], None]) -> Core:
    path = None if socket is None else text_argument(os.fspath(socket), "socket")
    return Core(text_argument(job, "job"), path)


def _answer(a: CAnswer) -> Answer:
    worker = text_of(a.worker)
    if a.code:
        error = error_of(a.code, text_of(a.message))
        error.worker, error.details = worker, text_of(a.details)
        return Answer(worker, None, error)
    return Answer(worker, decode(string_at(a.value, a.len), a.format or b"") if a.value else b"", None)
