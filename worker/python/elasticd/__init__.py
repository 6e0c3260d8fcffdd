# SPDX-License-Identifier: Apache-2.0
"""What a worker of elasticd shares with the others of its group.

    import elasticd

    with elasticd.init() as job:
        job.barrier("start")
        for step in range(1000):
            job.step(step)
            ...
        job.result({"loss": loss})

A layer over libelasticd (see elasticd(3)) that needs nothing but Python's standard library. Outside
elasticd init() gives a group of one, so that the same program runs by hand.
"""

from ._coordinator import Answer, Connection, connect, connect_queue
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
from ._job import Job, Member, get, init, tasks, work
from ._kv import KV, Entry
from ._logs import LogHandler
from ._pipeline import Pending, Pipeline
from ._preempt import Action, Preemptible, Preemption
from ._queue import Queue, QueueStats
from ._record import record
from ._streams import Change, Event, Events, GroupError, Watch
from ._task import Task

__version__ = "0.1.0"

__all__ = [
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
    "Member",
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
    "connect",
    "connect_queue",
    "execute",
    "get",
    "init",
    "record",
    "tasks",
    "work",
]
