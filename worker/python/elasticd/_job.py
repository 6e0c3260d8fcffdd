# SPDX-License-Identifier: Apache-2.0
"""The job, as one of its workers sees it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import operator
import os
import signal
import threading
from ctypes import byref, c_char_p, c_int, c_size_t
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

from ._board import (
    BEATS,
    ERROR,
    NOTICE,
    SAVE_AT,
    STEP,
    STEPS,
    STOPPING,
    TOKEN,
    asking_header,
    kernel_fences,
    open_board,
    private_board,
)
from ._coordinator import Coordinator
from ._core import DEFAULT_TIMEOUT, Core, bytes_of
from ._errors import Error, InvalidArgument, NotFound, Status
from ._kv import KV
from ._library import (
    CError,
    CPreemption,
    CWorker,
    message_argument,
    names_argument,
    names_array,
    number_argument,
    text_argument,
    text_of,
)
from ._preempt import Action, Preemptible, Preemption, grace_ms, preemption
from ._slot import Slot
from ._streams import Events, GroupError, group_error
from ._task import Task
from ._values import encode
from ._work import Slots, loop_of_tasks, loop_of_work

Function = Callable[[Any], Any]  # of a payload

_CONTINUE = Action.CONTINUE  # a name of the module is looked up faster


class Worker(NamedTuple):
    """One worker of the group. start: how often it was started before in this attempt. healthy: it runs, has
    reported no error and has not left."""

    worker: str
    state: str
    rank: int
    start: int
    healthy: bool
    left: bool
    error: Optional[GroupError]


class Job(Coordinator):
    """This process's worker and its group; elasticd.init() makes one.

    Any thread may use it, and children of fork(), which are the same worker. As a context manager it closes
    the handle.

    Methods that wait for other workers take a timeout in seconds: None means no limit, and DEFAULT_TIMEOUT
    (600) applies where it is left out. They raise DeadlineExceeded after that time, Cancelled when the group
    is stopped, and Unavailable when the agent is gone. Methods that wait for an event that may never come
    (the next task, event or change, an error of the group) have no limit unless the program sets one. Methods
    without timeout raise Unavailable when the agent neither reads nor writes anything for a minute.

    Handlers of signals (Ctrl-C) run during all of these. Where a handler's exception ends a call, the agent
    may or may not have done what it asked for.
    """

    def __init__(self) -> None:
        core = self._core = Core()
        self.supervised: bool = bool(self._of_handle("supervised"))
        self._header, self._slot, self._token = open_board() if self.supervised else private_board()
        # The header that step() reads: the board's, where there is one and the kernel makes the barrier; else
        # one that has step() ask the library.
        direct = self.supervised and kernel_fences()
        self._watched = self._header if direct else asking_header()
        self.kv = KV(core)
        self.name: str = text_of(self._of_handle("job"))
        self.run: str = text_of(self._of_handle("run"))
        self.role: str = text_of(self._of_handle("role"))
        self.index: int = self._of_handle("index")
        self.rank: int = self._of_handle("rank")
        self.local_rank: int = self._of_handle("local_rank")
        self.world_size: int = self._of_handle("world_size")
        self.attempt: int = self._of_handle("attempt")
        self.start: int = self._of_handle("start")

    def _of_handle(self, name: str) -> Any:
        return getattr(self._core.library, name)(self._core.handle())

    @property
    def me(self) -> str:
        """ "role:index": the name of this worker."""
        return f"{self.role}:{self.index}"

    @property
    def closed(self) -> bool:
        return self._core.closed

    # Plain memory accesses, no system call.

    def beat(self) -> None:
        """Says that this worker lives."""
        slot = self._slot
        slot[BEATS] += 1
        slot[TOKEN] = self._token

    def step(self, n: int) -> Action:
        """Says that this worker begins step n, which is also a beat. Returns what to do before the step, at
        this moment: see Action.

        It is a memory access while neither a notice nor an error of the group is up; it waits only while the
        workers agree on the step. An error that a worker has reported is raised on all workers, with its code
        and its text; missing names the worker. Once the job is closed it raises Cancelled, and beat() does
        nothing.
        """
        slot = self._slot
        try:
            slot[STEP] = n
        except (TypeError, ValueError):
            number_argument(n, "step")
            raise
        slot[STEPS] += 1
        slot[BEATS] += 1
        slot[TOKEN] = self._token
        watched = self._watched
        if watched[NOTICE] & 1 or watched[ERROR]:
            return self._step_by_library(operator.index(n))
        return _CONTINUE

    def _step_by_library(self, n: int) -> Action:
        watched, slot = self._watched, self._slot
        if not watched[ERROR] and n < watched[SAVE_AT]:
            return _CONTINUE
        slot[STEPS] -= 1  # the library counts the step
        action = c_int()
        self._core.call("step", n, byref(action))
        return Action(action.value)

    @property
    def notice(self) -> bool:
        """Whether a notice of preemption is up."""
        return bool(self._header[NOTICE] & 1 if self.supervised else self._of_handle("notice"))

    @property
    def stopping(self) -> bool:
        """Whether the group is being stopped."""
        return self._header[STOPPING] > self.attempt

    # Preemption.

    @property
    def exit_code(self) -> int:
        """The code with which a worker exits on a notice."""
        code: int = self._of_handle("exit_code")
        return code

    def saved(self, n: int, path: Union[str, os.PathLike[str], None] = None) -> None:
        """Says that the checkpoint that step(n) asked for is written. path is shown to people, and kept with
        the run. The next step(), or the exit, says the same without a path."""
        text = None if path is None else text_argument(os.fspath(path), "path")
        self._core.call("saved", number_argument(n, "step"), text)

    def preempted(self) -> Optional[Preemption]:
        """The notice that is up, or None; for code between steps."""
        if not self.notice:
            return None
        said = CPreemption()
        try:
            self._core.call("preempted", byref(said))
        except NotFound:  # it was taken back just now
            return None
        return preemption(said)

    def notify(self, reason: str = "", grace: Optional[float] = None) -> None:
        """Gives the job notice, for a worker that got a signal or asked its cloud. grace: how many seconds
        the machine is still there (0: save and leave at once; None: not known). FailedPrecondition: the job
        is at its end, or this worker is being stopped."""
        text = message_argument(reason, "reason")
        self._core.call("notify", text, grace_ms(grace))

    def preemptible(self, save: Callable[[int], Union[str, os.PathLike[str], None]],
                    exit: Optional[Callable[[int], object]] = None,
                    signals: Iterable[int] = (signal.SIGTERM,), grace: Optional[float] = None) -> Preemptible:
        """A context manager whose step() does what Job.step() says; see Preemptible."""
        return Preemptible(self, save, exit, signals, grace)

    def ready(self) -> None:
        """Says that this worker is ready, for a job whose specification asks for that (ready.call)."""
        self._core.call("ready")

    # Waiting for other workers.

    def barrier(self, name: str, members: Optional[Iterable[str]] = None,
                timeout: Optional[float] = DEFAULT_TIMEOUT) -> None:
        """Waits until all members ("role:index"; left out: all workers but evaluators) have called it. The
        first caller fixes members and time limit. An error's missing names the members that did not come.
        Internal: a member failed, ended or left; FailedPrecondition: an operator stopped a member."""
        function, handle = self._core.library.barrier, self._core.handle()
        text, (array, n) = text_argument(name, "name"), names_array(_list(members), "members")
        self._core.wait(lambda ms: function(handle, text, array, n, ms), timeout)

    def barrier_cancel(self, name: str, message: Optional[str] = None) -> None:
        """Ends the wait of all workers at that barrier with Cancelled and message. FailedPrecondition where
        no worker waits there."""
        text = None if message is None else text_argument(message, "message")
        self._core.call("barrier_cancel", text_argument(name, "name"), text)

    def alive(self, members: Optional[Iterable[str]] = None,
              timeout: Optional[float] = DEFAULT_TIMEOUT) -> list[str]:
        """Which of members (left out: all) live: the same answer for all callers. Every member that lives has
        to call it."""
        library, handle = self._core.library, self._core.handle()
        array, n = names_array(_list(members), "members")
        names, count = ctypes.POINTER(c_char_p)(), c_size_t()
        self._core.wait(lambda ms: library.alive(handle, array, n, ms, byref(names), byref(count)), timeout)
        try:
            return [text_of(name) for name in names[:count.value]]
        finally:
            library.names_free(names, count.value)

    def leave(self, timeout: Optional[float] = DEFAULT_TIMEOUT) -> None:
        """Leaves the group, and waits until all workers that are not recoverable have left."""
        function, handle = self._core.library.leave, self._core.handle()
        self._core.wait(lambda ms: function(handle, ms), timeout)

    def states(self, *roles: str) -> list[Worker]:
        """The workers of roles (left out: all), by role and index."""
        array, n = names_array(list(roles) or None, "roles")
        workers, count = ctypes.POINTER(CWorker)(), c_size_t()
        self._core.call("states", array, n, byref(workers), byref(count))
        try:
            return [_worker(w) for w in workers[:count.value]]
        finally:
            self._core.library.workers_free(workers, count.value)

    # Doing tasks; Coordinator has the methods that submit them.

    def tasks(self, resources: Optional[Mapping[str, Function]] = None, init: Optional[Function] = None,
              calls: Optional[Function] = None, *, timeout: Optional[float] = None,
              interrupt: Optional[int] = None) -> Iterator[Task]:
        """The tasks for this worker, one after the other: see Task. Ends when the queues are closed; raises
        Cancelled when the group is stopped. A worker may have to wait for its next task for as long as the
        job lasts, so there is no limit unless timeout sets one: then DeadlineExceeded where no task comes
        within timeout seconds. A task that has no answer when the loop ends is put back.

        Between tasks the loop serves the other requests of coordinators: resources has the functions that
        build resources, by name, init is the role's initializer, calls answers to call(). Each gets a
        payload; the coordinator gets the exception that it raises.

        interrupt: a signal, for example SIGUSR1, whose handler raises TaskCancelled within the `with task:`
        of a cancelled task, even in time.sleep(); only in the main thread.
        """
        return loop_of_tasks(self._slot_of(self._core, resources, init, calls, timeout), interrupt)

    def work(self, handler: Callable[[Task], Any], slots: int = 1, *,
             resources: Optional[Mapping[str, Function]] = None, init: Optional[Function] = None,
             calls: Optional[Function] = None, timeout: Optional[float] = None,
             interrupt: Optional[int] = None) -> None:
        """Does all tasks: each is finished with what handler(task) returns, or fails with what it raises.
        Returns and raises as the loop of tasks() does, and has no limit unless timeout sets one. It is faster
        than that loop, since one call answers a task and gets the next one.

        slots: how many tasks at once, in threads (queue.slots of the job must allow it). When the handler
        raises an exception that ends the loop, the other slots finish their tasks and end, too. A slot for
        which no task comes in time asks again while another one does a task, else it ends; when all have
        ended so, DeadlineExceeded is raised."""
        slots = number_argument(slots, "slots")
        if slots < 1:
            raise InvalidArgument(f"slots: expected at least 1, got {slots}")
        if slots == 1:
            loop_of_work(self._slot_of(self._core, resources, init, calls, timeout), handler, interrupt)
            return
        if interrupt is not None:
            raise InvalidArgument("interrupt: expected one slot, as only the main thread can be interrupted")
        Slots(lambda core: self._slot_of(core, resources, init, calls, timeout), handler).run(slots)

    def _slot_of(self, core: Core, resources: Optional[Mapping[str, Function]], init: Optional[Function],
                 calls: Optional[Function], timeout: Optional[float]) -> Slot:
        return Slot(core, resources, init, calls, timeout, lambda: self.stopping, not self.supervised)

    # Results and errors.

    def result(self, value: Any) -> None:
        """Stores this worker's result with the run; a later result replaces it. bytes and str are stored as
        they are, anything else as JSON, which has no nan and no infinity (InvalidArgument)."""
        is_plain = isinstance(value, (bytes, bytearray, memoryview, str))
        data = bytes_of(value, "result") if is_plain else encode(value, "result")[0]
        self._core.call("result", data, len(data))

    def report_error(self, error: Union[str, BaseException], code: Union[Status, int, str, None] = None
                     ) -> None:
        """Tells all other workers that this one has failed, and why; ends nothing by itself."""
        if code is None:
            code = error.code if isinstance(error, Error) else Status.UNKNOWN
        message = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
        text = message_argument(message, "error")
        self._core.call("report_error", int(Status.of(code)), text)

    def write_error(self, message: str, traceback: Optional[str] = None) -> None:
        """Writes the worker's error.json where there is none yet; the other workers are not told."""
        trace = None if traceback is None else message_argument(traceback, "traceback")
        self._core.call("write_error", message_argument(message, "message"), trace)

    def wait_error(self, timeout: Optional[float] = None) -> GroupError:
        """Waits for the group's error, which may never come: so there is no limit unless timeout sets one,
        and threads of their own mostly call it. Returns at once where the group has an error."""
        library, handle = self._core.library, self._core.handle()
        error = ctypes.POINTER(CError)()
        self._core.wait(lambda ms: library.wait_error(handle, ms, byref(error)), timeout)
        try:
            return group_error(error.contents)
        finally:
            library.error_free(error)

    def events(self) -> Events:
        """The events of the group from now on: an iterator and a context manager. It waits for the next event
        without limit; see Events.next()."""
        return Events(self._core)

    def log(self, level: Union[int, str], message: str, **fields: Any) -> None:
        """Appends a line of JSON to the worker's log.jsonl. Fields that cannot be JSON are written as
        str()."""
        name = logging.getLevelName(level) if isinstance(level, int) else level
        text = json.dumps(fields, default=str).encode() if fields else None
        self._core.call("log", text_argument(name.lower() if isinstance(name, str) else name, "level"),
                        message_argument(message, "message"), text)

    def close(self) -> None:
        """Closes the handle, and ends the waits of other threads with Cancelled. Waits before for puts with
        wait=False, and raises their first error at the end. Closing twice is no error."""
        try:
            if not self.closed:
                self.kv.flush()
        finally:
            self._close()

    def _close(self) -> None:
        self._header, self._slot, _ = private_board()
        self._watched = asking_header()  # of the handle that is closed
        self._core.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            quietly(self.close)  # the with statement has an error already

    def __repr__(self) -> str:
        where = f"{self.run} attempt {self.attempt}" if self.supervised else "unsupervised"
        return f"<elasticd.Job {self.me} rank {self.rank} of {self.world_size}, {where}>"


