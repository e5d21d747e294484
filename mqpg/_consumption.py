"""What consumers of both libraries share: their options, and what is said about a failed message."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from mqpg.errors import (
    ConfigurationError,
    LedgerError,
    MissingBody,
    NotFound,
    OffsetBeyondLog,
    SchemaError,
    SerializationFailure,
    by_sqlstate,
)
from mqpg.message import Interval, Message

__all__ = ["FATAL", "Failure", "KnownReason", "Options", "by_reason", "is_passing", "reason_of"]

# What does not go away by trying again.
FATAL = (ConfigurationError, LedgerError, MissingBody, NotFound, OffsetBeyondLog, SchemaError)

_LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """What a consumer reads and how; see mqpg.consumer."""

    topic: str
    group: str
    database: Any = None
    mode: str | None = None
    batch: bool = False
    max_messages: int = 100
    lease: Interval = 30.0
    consumer: str | None = None
    queues: Sequence[int] | None = None
    journal: bool = False
    start: str = "earliest"
    max_attempts: int = 16
    retry_delay: Interval = 10.0

    def __post_init__(self) -> None:
        if self.database is not None and self.mode not in (None, "pinned"):
            raise ConfigurationError(f"a consumer with a database of its own has mode 'pinned', not {self.mode!r}")
        if self.mode not in (None, "exclusive", "pinned"):
            raise ConfigurationError(f"mode must be 'exclusive' or 'pinned', not {self.mode!r}")

    @property
    def wanted_mode(self) -> str:
        return self.mode or ("exclusive" if self.database is None else "pinned")

    @property
    def name(self) -> str:
        """The member's name: given, else MQPG_CONSUMER, else the host's. Queues stay with it (mode pinned)."""
        name = self.consumer or os.environ.get("MQPG_CONSUMER") or socket.gethostname()
        return name if self.consumer else re.sub(r"[^A-Za-z0-9_.-]|^[^A-Za-z0-9]", "-", name)[:127]


@dataclass(frozen=True, slots=True)
class Failure:
    """A message whose effect was undone."""

    message: Message
    error: Exception

    @property
    def reason(self) -> str:
        return reason_of(self.error)


class KnownReason(Exception):
    """Stands for a failure whose reason is written down already."""


def by_reason(failures: Sequence[Failure]) -> dict[str, list[int]]:
    """Message ids by reason: one nack for each."""
    found: dict[str, list[int]] = {}
    for failure in failures:
        found.setdefault(failure.reason, []).append(failure.message.message_id)
    return found


def reason_of(error: Exception) -> str:
    """One line for the retry lane and the dead letters."""
    text = str(error) if isinstance(error, KnownReason) else " ".join(f"{type(error).__name__}: {error}".split())
    return text.replace("\x00", "")[:_LONGEST_REASON]


def is_passing(error: BaseException) -> bool:
    """Whether an error says "lost a race", which is nobody's fault: the message must not pay an attempt."""
    origin = getattr(error, "orig", None) or error
    if isinstance(origin, psycopg.Error):
        return origin.sqlstate is not None and by_sqlstate(origin.sqlstate) is SerializationFailure
    return isinstance(origin, SerializationFailure) or "database is locked" in str(origin)
