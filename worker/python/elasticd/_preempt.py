# SPDX-License-Identifier: Apache-2.0
"""What a task does when its machine is taken away."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Optional, Union

from ._errors import Cancelled, Error, FailedPrecondition, Unavailable
from ._library import CPreemption, text_of

if TYPE_CHECKING:
    from ._job import Job

Path = Union[str, "os.PathLike[str]", None]


class Action(enum.IntEnum):
    """What step() says is to be done before that step, numbered as in elasticd.h."""

    CONTINUE = 0  # nothing
    SAVE = 1  # save a checkpoint, at the same step on all tasks, and go on
    SAVE_AND_EXIT = 2  # save, then leave with exit_code
    EXIT = 3  # leave with exit_code; there is nothing to save


class Preemption(NamedTuple):
    """A notice that is up. Times are seconds since the epoch; final: tasks leave once they have saved at
    step."""

    source: str
    reason: str
    time: float
    deadline: Optional[float]
    step: Optional[int]
    final: bool
    exit_code: int


def preemption(said: CPreemption) -> Preemption:
    deadline = said.deadline_us / 1e6 if said.deadline_us >= 0 else None
    step = said.step if said.step >= 0 else None
    return Preemption(text_of(said.source), text_of(said.reason), said.time_us / 1e6, deadline, step,
                      bool(said.final), said.exit_code)


class Preemptible:
    """Work that is saved, and left, when its machine is taken away.

        with job.preemptible(save=save) as work:
            for step in range(first, last):
                work.step(step)
                ...

    step(n) calls save(n), which writes the checkpoint and may return its path, wherever Job.step(n) says
    so, and after the final one exit(exit_code): by default that raises SystemExit. What save raises goes
    through, and nothing is told as saved.

    Each of signals, within the with statement, is a notice: a handler, which only the main thread can
    install (signals=() for others), makes a note of it, and the next step() tells the agent. grace is
    what it tells: how many seconds are left. A signal that comes because the group is being stopped,
    and one to a child of this process, does what it would have done without this.
    """

    def __init__(self, job: Job, save: Callable[[int], Path], exit: Optional[Callable[[int], object]],
                 signals: Iterable[int], grace: Optional[float]) -> None:
        self.job = job
        self._save, self._exit = save, exit
        self._signals, self._grace = tuple(signals), grace
        self._before: dict[int, Any] = {}
        self._noted: Optional[int] = None
        self._pid = 0

    def step(self, n: int) -> Action:
        """Begins step n, and does what is to be done before it."""
        if self._noted is not None:
            self._tell()
        action = self.job.step(n)
        if action in (Action.SAVE, Action.SAVE_AND_EXIT):
            self.job.saved(n, self._save(n))
        if action in (Action.SAVE_AND_EXIT, Action.EXIT):
            code = self.job.exit_code
            if self._exit is None:
                raise SystemExit(code)
            self._exit(code)
        return action

    def __enter__(self) -> Preemptible:
        self._pid = os.getpid()
        try:
            for number in self._signals:
                self._before[number] = signal.signal(number, self._note)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._restore()
        number, self._noted = self._noted, None
        if number is not None and kind is None:  # no step of this task tells it any more
            with contextlib.suppress(Error):
                self._notify(number)

    def _note(self, number: int, _: Optional[FrameType]) -> None:
        if os.getpid() != self._pid or self.job.stopping:
            self._hand_on(number)
        else:
            self._noted = number

    def _tell(self) -> None:
        number, self._noted = self._noted, None
        if number is None or self.job.notice:
            return
        try:
            self._notify(number)
        except (FailedPrecondition, Cancelled, Unavailable):
            self._hand_on(number)

    def _notify(self, number: int) -> None:
        self.job.notify(f"{self.job.task} got {signal.Signals(number).name}", self._grace)

    def _hand_on(self, number: int) -> None:
        """To whoever had the signal before."""
        before = self._before.pop(number, None)
        signal.signal(number, signal.SIG_DFL if before is None else before)
        signal.raise_signal(number)

    def _restore(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            # None: a handler that was not installed by Python, which cannot install it again.
            signal.signal(number, signal.SIG_DFL if before is None else before)
