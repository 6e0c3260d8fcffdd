# SPDX-License-Identifier: Apache-2.0
"""The connections of a Manager: one for each call that is under way, kept for later calls."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Generic, Optional, Protocol, TypeVar

from ._errors import Cancelled


class Wire(Protocol):
    def fresh(self) -> bool:
        """Whether a call can be made: the other end has neither closed nor said anything."""

    def interrupt(self) -> None:
        """Ends the call that is under way."""

    def close(self) -> None: ...


_W = TypeVar("_W", bound=Wire)


class Pool(Generic[_W]):
    """Thread-safe. A child of fork() begins without connections: those are its parent's."""

    def __init__(self) -> None:
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._idle: list[_W] = []
        self._busy: set[_W] = set()
        self.streams: weakref.WeakSet[Any] = weakref.WeakSet()

    def check(self) -> None:
        if self._pid != os.getpid():
            self._begin()
        if self.closed:
            raise Cancelled("the manager is closed")

    def take(self) -> Optional[_W]:
        """A connection, or None: then add() a new one."""
        self.check()
        while True:
            with self._lock:
                if not self._idle:
                    return None
                wire = self._idle.pop()
                self._busy.add(wire)
            if wire.fresh():
                return wire
            self.give_back(wire, False)

    def add(self, wire: _W) -> None:
        with self._lock:
            self._busy.add(wire)
            closed = self.closed
        if closed:
            self.give_back(wire, False)
            self.check()

    def give_back(self, wire: _W, good: bool) -> None:
        with self._lock:
            self._busy.discard(wire)
            if good and not self.closed:
                self._idle.append(wire)
                return
        wire.close()

    def close(self) -> None:
        """Calls of other threads end; they close their connections."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            self.closed = True
            idle, self._idle, busy = self._idle, [], list(self._busy)
        for wire in idle:
            wire.close()
        for wire in busy:
            wire.interrupt()
