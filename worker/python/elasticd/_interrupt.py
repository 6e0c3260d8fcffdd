# SPDX-License-Identifier: Apache-2.0
"""Raises TaskCancelled amid a task that was cancelled, wherever the main thread is then."""

from __future__ import annotations

import os
import signal
import threading
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._errors import InvalidArgument, TaskCancelled

if TYPE_CHECKING:
    from ._place import Place
    from ._task import Task

_LOOK_SECONDS = 0.05
_WEAK = ("weakref", "_weakrefset")  # modules of such callbacks
_EDGES: set[CodeType] = set()  # where a task begins or ends: nothing is raised in these


def edge(function: Any) -> Any:
    _EDGES.add(function.__code__)
    return function


class Interrupt:
    """A handler of one signal, while a loop goes on, and a thread that sends that signal while the task that
    is armed is a cancelled one. A signal that comes too late finds another task armed, or none, and does
    nothing; one that somebody else has sent goes to the handler of before.

    By hand, where the end of a loop is that no other thread could submit anything, there is no such thread
    while the loop waits."""

    def __init__(self, number: int, place: Place) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise InvalidArgument("interrupt: only the main thread can be interrupted by a signal")
        self.armed: Optional[Task] = None
        self.busy = False  # answering, which is not to be torn
        self._number, self._place, self._pid = signal.Signals(number), place, os.getpid()
        self._sent: Optional[Task] = None
        self._reason = ""
        self._over = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._before = signal.signal(number, self._on_signal)
        try:
            if not place.by_hand:
                self.watch()
        except BaseException:
            self._restore()
            raise

    def watch(self) -> None:
        """A task is given out."""
        if self._thread is None:
            self._over.clear()
            thread = threading.Thread(target=self._watch, name="elasticd-interrupt", daemon=True)
            thread.start()
            self._thread = thread

    def rest(self) -> None:
        """The loop waits."""
        if self._place.by_hand:
            self._end()

    def _end(self) -> None:
        if os.getpid() == self._pid and self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def stop(self) -> None:
        """From now on nothing is raised, and the signal is as it was."""
        self.armed = None
        self._end()
        self._restore()

    def _restore(self) -> None:
        try:
            # One that was sent before is handled on the way back from this call, by the handler of here.
            signal.pthread_sigmask(signal.SIG_BLOCK, ())
            # None: a handler that was not installed by Python, which cannot install it again.
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
            reason = self._place.why_cancelled()
            if reason is not None and self.armed is task:
                self._sent, self._reason = task, reason
                signal.pthread_kill(main, self._number)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        task, self._sent = self._sent, None
        if task is None or os.getpid() != self._pid:
            if callable(self._before):
                self._before(number, frame)
        elif task is self.armed and not self.busy and not _is_no_place(frame):
            self.armed = None
            raise TaskCancelled(self._reason)


def _is_no_place(frame: Optional[FrameType]) -> bool:
    """Whether what is raised there is not the body's, or is lost, as whatever is within a finalizer or a
    weak reference's callback; it is tried again soon."""
    if frame is not None and frame.f_code in _EDGES:
        return True
    while frame is not None and frame.f_code not in _EDGES:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in _WEAK:
            return True
        frame = frame.f_back
    return False
