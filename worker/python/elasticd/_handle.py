# SPDX-License-Identifier: Apache-2.0
"""What stands for the value of a task until it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

from ._core import Deadline
from ._errors import DeadlineExceeded, Error
from ._values import Held

if TYPE_CHECKING:
    from ._queue import Queue


class Handle(Held):
    """One task of a queue; task is its number.

    What comes of the task is kept for this handle, and forgotten elsewhere once it has been fetched, or
    when the handle is gone; detach() leaves it there for whoever knows the number.
    """

    __slots__ = ("__weakref__", "_drop", "_failed", "_known", "_queue", "_value", "task")

    def __init__(self, queue: Queue, task: int, drop: Optional[Callable[[int], None]]) -> None:
        self._queue, self.task, self._drop = queue, task, drop
        self._known = self._failed = False
        self._value: Any = None  # or the Error

    def fetch(self, timeout: Optional[float] = None) -> Any:
        """Waits for the task, and returns its value. One that failed raises its error, Cancelled where
        it was cancelled."""
        if not self._known:
            self._queue._await([self], Deadline(timeout))
        return self._told()

    result = fetch

    def exception(self, timeout: Optional[float] = None) -> Optional[Error]:
        """Waits likewise, and returns the error, or None."""
        if not self._known:
            self._queue._await([self], Deadline(timeout))
        return self._value if self._failed else None

    def done(self) -> bool:
        """Whether the task is over, and so fetch() does not wait."""
        if not self._known:
            try:
                self._queue._await([self], Deadline(0))
            except DeadlineExceeded:
                return False
        return True

    def cancel(self, reason: str = "", timeout: Optional[float] = None) -> bool:
        """Cancels the task, and waits until it does not run any more. False where it was over."""
        return not self._known and self._queue.cancel([self], reason, timeout) > 0

    def detach(self) -> int:
        """What comes of the task stays until somebody releases it. Returns its number."""
        self._drop = None
        return self.task

    def _told(self) -> Any:
        if self._failed:
            raise again(self._value)
        return self._value

    def __del__(self) -> None:
        # In whatever thread, amid whatever: only a note is made.
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


def again(error: Error) -> Error:
    """The same, for another raise: each has a traceback of its own."""
    make, arguments, state = error.__reduce__()
    copied: Error = make(*arguments)
    copied.__dict__.update(state)
    return copied
