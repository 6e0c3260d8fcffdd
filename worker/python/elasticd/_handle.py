# SPDX-License-Identifier: Apache-2.0
"""Stands for the value of a task until the value is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

from ._core import DEFAULT_TIMEOUT, Deadline
from ._errors import DeadlineExceeded, Error
from ._values import Held

if TYPE_CHECKING:
    from ._queue import Queue


class Handle(Held):
    """One task of a queue; task is its number.

    The outcome of the task is kept for this handle: the agent forgets it once the handle has it, or is gone.
    After detach() the agent keeps it for other programs that know the number.
    """

    __slots__ = ("__weakref__", "_drop", "_failed", "_known", "_queue", "_value", "task")

    def __init__(self, queue: Queue, task: int, drop: Optional[Callable[[int], None]]) -> None:
        self._queue, self.task, self._drop = queue, task, drop
        self._known = self._failed = False
        self._value: Any = None  # or the Error

    def fetch(self, timeout: Optional[float] = DEFAULT_TIMEOUT) -> Any:
        """Waits for the task, and returns its value. Raises its error where it failed, Cancelled where it was
        cancelled."""
        if not self._known:
            self._queue._await([self], Deadline(timeout))
        return self._outcome()

    result = fetch

    def exception(self, timeout: Optional[float] = DEFAULT_TIMEOUT) -> Optional[Error]:
        """Waits for the task, and returns its error, or None."""
        if not self._known:
            self._queue._await([self], Deadline(timeout))
        return self._value if self._failed else None

    def done(self) -> bool:
        """Whether the task is over, so that fetch() does not wait."""
        if not self._known:
            try:
                self._queue._await([self], Deadline(0))
            except DeadlineExceeded:
                return False
        return True

    def cancel(self, reason: str = "", timeout: Optional[float] = DEFAULT_TIMEOUT) -> bool:
        """Cancels the task, and waits until it no longer runs. False where it was over."""
        return not self._known and self._queue.cancel([self], reason, timeout) > 0

    def detach(self) -> int:
        """Leaves the outcome of the task with the agent until it is released there. Returns its number."""
        self._drop = None
        return self.task

    def _outcome(self) -> Any:
        if self._failed:
            raise copy_of(self._value)
        return self._value

    def __del__(self) -> None:
        # It may run in any thread, between any two instructions: it only makes a note.
        drop = self._drop
        if drop is not None:
            drop(self.task)

    def __reduce__(self) -> Any:
        raise TypeError("a handle cannot be pickled: fetch() it first, or pass its task")

    def __copy__(self) -> Handle:
        return self

    def __deepcopy__(self, _: Any) -> Handle:
        return self

    def __repr__(self) -> str:
        state = "" if not self._known else " failed" if self._failed else " done"
        return f"<elasticd.Handle of task {self.task}{state}>"


def copy_of(error: Error) -> Error:
    """A copy of the error to be raised, with a traceback of its own."""
    make, arguments, state = error.__reduce__()
    copied: Error = make(*arguments)
    copied.__dict__.update(state)
    return copied
