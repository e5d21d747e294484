"""What consumers of both libraries say about messages that failed, and what they remember of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import psycopg

from mqpg._signals import Reject, Retry
from mqpg.errors import (
    ConfigurationError,
    HandlerStuck,
    HandlerTimeout,
    LedgerError,
    MissingBody,
    NotFound,
    OffsetBeyondLog,
    SchemaError,
    SerializationFailure,
    by_sqlstate,
)
from mqpg.message import Interval, Message

__all__ = [
    "FATAL",
    "Answer",
    "Failure",
    "InboxFailed",
    "KnownReason",
    "RoundLost",
    "Watchlist",
    "answers",
    "is_passing",
    "reason_of",
]

# What does not go away by trying again.
FATAL = (ConfigurationError, HandlerStuck, LedgerError, MissingBody, NotFound, OffsetBeyondLog, SchemaError)

_LONGEST_REASON = 1000


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


class RoundLost(Exception):
    """The round's transaction is gone, with a handler that did not come back; it has to be begun anew."""


class InboxFailed(Exception):
    """The inbox of a relay topic cannot be written: no fault of the message, and nothing behind it may go on."""


class Answer(NamedTuple):
    """What the broker is told about failed messages."""

    reason: str
    delay: Interval | None
    final: bool


def answers(failures: Sequence[Failure]) -> dict[Answer, list[int]]:
    """Message ids by answer: one call for each."""
    found: dict[Answer, list[int]] = {}
    for failure in failures:
        error = failure.error
        delay = error.delay if isinstance(error, Retry) else None
        answer = Answer(failure.reason, delay, isinstance(error, Reject))
        found.setdefault(answer, []).append(failure.message.message_id)
    return found


def reason_of(error: BaseException) -> str:
    """One line for the retry lane and the dead letters."""
    own_words = isinstance(error, (KnownReason, Reject, Retry))
    text = str(error) if own_words else f"{type(error).__name__}: {error}"
    # JSON may name half a surrogate pair, which is no character to a database.
    text = text.encode("utf-8", "backslashreplace").decode()
    return " ".join(text.split()).replace("\x00", "")[:_LONGEST_REASON]


def is_passing(error: BaseException) -> bool:
    """Whether an error says "lost a race", which is nobody's fault: the message must not pay an attempt."""
    if isinstance(error, InboxFailed):
        return True
    origin = getattr(error, "orig", None) or error
    if isinstance(origin, psycopg.Error):
        return origin.sqlstate is not None and by_sqlstate(origin.sqlstate) is SerializationFailure
    return isinstance(origin, SerializationFailure) or "database is locked" in str(origin)


class Watchlist:
    """Messages whose handler did not come back, so that the transaction which said so is lost.

    They are remembered until they are received again, and then given up without another call.
    """

    def __init__(self) -> None:
        self._overdue: dict[int, HandlerTimeout] = {}
        self._suspects: set[int] = set()

    def note(self, error: HandlerTimeout) -> None:
        """One message is to blame; several of one batch are tried singly next time."""
        if len(error.message_ids) == 1:
            self._overdue[error.message_ids[0]] = error
        else:
            self._suspects.update(error.message_ids)

    def take(self, messages: Sequence[Message]) -> list[Failure]:
        """The failures that are known already."""
        return [Failure(m, self._overdue.pop(m.message_id)) for m in messages if m.message_id in self._overdue]

    def are_suspect(self, messages: Sequence[Message]) -> bool:
        """Whether these must be tried one by one."""
        return any(message.message_id in self._suspects for message in messages)

    def clear(self, messages: Sequence[Message]) -> None:
        """They have been tried."""
        self._suspects.difference_update(message.message_id for message in messages)
