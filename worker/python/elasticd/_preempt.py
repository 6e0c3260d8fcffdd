# SPDX-License-Identifier: Apache-2.0
"""Saving and leaving when the machine is taken away."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Optional, Union

from ._errors import Cancelled, Error, FailedPrecondition, InvalidArgument, Unavailable
from ._library import CPreemption, text_of

if TYPE_CHECKING:
    from ._job import Job

_GRACE_MS_MAX = 1 << 41  # decades; the agent accepts no more

Path = Union[str, "os.PathLike[str]", None]


class Action(enum.IntEnum):
    """The thing to do before a step, numbered as in elasticd.h."""

    CONTINUE = 0  # nothing
    SAVE = 1  # save a checkpoint, at the same step on all workers, and go on
    SAVE_AND_EXIT = 2  # save, then leave with exit_code
    EXIT = 3  # leave with exit_code; there is nothing to save


class Preemption(NamedTuple):
    """A notice that is up. Times are seconds since the epoch. final: workers leave once they have saved at
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


def grace_ms(grace: Optional[float]) -> int:
    """The grace in ms; -1: not known."""
    if grace is None:
        return -1
    try:
        good = grace == grace and abs(grace) != float("inf")
    except TypeError:
        raise TypeError(f"grace: expected a number of seconds, got {grace!r:.100}") from None
    if not good:
        raise InvalidArgument(f"grace: expected a number of seconds, got {grace!r}")
    return int(max(min(grace, _GRACE_MS_MAX / 1000), 0) * 1000)


class Preemptible:
    """Saves the work, and leaves, when the machine is taken away.

        with job.preemptible(save=save) as work:
            for step in range(first, last):
                work.step(step)
                ...

    step(n) calls save(n), which writes the checkpoint and may return its path, whenever Job.step(n) asks for
    that. After the final save it calls exit(exit_code), which by default raises SystemExit. Where save raises
    an exception, step() raises it, and tells nothing as saved.

    Within the with statement each of signals is a notice. Their handler, which only the main thread can
    install (use signals=() in others), makes a note, and the next step() tells the agent; grace is how many
    seconds are left then. A signal that comes because the worker or the group is being stopped, or that
    comes to a child of this process, does what it would have done without this class. Where the signal is all
    that a worker gets of a notice (preemption.how: signal), the next step() saves and leaves.
    """

    def __init__(self, job: Job, save: Callable[[int], Path], exit: Optional[Callable[[int], object]],
                 signals: Iterable[int], grace: Optional[float]) -> None:
        self.job = job
        self._save, self._exit = save, exit
        self._signals, self._grace = tuple(signals), grace
        grace_ms(grace)
        self._before: dict[int, Any] = {}
        self._noted: Optional[int] = None
        self._pid = 0

    def step(self, n: int) -> Action:
        """Begins step n, and does what has to be done before it."""
        alone = self._noted is not None and self._tell()
        action = self.job.step(n)
        if alone and action is Action.CONTINUE and self._no_step_is_asked(n):
            self._save(n)
            action = Action.SAVE_AND_EXIT
        elif action in (Action.SAVE, Action.SAVE_AND_EXIT):
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
        if kind is None:  # there is no further step to tell it
            with contextlib.suppress(Error):
                self._tell()

    def _note(self, number: int, _: Optional[FrameType]) -> None:
        if os.getpid() != self._pid or self.job.stopping:
            self._hand_on(number)
        else:
            self._noted = number

    def _tell(self) -> bool:
        """Tells the agent of a signal. Returns whether a notice was up before."""
        number, self._noted = self._noted, None
        if number is None:
            return False
        up = self.job.notice
        try:
            if not up:
                self.job.notify(f"{self.job.me} got {signal.Signals(number).name}", self._grace)
            elif self._is_stopping():
                raise Cancelled("this worker is being stopped")
            return up
        except (FailedPrecondition, Cancelled, Unavailable):
            self._hand_on(number)
            return False

    def _is_stopping(self) -> bool:
        me = self.job.me
        return any(w.worker == me and w.state == "stopping" for w in self.job.states(self.job.role))

    def _no_step_is_asked(self, n: int) -> bool:
        """Whether workers get only the signal of the notice that is up, so that no step will be agreed."""
        if not self._is_final_without_step():
            return False
        # Workers that do agree may not have been ready: this step waits until they have agreed.
        return self.job.step(n) is Action.CONTINUE and self._is_final_without_step()

    def _is_final_without_step(self) -> bool:
        said = self.job.preempted()
        return said is not None and said.final and said.step is None

    def _hand_on(self, number: int) -> None:
        """Raises the signal again, for the handler that was there before."""
        if number in self._before:
            before = self._before.pop(number)
            signal.signal(number, signal.SIG_DFL if before is None else before)
        signal.raise_signal(number)

    def _restore(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            # None: the handler was not installed by Python, which cannot install it again.
            signal.signal(number, signal.SIG_DFL if before is None else before)
