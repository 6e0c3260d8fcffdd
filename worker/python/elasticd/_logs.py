# SPDX-License-Identifier: Apache-2.0
"""Python's logging, into the worker's log.jsonl."""

from __future__ import annotations

import logging
from typing import Any, Optional

from ._job import Job, get

_ORDINARY = set(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}


class LogHandler(logging.Handler):
    """logging.getLogger().addHandler(elasticd.LogHandler()): writes a line of JSON for each record, with the
    name of its logger, the file and line, its exception, and the members of extra."""

    def __init__(self, job: Optional[Job] = None, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._job = job

    def emit(self, record: logging.LogRecord) -> None:
        try:
            job = self._job or get()
            job.log(record.levelname, record.getMessage(), **self._fields(record))
        except Exception:
            self.handleError(record)

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields = {k: v for k, v in vars(record).items() if k not in _ORDINARY and k not in _TAKEN}
        fields.update(logger=record.name, file=record.pathname, line=record.lineno)
        if record.exc_info:
            fields["exception"] = (self.formatter or logging.Formatter()).formatException(record.exc_info)
        return fields


_TAKEN = {"self", "level", "message", "time_us", "rank", "attempt"}
