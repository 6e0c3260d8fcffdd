# SPDX-License-Identifier: Apache-2.0
"""concurrent.futures over a work queue, for jobs whose workers are all in Python."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pickle
import threading
import traceback
from typing import Any, Callable, Iterable, Iterator, Optional

from ._errors import Error
from ._handle import Handle
from ._queue import Queue
from ._task import Task

_Future = concurrent.futures.Future
_LOOK_SECONDS = 0.02  # then it looks for futures that came meanwhile


class RemoteTraceback(Exception):
    """The traceback of the worker: the cause of the exception that is raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def execute(task: Task) -> bytes:
    """The handler of an Executor's workers: job.work(elasticd.execute). It runs any function that the task
    names, so only coordinators that may do that should reach its queue."""
    function, arguments, names = pickle.loads(task.raw)
    try:
        return pickle.dumps((function(*arguments, **names), None, ""))
    except Exception as e:
        text = traceback.format_exc()
        try:
            return pickle.dumps((None, e, text))
        except Exception:  # an exception that cannot be pickled
            return pickle.dumps((None, RuntimeError(f"{type(e).__name__}: {e}"), text))


class Executor(concurrent.futures.Executor):
    """Runs functions in the workers of a queue, whose programs call job.work(elasticd.execute).

    Functions are pickled by reference, so the workers must be able to import them. A future raises what its
    function raised. When a worker dies, another one runs its function again; where the queue itself is lost,
    the future has elasticd's error. options are those of Queue.submit(). It does not close the queue. Time
    limits are those of concurrent.futures: None, which is the default, means no limit.
    """

    def __init__(self, queue: Queue, **options: Any) -> None:
        self._queue, self._options = queue, {"alone": True, **options}
        self._futures: dict[Handle, _Future[Any]] = {}
        self._more = threading.Condition()
        self._shut = False
        self._thread: Optional[threading.Thread] = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _Future[Any]:
        self._check()
        handle = self._queue.submit(pickle.dumps((fn, args, kwargs)), **self._options)
        return self._future_of(handle)

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: Optional[float] = None,
            chunksize: int = 1) -> Iterator[Any]:
        """As in concurrent.futures. timeout: seconds for each wait for values. chunksize is ignored."""
        self._check()
        calls = (pickle.dumps((fn, arguments, {})) for arguments in zip(*iterables))
        handles = self._queue.map(calls, **self._options)
        return self._results(handles, timeout)

    def _results(self, handles: list[Handle], timeout: Optional[float]) -> Iterator[Any]:
        handles.reverse()
        some: list[Handle] = []
        try:
            while handles or some:
                if not some:
                    some, handles[-256:] = handles[-256:], []
                    self._queue.fetch(some, timeout)
                yield _result(some.pop())
        finally:
            if handles or some:
                with contextlib.suppress(Error):
                    self._queue.cancel(handles + some, timeout=0)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuses further calls. cancel_futures: cancels all that are not done."""
        with self._more:
            self._shut = True
            futures, thread = list(self._futures.values()), self._thread
            self._more.notify_all()
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait and thread is not None:
            thread.join()

    def _check(self) -> None:
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _future_of(self, handle: Handle) -> _Future[Any]:
        future: _Future[Any] = _Future()
        future.add_done_callback(lambda f: self._ended(f, handle))
        with self._more:
            self._futures[handle] = future
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="elasticd-executor", daemon=True)
                self._thread.start()
            self._more.notify_all()
        return future

    def _ended(self, future: _Future[Any], handle: Handle) -> None:
        if future.cancelled():
            with contextlib.suppress(Error):
                handle.cancel(timeout=0)

    def _watch(self) -> None:
        """The thread that sets the results of futures."""
        while True:
            with self._more:
                while not self._futures:
                    if self._shut:
                        return
                    self._more.wait()
                handles = list(self._futures)
            try:
                over = self._queue.over(handles, _LOOK_SECONDS)
            except Error as e:  # the queue is closed, or its agent gone
                self._all_failed(e)
                continue
            for handle in over:
                with self._more:
                    future = self._futures.pop(handle)
                _set_result(future, handle)

    def _all_failed(self, error: Error) -> None:
        with self._more:
            futures, self._futures = list(self._futures.values()), {}
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)


def _set_result(future: _Future[Any], handle: Handle) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = _result(handle)
    except Exception as e:
        future.set_exception(e)
    else:
        future.set_result(value)


def _result(handle: Handle) -> Any:
    """Returns what the function returned, or raises what it raised."""
    value, error, text = pickle.loads(handle.fetch())
    if error is not None:
        error.__cause__ = RemoteTraceback(text)
        raise error
    return value
