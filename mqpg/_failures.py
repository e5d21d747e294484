"""What consumers of both libraries say about messages that failed, and what they remember of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import psycopg

from mqpg._dialects import is_answer, is_locked
from mqpg._signals import Reject, Retry
from mqpg.errors import (
    ConfigurationError,
    ConnectionFailed,
    HandlerStuck,
    HandlerTimeout,
    InvalidArgument,
    LedgerError,
    LockTimeout,
    MissingBody,
    NotFound,
    OffsetBeyondLog,
    SchemaError,
    SerializationFailure,
    WrongTopicKind,
    by_sqlstate,
    translate,
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
    "is_refusal",
    "reason_of",
]

# What does not go away by trying again.
FATAL = (
    ConfigurationError,
    HandlerStuck,
    InvalidArgument,
    LedgerError,
    MissingBody,
    NotFound,
    OffsetBeyondLog,
    SchemaError,
    WrongTopicKind,
)

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
    """The round's transaction is gone, and known (or searched for) is whose fault it was; it has to be begun anew."""


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


def is_refusal(error: BaseException) -> bool:
    """Whether a database refused to commit what was written (a deferred constraint); else it is gone, or busy."""
    if is_passing(error) or is_locked(error):
        return False
    if isinstance(error, psycopg.Error):
        return not isinstance(translate(error), (ConnectionFailed, LockTimeout))
    return is_answer(error)


class Watchlist:
    """Messages that took their transaction along: the handler did not come back, or the commit was refused.

    They are remembered until they are received again, and then given up without another call.
    """

    def __init__(self) -> None:
        self._known: dict[int, Exception] = {}
        self._suspects: set[int] = set()

    def note(self, error: HandlerTimeout) -> None:
        """These were being handled."""
        self._add(error.message_ids, error)

    def blame(self, messages: Sequence[Message], error: Exception) -> None:
        """These were to be committed."""
        self._add([message.message_id for message in messages], error)

    def _add(self, message_ids: Sequence[int], error: Exception) -> None:
        """One message is to blame; several are tried singly next time."""
        if len(message_ids) == 1:
            self._known[message_ids[0]] = error
        else:
            self._suspects.update(message_ids)

    def take(self, messages: Sequence[Message]) -> list[Failure]:
        """The failures that are known already."""
        return [Failure(m, self._known.pop(m.message_id)) for m in messages if m.message_id in self._known]

    def are_suspect(self, messages: Sequence[Message]) -> bool:
        """Whether these must be tried one by one, each in a transaction of its own."""
        return bool(self._suspects) and any(message.message_id in self._suspects for message in messages)

    def clear(self, messages: Sequence[Message]) -> None:
        """They have been tried."""
        if self._suspects:
            self._suspects.difference_update(message.message_id for message in messages)
