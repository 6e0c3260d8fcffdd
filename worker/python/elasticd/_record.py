# SPDX-License-Identifier: Apache-2.0
"""Tells the agent and the other workers with which exception a program has failed."""

from __future__ import annotations

import functools
import traceback
from typing import Any, Callable, TypeVar

from ._errors import Cancelled
from ._job import get, quietly

_F = TypeVar("_F", bound=Callable[..., Any])


def record(function: _F) -> _F:
    """Decorates a program's main function: an exception that leaves it is written to the worker's error.json
    with its traceback, reported to the group, and raised further.

    SystemExit and KeyboardInterrupt are not recorded, nor is Cancelled when the group is being stopped.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as e:
            quietly(_tell, e)
            raise

    return wrapper  # type: ignore[return-value]


def _tell(error: Exception) -> None:
    job = get()
    if isinstance(error, Cancelled) and job.stopping:
        return
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    quietly(job.write_error, f"{type(error).__name__}: {error}", text)
    quietly(job.report_error, error)
