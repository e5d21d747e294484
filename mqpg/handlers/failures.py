"""Messages that failed: why, how they are nacked, and which ones are tried alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple

import psycopg

from mqpg.handlers.outcomes import Reject, Retry
from mqpg.user_tables.drivers import is_answer, is_full, is_locked, message_of
from mqpg.values.errors import (
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
)
from mqpg.values.messages import Interval, Message
from mqpg.values.translation import attribute_of, by_sqlstate, translate

__all__ = [
    "PERMANENT_ERRORS",
    "Failure",
    "InboxFailed",
    "IterationLost",
    "Nack",
    "RecordedFailure",
    "TransactionEnded",
    "Watchlist",
    "decisive",
    "ends_process",
    "handler_traceback",
    "is_commit_refusal",
    "is_transient",
    "nacks",
    "reason_of",
]

# Errors that another attempt cannot avoid. They end a consumer.
PERMANENT_ERRORS = (
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
# Packages whose frames stand between the consumer's loop and the handler.
_CALLERS = {"mqpg", "asyncio", "concurrent", "threading", "contextlib"}
_COMMAND = "workers.consume"


@dataclass(frozen=True, slots=True)
class Failure:
    """A message whose effect was undone."""

    message: Message
    error: BaseException

    @property
    def reason(self) -> str:
        """One line that says why."""
        return reason_of(self.error)


class RecordedFailure(Exception):
    """A failure that was logged and recorded before."""


class IterationLost(Exception):
    """The iteration's transaction is gone and has to be tried again."""


class TransactionEnded(Exception):
    """A handler that got `messages` has ended the transaction that it was given.

    `before` are the messages whose effects were in the transaction by then, `failures` those that had failed in it.
    """

    def __init__(
        self, messages: Sequence[Message], xid: str | None, before: list[Message], failures: list[Failure]
    ) -> None:
        super().__init__("the handler ended the transaction that it was given")
        self.messages, self.xid, self.before, self.failures = messages, xid, before, failures


class InboxFailed(Exception):
    """The inbox of a relay topic cannot be written.

    That is no fault of the message, and nothing may overtake it.
    """


class Nack(NamedTuple):
    """The arguments of `nack` for failed messages."""

    reason: str
    delay: Interval | None
    final: bool


def nacks(failures: Sequence[Failure]) -> dict[Nack, list[int]]:
    """The ids of failed messages, grouped into one call of `nack` each."""
    found: dict[Nack, list[int]] = {}
    for failure in failures:
        error = failure.error
        nack = Nack(failure.reason, _delay_of(error), isinstance(error, Reject))
        found.setdefault(nack, []).append(failure.message.message_id)
    return found


def _delay_of(error: BaseException) -> Interval | None:
    """The delay that a handler asks for. What is no time span becomes text, which the broker refuses by name."""
    delay = attribute_of(error, "delay") if isinstance(error, Retry) else None
    return delay if delay is None or isinstance(delay, (timedelta, float, int, str)) else message_of(delay)


def reason_of(error: BaseException) -> str:
    """One line for the retry lane and the dead letters."""
    own_words = isinstance(error, (RecordedFailure, Reject, Retry))
    text = message_of(error) if own_words else f"{type(error).__name__}: {message_of(error)}"
    # JSON may hold half a surrogate pair, which no database accepts as a character.
    text = text.encode("utf-8", "backslashreplace").decode()
    return " ".join(text.split()).replace("\x00", "")[:_LONGEST_REASON]


def decisive(error: BaseException) -> BaseException:
    """What counts of an error: in a group, as a TaskGroup raises it, its Reject or Retry, or the only one in it."""
    errors = list(_errors_in(error))
    asked = [one for kind in (Reject, Retry) for one in errors if isinstance(one, kind)]
    return asked[0] if asked else errors[0] if len(errors) == 1 else error


def _errors_in(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _errors_in(one)
    else:
        yield error


def ends_process(error: BaseException) -> bool:
    """Whether it must go on to the caller, as sys.exit() and Ctrl+C do."""
    return isinstance(error, (SystemExit, KeyboardInterrupt))


def is_transient(error: BaseException) -> bool:
    """Whether the message must not lose an attempt: a lost race, or a disk that is full."""
    if isinstance(error, InboxFailed) or is_full(error):
        return True
    origin = attribute_of(error, "orig") or error
    if isinstance(origin, psycopg.Error):
        return origin.sqlstate is not None and by_sqlstate(origin.sqlstate) is SerializationFailure
    return isinstance(origin, SerializationFailure) or "database is locked" in message_of(origin)


def is_commit_refusal(error: BaseException) -> bool:
    """Whether a database refused to commit what was written, as a deferred constraint does.

    Otherwise the database is away or busy.
    """
    if is_transient(error) or is_locked(error):
        return False
    if isinstance(error, psycopg.Error):
        return not isinstance(translate(error), (ConnectionFailed, LockTimeout))
    return is_answer(error)


class Watchlist:
    """Messages whose transaction was lost: the handler did not return, or the commit was refused.

    They are remembered until they are received again. A message that is known to be the cause is
    then nacked without another call; several suspects are tried one by one.
    """

    def __init__(self) -> None:
        self._known: dict[int, BaseException] = {}
        self._suspects: set[int] = set()

    def add(self, messages: Sequence[Message], error: BaseException) -> None:
        """Note that the transaction was lost while these messages were being handled, or because of
        their effects."""
        ids = error.message_ids if isinstance(error, HandlerTimeout) else [one.message_id for one in messages]
        if len(ids) == 1:
            self._known[ids[0]] = error
        else:
            self._suspects.update(ids)

    def take(self, messages: Sequence[Message]) -> list[Failure]:
        """The failures among these messages that are known already."""
        return [Failure(m, self._known.pop(m.message_id)) for m in messages if m.message_id in self._known]

    def are_suspect(self, messages: Sequence[Message]) -> bool:
        """Whether these must be tried one by one, each in its own transaction."""
        return bool(self._suspects) and any(message.message_id in self._suspects for message in messages)

    def clear(self, messages: Sequence[Message]) -> None:
        """Note that these have been tried."""
        if self._suspects:
            self._suspects.difference_update(message.message_id for message in messages)


def handler_traceback(error: BaseException) -> TracebackType | None:
    """The traceback from the handler's own frame on; the whole one if it has no other frames."""
    inner = error.__traceback__
    while inner is not None and _calls_handlers(str(inner.tb_frame.f_globals.get("__name__"))):
        inner = inner.tb_next
    return inner or error.__traceback__


def _calls_handlers(module: str) -> bool:
    return module == _COMMAND or module.partition(".")[0] in _CALLERS
