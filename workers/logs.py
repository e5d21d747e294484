"""Log lines of worker processes on stderr.

A line is `time level role message key=value …`, or a JSON object.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from mqpg.values.errors import ConfigurationError
from mqpg.values.words import printable, printable_lines

__all__ = ["LogFormat", "configure"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


def configure(role: str, level: str = "info", form: LogFormat = LogFormat.TEXT) -> None:
    """Send the log records of this process to stderr. Each line names the role."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ConfigurationError(f"--log-level must be debug, info, warning or error, not {level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(role) if form is LogFormat.JSON else _Text(role))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)


class _Fields(logging.Formatter):
    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        return {key: value for key, value in vars(record).items() if key not in _STANDARD}

    def time(self, record: logging.LogRecord) -> str:
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class _Text(_Fields):
    def format(self, record: logging.LogRecord) -> str:
        parts = [self.time(record), record.levelname.lower(), self._role, " ".join(record.getMessage().split())]
        parts += [f"{key}={_plain(value)}" for key, value in self.fields(record).items()]
        # What others have sent is in errors, and a terminal must not take it for a command.
        trace = self.trace(record)
        return printable(" ".join(parts)) + (f"\n{printable_lines(trace)}" if trace else "")


class _Json(_Fields):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.time(record),
            "level": record.levelname.lower(),
            "role": self._role,
            "message": record.getMessage(),
            **self.fields(record),
        }
        if trace := self.trace(record):
            line["traceback"] = trace
        return json.dumps(line, default=str)


def _plain(value: object) -> str:
    """Format a value on one line. It is quoted only if it has blanks, quotes or equals signs."""
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c in '"=' for c in text) else text
