# SPDX-License-Identifier: Apache-2.0
"""The work queue, for coordinators, which submit tasks and fetch their values."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import time
from array import array
from collections import deque
from ctypes import byref, c_bool, c_char_p, c_int64, c_size_t, c_void_p, string_at
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Union

from ._core import DEFAULT_TIMEOUT, Core, Deadline, seconds_argument
from ._errors import (
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    InvalidArgument,
    QueueFailed,
    Unavailable,
    error_of,
    of_kind,
)
from ._handle import Handle
from ._library import (
    SIZES,
    Owned,
    names_argument,
    names_array,
    number_argument,
    process,
    text_argument,
    text_of,
    uninterrupted,
)
from ._queue_types import ANY, NEW_TASK, OUTCOME, SUCCEEDED, CStats
from ._values import JSON, TEXT, Encoded, decode, encode, filled, held_in

_BATCH = 1024  # the most tasks that are submitted in one call
_BATCH_BYTES = 1 << 20
_BATCH_SECONDS = 0.01  # how long the first task of a batch waits for others
_LOOK = 256  # tasks in a wait for the first of them
_FETCH = 4096  # tasks in a wait for all of them
_PIECE = 16  # payloads that are encoded between two looks at the clock
_RELEASE = 256  # tasks that are released in one call, unless there is a reason to do it earlier
_TURN = 0.1  # seconds that a wait for some tasks may take before others are looked at

_WORDS = NEW_TASK.size // 8 if ctypes.sizeof(c_void_p) == 8 else 0

_formats = {form: ctypes.create_string_buffer(form) for form in (JSON, TEXT)}
_ADDRESS: dict[Optional[bytes], int] = {None: 0}
_ADDRESS.update((form, ctypes.addressof(text)) for form, text in _formats.items())


class QueueStats(NamedTuple):
    """Numbers of one queue: tasks by their state; how often a task was put back; bytes of payloads and
    values; calls of submit() that wait for room; workers, and how many of their slots wait for a task."""

    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    put_back: int
    bytes: int
    waiting: int
    workers: int
    free: int
    closed: bool


class Queue:
    """A queue of tasks, which the workers of the job do: see Job.queue() and connect_queue().

    submit() and map() return handles; fetch() waits for their values. Payloads and values are bytes, which
    stay as they are, str, or anything that JSON can express (so a tuple comes back as a list, and keys of a
    dict are str). When a worker dies another one does its task, which may so be begun twice.

    The first task that fails, unless it was submitted alone, is the error of the queue: the other tasks are
    cancelled. The next submit(), join() or done() waits until none of them runs any more, and raises the
    error (QueueFailed); the queue is usable again after that.

    Threads and children of fork() may share a queue. Tasks whose handles are gone are released by later
    calls, many at once. As a context manager it closes the queue.

    timeout is in seconds; None means no limit. It is 600 where it is left out.
    """

    def __init__(self, core: Core, name: Optional[str] = None, owns_core: bool = False) -> None:
        self._core, self._library, self._owns_core = core, core.library, owns_core
        text = None if name is None else text_argument(name, "queue")
        handle, opened = core.handle(), c_void_p()
        function = core.library.queue_open
        core.library.check(uninterrupted(lambda: function(handle, text, byref(opened))))
        self._queue: Optional[Owned] = Owned.of(opened, core.library.queue_close, handle)
        self._private = name is None
        self.name: str = text_of(core.library.queue_name(opened))
        self._renew()

    def _renew(self) -> None:
        self._process = process[0]
        self._dropped: deque[int] = deque()
        self._drop = self._dropped.append

    def _open(self) -> Owned:
        if self._process != process[0]:  # a child of fork(): earlier handles are its parent's
            self._renew()
        queue = self._queue
        if queue is None:
            raise Cancelled("the queue was closed")
        return queue

    # Submitting.

    def submit(self, payload: Any = None, *, resources: Iterable[str] = (), limit: Optional[float] = None,
               alone: bool = False, timeout: Optional[float] = DEFAULT_TIMEOUT) -> Handle:
        """Submits a task. Waits while the queue is full, and while another caller is in join();
        ResourceExhausted after timeout seconds. resources: names of resources that the worker must have
        built. limit: the seconds that one try may take. alone: a failure is the task's own, and not the
        queue's."""
        return self._submit([encode(payload)], _kind(resources, limit, alone), Deadline(timeout))[0]

    def map(self, payloads: Iterable[Any], *, resources: Iterable[str] = (), limit: Optional[float] = None,
            alone: bool = False, timeout: Optional[float] = DEFAULT_TIMEOUT) -> list[Handle]:
        """Submits a task for each payload, in their order, many at once. It reads payloads only as fast as
        the queue has room; timeout is for each wait for room. Where it fails, the error's attribute handles
        has those that were submitted before."""
        kind = _kind(resources, limit, alone)
        Deadline(timeout)  # refuses nonsense at once
        handles: list[Handle] = []
        try:
            for batch in _batches(_iterable(payloads)):
                while batch:
                    some = self._submit(batch, kind, Deadline(timeout))
                    handles += some
                    batch = batch[len(some):]
        except Error as e:
            e.handles = handles + getattr(e, "handles", [])  # type: ignore[attr-defined]
            raise
        return handles

    def imap(self, payloads: Iterable[Any], *, ordered: bool = True, ahead: int = 4096,
             resources: Iterable[str] = (), limit: Optional[float] = None, alone: bool = False,
             timeout: Optional[float] = DEFAULT_TIMEOUT) -> Iterator[Any]:
        """The values for payloads, which may be more than fit into memory: at most `ahead` tasks at once are
        submitted and not yet fetched. ordered: in the order of payloads, else as they come. timeout is for
        each value."""
        ahead = number_argument(ahead, "ahead")
        if ahead < 1:
            raise InvalidArgument(f"ahead: expected at least 1, got {ahead}")
        return self._imap(iter(_iterable(payloads)), ordered, ahead, _kind(resources, limit, alone), timeout)

    def _imap(self, payloads: Iterator[Any], ordered: bool, ahead: int, kind: _Kind,
              timeout: Optional[float]) -> Iterator[Any]:
        waiting: deque[Handle] = deque()
        more = True
        while more or waiting:
            deadline = Deadline(timeout)
            if more and len(waiting) <= ahead // 2:
                want = ahead - len(waiting)
                batch = next(_batches(itertools.islice(payloads, want), want), None)
                more = batch is not None
                while batch:
                    some = self._submit(batch, kind, deadline)
                    waiting += some
                    batch = batch[len(some):]
                if more and len(waiting) < ahead // 2:
                    continue
            if not waiting:
                break
            if not waiting[0]._known:
                self._await_any([h for h in itertools.islice(waiting, _LOOK) if not h._known], deadline)
            if not ordered:
                over = [h for h in waiting if h._known]
                waiting = deque(h for h in waiting if not h._known)
                for handle in over:
                    yield handle._outcome()
                continue
            while waiting and waiting[0]._known:
                yield waiting.popleft()._outcome()

    def _submit(self, batch: list[Encoded], kind: _Kind, deadline: Deadline) -> list[Handle]:
        """Submits the first tasks of batch, at least one."""
        queue, library, n = self._open(), self._library, len(batch)
        if len(self._dropped) >= _RELEASE:
            self._flush()
        data = batch[0][0] if n == 1 else b"".join([raw for raw, _ in batch])
        address: int = c_void_p.from_buffer(c_char_p(data)).value or 0
        tasks = kind.tasks(batch, address)
        size = SIZES[n] if n < 256 else c_size_t(n)
        try:
            out = _free_outs.pop()
        except IndexError:
            out = _Out()
        submit, to_numbers, to_count = library.submit_plain, out.to_numbers, out.to_count
        status = self._core.status(lambda ms: submit(queue, tasks, size, ms, to_numbers, to_count), deadline)
        drop = self._drop
        handles = [Handle(self, number, drop) for number in out.numbers[:out.count.value]]
        _free_outs.append(out)
        if status:
            try:
                self._fail(status)
            except Error as e:
                e.handles = handles  # type: ignore[attr-defined]
                raise
        return handles

    # Fetching.

    def fetch(self, structure: Any, timeout: Optional[float] = DEFAULT_TIMEOUT) -> Any:
        """Waits for all handles in a structure of dicts, lists, tuples, named tuples and dataclasses, nested
        in any way. Returns the same structure with values in place of handles; anything else in it stays."""
        handles: list[Handle] = []
        held_in(structure, handles)
        self._await(handles, Deadline(timeout))
        return filled(structure, Handle._outcome)

    def over(self, handles: Iterable[Handle], timeout: Optional[float] = DEFAULT_TIMEOUT) -> list[Handle]:
        """The handles whose tasks are over. Waits until there is one, at most timeout seconds; then the list
        is empty."""
        waiting = list(handles)
        if waiting and not any(h._known for h in waiting):
            with contextlib.suppress(DeadlineExceeded):
                self._turn(waiting, Deadline(timeout))
        return [h for h in waiting if h._known]

    def as_completed(self, handles: Iterable[Handle], timeout: Optional[float] = DEFAULT_TIMEOUT
                     ) -> Iterator[Handle]:
        """The handles, each once, in the order in which their tasks end. timeout is for each wait."""
        Deadline(timeout)  # refuses nonsense at once
        return self._as_completed(list(dict.fromkeys(handles)), timeout)

    def _as_completed(self, waiting: list[Handle], timeout: Optional[float]) -> Iterator[Handle]:
        while waiting:
            if not any(h._known for h in waiting[:_LOOK]):
                waiting = self._turn(waiting, Deadline(timeout))
            first, rest = waiting[:_LOOK], waiting[_LOOK:]
            waiting = [h for h in first if not h._known] + rest
            yield from [h for h in first if h._known]

    def _turn(self, waiting: list[Handle], deadline: Deadline) -> list[Handle]:
        """Waits until at least one of the first _LOOK handles is over; returns the handles in another order.
        Mostly the oldest tasks end first, but now and then this looks at the others, too."""
        while True:
            if len(waiting) <= _LOOK:
                self._await_any(waiting, deadline)
                return waiting
            left = deadline.left_ms()
            short = Deadline(_TURN if left < 0 else min(_TURN, left / 1000))
            for begin in range(0, len(waiting), _LOOK):
                some = waiting[begin:begin + _LOOK]
                if self._any_over(some, short if begin == 0 else Deadline(0)):
                    return some + waiting[:begin] + waiting[begin + _LOOK:]
            if 0 <= left <= _TURN * 1000:
                raise DeadlineExceeded(f"none of {len(waiting)} tasks is over")

    def _any_over(self, handles: list[Handle], deadline: Deadline) -> bool:
        """Waits; returns whether one of them is over."""
        try:
            self._await_any(handles, deadline)
        except DeadlineExceeded:
            return False
        return True

    def _await(self, handles: list[Handle], deadline: Deadline) -> None:
        """Waits until all are over."""
        waiting = [h for h in handles if not h._known]
        for begin in range(0, len(waiting), _FETCH):
            some = waiting[begin:begin + _FETCH]
            for queue, mine in _by_queue(some):
                queue._fetch(mine, 0, deadline)

    def _await_any(self, handles: list[Handle], deadline: Deadline) -> None:
        """Waits until one of them is over. All must belong to this queue's job."""
        self._fetch(handles, ANY, deadline)

    def _fetch(self, handles: list[Handle], flags: int, deadline: Deadline) -> None:
        queue, library = self._open(), self._library
        if len(self._dropped) >= _RELEASE:
            self._flush()
        by_number = {h.task: h for h in handles}
        n = len(by_number)
        numbers, size = array("q", by_number).tobytes(), SIZES[n] if n < 256 else c_size_t(n)
        try:
            out = _free_outs.pop()
        except IndexError:
            out = _Out()
        function, to_outcomes, to_count = library.fetch_plain, out.to_outcomes, out.to_count
        status = self._core.status(
            lambda ms: function(queue, numbers, size, flags, ms, to_outcomes, to_count), deadline, True)
        if status:
            if self.closed:
                raise Cancelled("the queue was closed")
            self._core.fail(status)
        try:
            self._learn(by_number, out)
        finally:
            library.outcomes_free_plain(out.outcomes, out.count)
        _free_outs.append(out)
        if n < len(handles):
            for h in handles:  # a task may have several handles
                same = by_number[h.task]
                h._value, h._failed, h._known = same._value, same._failed, same._known

    def _learn(self, handles: dict[int, Handle], out: _Out) -> None:
        """Gives the handles their outcomes."""
        outcomes, bytes_from = out.outcomes, self._library.bytes_from
        records = string_at(outcomes, OUTCOME.size * out.count.value)
        for record in OUTCOME.iter_unpack(records):
            number, state, value, length, form = record[:5]
            handle = handles[number]
            if state == SUCCEEDED:
                try:
                    handle._value = decode(bytes_from(value, length) if value else b"", string_at(form))
                except ValueError as e:
                    error = DataLoss(f"the value of task {number} does not fit its format: {e}")
                    handle._value, handle._failed = error, True
            else:
                handle._value, handle._failed = _error_of(*record), True
            handle._known = True
            drop, handle._drop = handle._drop, None
            if drop is not None:
                drop(number)

    def join(self, timeout: Optional[float] = DEFAULT_TIMEOUT) -> None:
        """Waits until no task of the queue is queued or runs. Meanwhile submit() of other callers waits,
        unless they do a task themselves. FailedPrecondition: this thread does a task of the queue, and
        timeout is None: it would wait for itself. The same holds for done(), cancel() and the task's own
        handle."""
        queue, join = self._open(), self._library.queue_join
        self._flush()
        status = self._core.status(lambda ms: join(queue, ms), timeout, True)
        if status:
            self._fail(status)

    def done(self) -> bool:
        """Whether no task of the queue is queued or runs. After a task has failed it waits until no cancelled
        task runs, for at most queue.cancel_grace, and raises that error."""
        queue, function, done = self._open(), self._library.queue_done, c_bool()
        status = self._core.status(lambda _: function(queue, byref(done)), None)
        if status:
            self._fail(status)
        return done.value

    def cancel(self, handles: Optional[Iterable[Union[Handle, int]]] = None, reason: str = "",
               timeout: Optional[float] = DEFAULT_TIMEOUT) -> int:
        """Cancels these tasks, or (None) all tasks of the queue, and waits until none of them runs; none will
        after that. Returns how many were cancelled."""
        queue, function, count = self._open(), self._library.queue_cancel, c_size_t()
        numbers = None if handles is None else array("q", [_number(h) for h in handles])
        if numbers is not None and not numbers:
            return 0
        pointer = None if numbers is None else (c_int64 * len(numbers)).from_buffer(numbers)
        n, text = len(numbers or ()), text_argument(reason, "reason")
        status = self._core.status(lambda ms: function(queue, pointer, n, text, ms, byref(count)), timeout,
                                   True)
        if status:
            self._core.fail(status)
        return count.value

    def handle(self, task: int) -> Handle:
        """A handle of the task with that number, for example another coordinator's. The agent keeps the
        task's outcome when the handle is gone."""
        return Handle(self, int(task), None)

    def release(self, handles: Iterable[Union[Handle, int]]) -> None:
        """Forgets these tasks and their outcomes, each as soon as the task is over."""
        self._open()
        numbers = []
        for h in handles:
            numbers.append(_number(h))
            if isinstance(h, Handle):
                h._drop = None
        self._release(numbers)

    def stats(self) -> QueueStats:
        queue, handle, said = self._open(), self._core.handle(), CStats()
        function = self._library.queue_stats
        status = self._core.status(lambda _: function(handle, queue, byref(said)), None)
        if status:
            self._core.fail(status)
        return QueueStats._make([*[getattr(said, name) for name in QueueStats._fields[:-1]],
                                 bool(said.closed)])

    # Closing.

    def _flush(self) -> None:
        """Releases the tasks whose handles are gone."""
        dropped, numbers = self._dropped, []
        try:
            while True:
                numbers.append(dropped.popleft())
        except IndexError:
            pass
        try:
            self._release(numbers)
        except Unavailable:  # elasticd may come back
            dropped.extend(numbers)
        except Error:  # the next call that needs the queue has the same error
            pass
        except BaseException:  # of a signal's handler
            dropped.extend(numbers)
            raise

    def _release(self, numbers: list[int]) -> None:
        if not numbers:
            return
        queue, function, n = self._open(), self._library.queue_release, len(numbers)
        pointer = (c_int64 * n)(*numbers)
        self._core.wait(lambda _: function(queue, pointer, n), None)

    @property
    def closed(self) -> bool:
        return self._queue is None or self._core.closed

    def close(self) -> None:
        """Closes the queue. Everything in a queue without a name is cancelled and forgotten; a queue with a
        name goes on."""
        if self._queue is None:
            return
        if self._process == process[0] and not self._core.closed:
            try:
                if self._private:
                    self.cancel(reason="the queue was closed", timeout=0)
                else:
                    self._flush()
            except Error:
                pass
        self._queue = None
        if self._owns_core:
            self._core.close()

    def _fail(self, status: int) -> None:
        library = self._library
        task = library.queue_error_task()
        if task < 0:
            if self.closed:
                raise Cancelled("the queue was closed")
            self._core.fail(status)
        code = library.queue_error_exit_code()
        error = of_kind(QueueFailed, status, text_of(library.error_text()))
        error.task, error.worker = task or None, text_of(library.queue_error_worker()) or None
        error.details, error.exit_code = text_of(library.queue_error_details()), None if code < 0 else code
        raise error

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<elasticd.Queue {self.name!r}{', closed' if self.closed else ''}>"


