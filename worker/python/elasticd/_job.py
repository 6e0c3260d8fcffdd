# SPDX-License-Identifier: Apache-2.0
"""The job as one of its tasks sees it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import operator
import os
import signal
import threading
from ctypes import byref, c_char_p, c_size_t
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
from ._core import Core, bytes_of
from ._errors import Error, InvalidArgument, Status
from ._kv import KV
from ._library import (
    CError,
    CMember,
    CPreemption,
    names_argument,
    names_array,
    number_argument,
    said_argument,
    text_argument,
    text_of,
)
from ._place import Place
from ._preempt import Action, Preemptible, Preemption, grace_ms, preemption
from ._streams import Events, GroupError, group_error
from ._task import Task
from ._values import encode
from ._work import loop_of_tasks, loop_of_work, work_in_threads

Function = Callable[[Any], Any]  # of a payload

_CONTINUE = Action.CONTINUE  # a name of the module is found faster


class Member(NamedTuple):
    """One task. healthy: it runs, has reported no error and has not left."""

    task: str
    state: str
    rank: int
    incarnation: int
    healthy: bool
    left: bool
    error: Optional[GroupError]


class Job(Coordinator):
    """This process's task and its group; elasticd.init() makes one.

    All of it may be used from any thread, and in children of fork(), which are the same task.
    Whatever waits takes a timeout in seconds (None: no limit), raises DeadlineExceeded when that is
    over, Cancelled when the group is stopped and Unavailable when the agent is gone, and lets
    signals (Ctrl-C) through. What does not wait lets them through, too, and raises Unavailable when the
    agent neither takes nor says anything for a minute; where a handler's exception ends such a call,
    the agent may or may not have done it. As a context manager it closes the handle.
    """

    def __init__(self) -> None:
        core = self._core = Core()
        self.supervised: bool = bool(self._ask("supervised"))
        self._header, self._slot, self._token = open_board() if self.supervised else private_board()
        # What step() looks at: the board, where there is one and the kernel sees to it that nothing is
        # missed; else the library looks.
        direct = self.supervised and kernel_fences()
        self._watched = self._header if direct else asking_header()
        self.kv = KV(core)
        self.name: str = text_of(self._ask("job"))
        self.run: str = text_of(self._ask("run"))
        self.role: str = text_of(self._ask("role"))
        self.index: int = self._ask("index")
        self.rank: int = self._ask("rank")
        self.local_rank: int = self._ask("local_rank")
        self.world_size: int = self._ask("world_size")
        self.attempt: int = self._ask("attempt")
        self.incarnation: int = self._ask("incarnation")

    def _ask(self, name: str) -> Any:
        return getattr(self._core.library, name)(self._core.handle())

    @property
    def task(self) -> str:
        """ "role:index": how others name this one."""
        return f"{self.role}:{self.index}"

    @property
    def closed(self) -> bool:
        return self._core.closed

    # Plain memory accesses, no system call.

    def beat(self) -> None:
        """This task lives."""
        slot = self._slot
        slot[BEATS] += 1
        slot[TOKEN] = self._token

    def step(self, n: int) -> Action:
        """This task begins step n; it beats, too. Returns what to do before it, at this moment: see Action.

        A memory access while neither a notice nor an error of the group is up; it waits only while the
        tasks agree on the step. An error that a task has reported is raised on all tasks alike, with
        its code and its text; missing then names whose it is. Cancelled once the job is closed, while
        beat() has nobody to tell it to then.
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
            return self._ask_step(operator.index(n))
        return _CONTINUE

    def _ask_step(self, n: int) -> Action:
        watched, slot = self._watched, self._slot
        if not watched[ERROR] and n < watched[SAVE_AT]:
            return _CONTINUE
        slot[STEPS] -= 1  # the library counts it
        return Action(self._core.ask("step", n))

    @property
    def notice(self) -> bool:
        """Whether a notice of preemption is up."""
        return (self._header[NOTICE] & 1 if self.supervised else self._ask("notice")) != 0

    @property
    def stopping(self) -> bool:
        """Whether the group is being stopped."""
        return self._header[STOPPING] > self.attempt

    # Preemption.

    @property
    def exit_code(self) -> int:
        """With which to leave on a notice."""
        code: int = self._ask("exit_code")
        return code

    def saved(self, n: int, path: Union[str, os.PathLike[str], None] = None) -> None:
        """The checkpoint that step(n) asked for is written. path is shown to people, and kept with the
        run. The next step(), and the exit, say so without a path."""
        text = None if path is None else text_argument(os.fspath(path), "path")
        self._core.call("saved", number_argument(n, "step"), text)

    def preempted(self) -> Optional[Preemption]:
        """The notice that is up, or None; for code between steps."""
        if not self.notice:
            return None
        said = CPreemption()
        return preemption(said) if self._core.ask("preempted", byref(said)) else None

    def notify(self, reason: str = "", grace: Optional[float] = None) -> None:
        """Gives the job notice, as a task that got a signal or asked its cloud does. grace: for so many
        seconds the machine is still there (0: save and leave at once; None: not known). FailedPrecondition
        where the job is at its end, or this task is being stopped."""
        text = said_argument(reason, "reason")
        self._core.call("notify", text, grace_ms(grace))

    def preemptible(self, save: Callable[[int], Union[str, os.PathLike[str], None]],
                    exit: Optional[Callable[[int], object]] = None,
                    signals: Iterable[int] = (signal.SIGTERM,), grace: Optional[float] = None) -> Preemptible:
        """A context manager whose step() does what Job.step() says; see Preemptible."""
        return Preemptible(self, save, exit, signals, grace)

    # What waits for others.

    def barrier(self, name: str, members: Optional[Iterable[str]] = None,
                timeout: Optional[float] = None) -> None:
        """Waits until all members ("role:index"; all tasks but those of evaluators when left out) have
        come. The first one fixes members and time limit. An error's missing names who has not come:
        Internal where a member failed, ended or left, FailedPrecondition where an operator stopped it."""
        function, handle = self._core.library.barrier, self._core.handle()
        text, (array, n) = text_argument(name, "name"), names_array(_list(members), "members")
        self._core.wait(lambda ms: function(handle, text, array, n, ms), timeout)

    def barrier_cancel(self, name: str, message: Optional[str] = None) -> None:
        """Those who wait at the barrier get Cancelled with message; FailedPrecondition where nobody
        does: not yet, or all have passed."""
        text = None if message is None else text_argument(message, "message")
        self._core.call("barrier_cancel", text_argument(name, "name"), text)

    def alive(self, members: Optional[Iterable[str]] = None,
              timeout: Optional[float] = None) -> list[str]:
        """Which of members (all when left out) live: the same answer for all who ask, once each that
        lives has asked."""
        library, handle = self._core.library, self._core.handle()
        array, n = names_array(_list(members), "members")
        names, count = ctypes.POINTER(c_char_p)(), c_size_t()
        self._core.wait(lambda ms: library.alive(handle, array, n, ms, byref(names), byref(count)), timeout)
        try:
            return [text_of(name) for name in names[:count.value]]
        finally:
            library.names_free(names, count.value)

    def leave(self, timeout: Optional[float] = None) -> None:
        """Takes leave, and waits until all tasks that are not recoverable have."""
        function, handle = self._core.library.leave, self._core.handle()
        self._core.wait(lambda ms: function(handle, ms), timeout)

    def states(self, *roles: str) -> list[Member]:
        """The tasks of roles (all when left out), by role and index."""
        array, n = names_array(list(roles) or None, "roles")
        members, count = ctypes.POINTER(CMember)(), c_size_t()
        self._core.call("states", array, n, byref(members), byref(count))
        try:
            return [_member(m) for m in members[:count.value]]
        finally:
            self._core.library.members_free(members, count.value)

    # Work: see Coordinator for who submits it.

    def tasks(self, resources: Optional[Mapping[str, Function]] = None, init: Optional[Function] = None,
              calls: Optional[Function] = None, *, timeout: Optional[float] = None,
              interrupt: Optional[int] = None) -> Iterator[Task]:
        """The tasks that this worker is to do, one after the other: see Task. Ends when the queues are
        closed; raises Cancelled when the group is stopped, and DeadlineExceeded where none comes within
        timeout seconds. What was not answered when the loop is left is put back.

        Between tasks the other things that are asked of a worker are done: resources has the functions
        that build what tasks need, by name, init is the role's initializer, calls answers to call(). Each
        gets a payload; what one raises is what whoever asked gets.

        interrupt: a signal, SIGUSR1 say, by whose handler a cancelled task gets TaskCancelled raised within
        its `with task:`, even amid time.sleep(); for the main thread.
        """
        return loop_of_tasks(self._place(self._core, resources, init, calls, timeout), interrupt)

    def work(self, handler: Callable[[Task], Any], slots: int = 1, *,
             resources: Optional[Mapping[str, Function]] = None, init: Optional[Function] = None,
             calls: Optional[Function] = None, timeout: Optional[float] = None,
             interrupt: Optional[int] = None) -> None:
        """Does all tasks: each is finished with what handler(task) returns, or fails with what it raises.
        slots: so many at once, in threads (queue.slots of the job must allow it). Returns and raises as
        tasks() ends; faster than that, since a value is told and the next task got in one go. A slot for
        which no task comes in time asks again while another is at one, else it ends: that is raised when
        all have ended so."""
        slots = number_argument(slots, "slots")
        if slots < 1:
            raise InvalidArgument(f"slots: expected at least 1, got {slots}")
        if slots == 1:
            loop_of_work(self._place(self._core, resources, init, calls, timeout), handler, interrupt)
            return
        if interrupt is not None:
            raise InvalidArgument("interrupt: expected one slot, as only the main thread can be interrupted")
        work_in_threads(lambda core: self._place(core, resources, init, calls, timeout), handler, slots)

    def _place(self, core: Core, resources: Optional[Mapping[str, Function]], init: Optional[Function],
               calls: Optional[Function], timeout: Optional[float]) -> Place:
        return Place(core, resources, init, calls, timeout, lambda: self.stopping, not self.supervised)

    # Results and errors.

    def result(self, value: Any) -> None:
        """This task's result, kept with the run; a later one replaces it. bytes and str are stored as
        they are, anything else as JSON, which has no nan and no infinity (InvalidArgument)."""
        is_plain = isinstance(value, (bytes, bytearray, memoryview, str))
        data = bytes_of(value, "result") if is_plain else encode(value, "result")[0]
        self._core.call("result", data, len(data))

    def report_error(self, error: Union[str, BaseException], code: Union[Status, int, str, None] = None
                     ) -> None:
        """Tells all others that this task has failed, and why; it does not end anything by itself."""
        if code is None:
            code = error.code if isinstance(error, Error) else Status.UNKNOWN
        message = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
        text = said_argument(message, "error")
        self._core.call("report_error", int(Status.of(code)), text)

    def write_error(self, message: str, traceback: Optional[str] = None) -> None:
        """Writes the task's error.json, where it has none yet, and tells nobody."""
        trace = None if traceback is None else said_argument(traceback, "traceback")
        self._core.call("write_error", said_argument(message, "message"), trace)

    def wait_error(self, timeout: Optional[float] = None) -> GroupError:
        """Waits for the group's error; at once where it has one."""
        library, handle = self._core.library, self._core.handle()
        error = ctypes.POINTER(CError)()
        self._core.wait(lambda ms: library.wait_error(handle, ms, byref(error)), timeout)
        try:
            return group_error(error.contents)
        finally:
            library.error_free(error)

    def events(self) -> Events:
        """What happens in the group from now on: an iterator and a context manager."""
        return Events(self._core)

    def log(self, level: Union[int, str], message: str, **fields: Any) -> None:
        """Appends a line of JSON to the task's log.jsonl. What is not JSON in fields goes by str()."""
        name = logging.getLevelName(level) if isinstance(level, int) else level
        text = json.dumps(fields, default=str).encode() if fields else None
        self._core.call("log", text_argument(name.lower() if isinstance(name, str) else name, "level"),
                        said_argument(message, "message"), text)

    def close(self) -> None:
        """Waits for what was put with wait=False, and raises its first error when all is closed. Ends the
        waits of other threads with Cancelled. Closing twice is no error."""
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
            quietly(self.close)  # it has an error already

    def __repr__(self) -> str:
        where = f"{self.run} attempt {self.attempt}" if self.supervised else "unsupervised"
        return f"<elasticd.Job {self.task} rank {self.rank} of {self.world_size}, {where}>"


def _list(names: Optional[Iterable[str]]) -> Optional[list[str]]:
    return None if names is None else names_argument(names, "members")


def _member(m: CMember) -> Member:
    error = group_error(m.error.contents) if m.error else None
    return Member(text_of(m.task), text_of(m.state), m.rank, m.incarnation, bool(m.healthy),
                  bool(m.left), error)


_current: Optional[Job] = None
_opening = threading.Lock()


def init() -> Job:
    """Opens this process's task. Outside elasticd it is a group of one, in which everything works.

    Each call opens a handle of its own; get() gives the newest that is open.
    """
    global _current
    job = Job()
    _current = job
    return job


def get() -> Job:
    """The process's job, opened where init() was not called or its job was closed."""
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
    """For what is done on the way to the end of a process, where an error helps nobody."""
    with contextlib.suppress(Error, OSError, ImportError, ValueError, TypeError):
        function(*arguments)


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
