# SPDX-License-Identifier: Apache-2.0
"""Raises TaskCancelled within a task that was cancelled, wherever the main thread is then."""

from __future__ import annotations

import os
import signal
import threading
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._errors import InvalidArgument, TaskCancelled

if TYPE_CHECKING:
    from ._slot import Slot
    from ._task import Task

_LOOK_SECONDS = 0.05
_WEAK = ("weakref", "_weakrefset")  # modules whose functions are callbacks of weak references
_EDGES: set[CodeType] = set()  # functions where a task begins or ends; nothing is raised in these


def edge(function: Any) -> Any:
    _EDGES.add(function.__code__)
    return function


class Interrupt:
    """A handler of one signal, while a loop of tasks goes on, and a thread that sends this signal when the
    armed task was cancelled. A signal that comes too late finds another task armed, or none, and does
    nothing. A signal from elsewhere goes to the handler that was there before.

    By hand a loop ends when no other thread could submit a task, so the thread must not exist while the loop
    waits."""

    def __init__(self, number: int, slot: Slot) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise InvalidArgument("interrupt: only the main thread can be interrupted by a signal")
        self.armed: Optional[Task] = None
        self.busy = False  # while the task is answered, which must not be interrupted
        self._number, self._slot, self._pid = signal.Signals(number), slot, os.getpid()
        self._sent: Optional[Task] = None
        self._reason = ""
        self._over = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._before = signal.signal(number, self._on_signal)
        try:
            if not slot.by_hand:
                self.watch()
        except BaseException:
            self._restore()
            raise

    def watch(self) -> None:
        """Starts the thread: there is a task."""
        if self._thread is None:
            self._over.clear()
            thread = threading.Thread(target=self._watch, name="elasticd-interrupt", daemon=True)
            thread.start()
            self._thread = thread

    def rest(self) -> None:
        """Ends the thread where it must not exist: the loop waits."""
        if self._slot.by_hand:
            self._end()

    def _end(self) -> None:
        if os.getpid() == self._pid and self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def stop(self) -> None:
        """From now on nothing is raised, and the signal has its former handler."""
        self.armed = None
        self._end()
        self._restore()

    def _restore(self) -> None:
        try:
            # A signal that was sent before is handled before this call returns, by this handler.
            signal.pthread_sigmask(signal.SIG_BLOCK, ())
            # None: the handler was not installed by Python, which cannot install it again.
            signal.signal(self._number, signal.SIG_DFL if self._before is None else self._before)
        except ValueError:  # not the main thread: a loop that was left to the garbage collector
            pass

    @edge
    def run(self, function: Callable[[Any], Any], task: Task) -> Any:
        """function(task), armed."""
        self.armed = task
        try:
            return function(task)
        finally:
            self.armed = None

    def _watch(self) -> None:
        main = threading.main_thread().ident
        while not self._over.wait(_LOOK_SECONDS):
            task = self.armed
            if task is None or self.busy or main is None:
                continue
            reason = self._slot.why_cancelled()
            if reason is not None and self.armed is task:
                self._sent, self._reason = task, reason
                signal.pthread_kill(main, self._number)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        task, self._sent = self._sent, None
        if task is None or os.getpid() != self._pid:
            if callable(self._before):
                self._before(number, frame)
        elif task is self.armed and not self.busy and not _must_wait(frame):
            self.armed = None
            raise TaskCancelled(self._reason)


def _must_wait(frame: Optional[FrameType]) -> bool:
    """Whether an exception that is raised there would not reach the body, or would be lost, as in a finalizer
    or in a callback of a weak reference. The signal is sent again soon."""
    if frame is not None and frame.f_code in _EDGES:
        return True
    while frame is not None and frame.f_code not in _EDGES:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in _WEAK:
            return True
        frame = frame.f_back
    return False