class _Out:
    """Memory for the results of a call, and references to it for the library."""

    def __init__(self) -> None:
        self.numbers, self.count, self.outcomes = (c_int64 * _BATCH)(), c_size_t(), c_void_p()
        self.to_numbers, self.to_count = byref(self.numbers), byref(self.count)
        self.to_outcomes = byref(self.outcomes)


_free_outs: list[_Out] = []


class _Kind:
    """The options that the tasks of one call have in common."""

    def __init__(self, resources: Iterable[str], limit: Optional[float], alone: bool) -> None:
        self._names, n = names_array(names_argument(resources, "resources") or None, "resources")
        names = ctypes.addressof(self._names) if n else 0
        if limit is not None and not 0 < seconds_argument(limit, "limit", "seconds > 0") < float("inf"):
            raise InvalidArgument(f"limit: expected seconds > 0, got {limit}")
        limit_ms = 0 if limit is None else number_argument(max(int(limit * 1000), 1), "limit in ms")
        self._rest = (names, n, limit_ms, bool(alone))

    def tasks(self, batch: list[Encoded], address: int) -> bytes:
        """The tasks as the library takes them; their payloads stand one after the other at address."""
        if len(batch) == 1 or not _WORDS:
            records = []
            for raw, form in batch:
                length = len(raw)
                records.append(NEW_TASK.pack(address, length, _ADDRESS[form], *self._rest))
                address += length
            return b"".join(records)
        # All tasks at once: a word of each at a time.
        lengths = array("Q", [len(raw) for raw, _ in batch])
        words = array("Q", NEW_TASK.pack(0, 0, 0, *self._rest)) * len(batch)
        words[0::_WORDS] = array("Q", itertools.accumulate(lengths[:-1], initial=address))
        words[1::_WORDS] = lengths
        words[2::_WORDS] = array("Q", [_ADDRESS[form] for _, form in batch])
        return words.tobytes()