def _list(names: Optional[Iterable[str]]) -> Optional[list[str]]:
    return None if names is None else names_argument(names, "members")


def _worker(w: CWorker) -> Worker:
    error = group_error(w.error.contents) if w.error else None
    return Worker(text_of(w.worker), text_of(w.state), w.rank, w.start, bool(w.healthy), bool(w.left), error)


_current: Optional[Job] = None
_opening = threading.Lock()


def init() -> Job:
    """Opens this process's worker. Outside elasticd it is a group of one, in which everything works.

    Each call opens another handle; get() returns the newest that is open.
    """
    global _current
    job = Job()
    _current = job
    return job


def get() -> Job:
    """The process's job; opens one where init() was not called, or its job was closed."""
    global _current
    with _opening:
        job = _current
        if job is None or job.closed:
            job = _current = Job()
        return job


def tasks(**options: Any) -> Iterator[Task]:
    """Job.tasks() of the process's job."""
    return get().tasks(**options)


def work(handler: Callable[[Task], Any], slots: int = 1, **options: Any) -> None:
    """Job.work() of the process's job."""
    get().work(handler, slots, **options)


def quietly(function: Callable[..., Any], *arguments: Any) -> None:
    """Calls function, for the end of a process, where an error would help no one."""
    with contextlib.suppress(Error, OSError, ImportError, ValueError, TypeError):
        function(*arguments)


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
