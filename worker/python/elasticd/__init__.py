# SPDX-License-Identifier: Apache-2.0
"""Lets the workers of a group share keys, barriers, results and errors, and do tasks of a queue.

    import elasticd

    with elasticd.init() as job:
        job.barrier("start")
        for step in range(1000):
            job.step(step)
            ...
        job.result({"loss": loss})

It is a layer over libelasticd (see elasticd(3)) that needs nothing but Python's standard library. Outside
elasticd init() gives a group of one, so that the same program runs by hand.

Calls that wait for other workers (barrier(), kv.get(), leave(), Queue.fetch(), Queue.join() ...) take a
timeout in seconds. Where the program gives none it is DEFAULT_TIMEOUT, 600 seconds, after which
DeadlineExceeded names the missing workers; timeout=None means no limit. Calls that wait for an event that may
never come (tasks(), work(), wait_error(), events(), kv.watch()) have no limit unless the program sets one.

Manager is for programs that start and watch jobs under elasticd: see elasticd.manager and, for asyncio,
elasticd.aio. Workers do not need it, so it is imported at its first use.
"""

from typing import TYPE_CHECKING, Any

from ._coordinator import Answer, Connection, connect, connect_queue
from ._core import DEFAULT_TIMEOUT
from ._errors import (
    Aborted,
    AlreadyExists,
    CallFailed,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    QueueFailed,
    ResourceExhausted,
    Retry,
    Status,
    TaskCancelled,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from ._executor import Executor, execute
from ._handle import Handle
from ._job import Job, Worker, get, init, tasks, work
from ._kv import KV, Entry
from ._logs import LogHandler
from ._pipeline import Pending, Pipeline
from ._preempt import Action, Preemptible, Preemption
from ._queue import Queue, QueueStats
from ._record import record
from ._streams import Change, Event, Events, GroupError, Watch
from ._task import Task

if TYPE_CHECKING:
    from . import aio, manager
    from .manager import Manager

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_TIMEOUT",
    "KV",
    "Aborted",
    "Action",
    "AlreadyExists",
    "Answer",
    "CallFailed",
    "Cancelled",
    "Change",
    "Connection",
    "DataLoss",
    "DeadlineExceeded",
    "Entry",
    "Error",
    "Event",
    "Events",
    "Executor",
    "FailedPrecondition",
    "GroupError",
    "Handle",
    "Internal",
    "InvalidArgument",
    "Job",
    "LogHandler",
    "Manager",
    "NotFound",
    "OutOfRange",
    "Pending",
    "PermissionDenied",
    "Pipeline",
    "Preemptible",
    "Preemption",
    "Queue",
    "QueueFailed",
    "QueueStats",
    "ResourceExhausted",
    "Retry",
    "Status",
    "Task",
    "TaskCancelled",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "Watch",
    "Worker",
    "aio",
    "connect",
    "connect_queue",
    "execute",
    "get",
    "init",
    "manager",
    "record",
    "tasks",
    "work",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("aio", "manager"):
        return importlib.import_module("." + name, __name__)
    if name == "Manager":
        return importlib.import_module(".manager", __name__).Manager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