_PLAIN = _Kind((), None, False)


def _kind(resources: Iterable[str], limit: Optional[float], alone: bool) -> _Kind:
    return _PLAIN if resources == () and limit is None and not alone else _Kind(resources, limit, alone)


def _iterable(payloads: Iterable[Any]) -> Iterable[Any]:
    if type(payloads) is list or type(payloads) is tuple:
        return payloads
    if not hasattr(payloads, "__iter__") and not hasattr(payloads, "__getitem__"):
        raise TypeError(f"payloads: expected something to iterate over, got {payloads!r:.60}")
    return iter(payloads)


def _batches(payloads: Iterable[Any], most: int = _BATCH) -> Iterator[list[Encoded]]:
    """Encodes payloads; a batch has as many as come quickly."""
    batch: list[Encoded] = []
    most, size, since = min(most, _BATCH), 0, time.monotonic()
    if type(payloads) is list or type(payloads) is tuple:  # these come at once
        pieces: Iterable[Any] = (payloads[at:at + _PIECE] for at in range(0, len(payloads), _PIECE))
    else:
        pieces = zip(payloads)
    for piece in pieces:
        encoded = [(payload, None) if type(payload) is bytes else encode(payload) for payload in piece]
        batch += encoded
        size += len(encoded[0][0]) if len(encoded) == 1 else sum([len(raw) for raw, _ in encoded])
        if len(batch) >= most or size >= _BATCH_BYTES or time.monotonic() - since > _BATCH_SECONDS:
            yield batch
            batch, size, since = [], 0, time.monotonic()
    if batch:
        yield batch


def _by_queue(handles: list[Handle]) -> Iterable[tuple[Queue, list[Handle]]]:
    first = handles[0]._queue
    if all(h._queue is first for h in handles):
        return [(first, handles)]
    found: dict[int, tuple[Queue, list[Handle]]] = {}
    for h in handles:
        found.setdefault(id(h._queue), (h._queue, []))[1].append(h)
    return found.values()


def _number(handle: Union[Handle, int]) -> int:
    return handle.task if isinstance(handle, Handle) else number_argument(handle, "task")


def _error_of(number: int, _state: int, _value: int, _length: int, _format: int, code: int, message: int,
              details: int, worker: int, _tries: int) -> Error:
    """The error of a task that has failed, or was cancelled."""
    error = error_of(code or int(Cancelled.code), text_of(string_at(message)))
    error.task, error.worker = number, text_of(string_at(worker)) or None
    error.details = text_of(string_at(details))
    return error
