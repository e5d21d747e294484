"""The exceptions of mqpg: one tree, and one class for each cause.

A class has an SQLSTATE where SQL can raise it. A message is one line that says what was wrong and what is allowed.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from threading import Thread

from mqpg.values.cause import Cause, Remedy

__all__ = [
    "AlreadyDefined",
    "ConfigurationError",
    "ConnectionFailed",
    "DatabaseError",
    "Error",
    "Fenced",
    "HandlerStuck",
    "HandlerTimeout",
    "IdsUsedUp",
    "InvalidArgument",
    "InvalidFilter",
    "InvalidName",
    "LedgerError",
    "LockTimeout",
    "MalformedReceipt",
    "MissingBody",
    "NoReply",
    "NoSpace",
    "NotDone",
    "NotFound",
    "NotGranted",
    "OffsetBeyondLog",
    "OffsetOutOfRange",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "ReceiptError",
    "RestoredCluster",
    "SchemaError",
    "SchemaMissing",
    "SchemaTooNew",
    "SchemaTooOld",
    "SerializationFailure",
    "SpentReceipt",
    "StaleReceipt",
    "TooManyUndecided",
    "TopicInUse",
    "Undecodable",
    "UnknownHandle",
    "UnknownProducerGroup",
    "UnknownSubscription",
    "UnknownTopic",
    "WrongState",
    "WrongTopicKind",
    "WrongTransaction",
    "shown",
]


class Error(Exception):
    """The base of every exception of mqpg.

    Attributes:
        sqlstate: The SQLSTATE of the server's error. None if the error came from no server.
        detail: The server's DETAIL. None if it sent none.
        hint: The server's HINT. None if it sent none.
        remedy: The call that would help, as the broker says it. None: there is none.
    """

    sqlstate: str | None = None
    detail: str | None = None
    hint: str | None = None
    remedy: Remedy | None = None


class ConfigurationError(Error):
    """A DSN, a setting or a combination of options that cannot work."""


class ConnectionFailed(Error):
    """The server does not answer or refuses the connection, or the connection was lost."""


class OutcomeUnknown(ConnectionFailed):
    """The connection was lost after the request was sent.

    What was requested may or may not have happened.
    """


class SchemaError(Error):
    """The schema in the database is missing, or this release cannot work with it."""


class SchemaMissing(SchemaError):
    """mqpg is not installed in this database."""


class SchemaTooOld(SchemaError):
    """The schema is too old for this release, or does not have a function that was called."""


class SchemaTooNew(SchemaError):
    """The schema is too new for this release."""


class DatabaseError(Error):
    """An error of the server that is not one of mqpg. `sqlstate` says which one it is."""


class LockTimeout(DatabaseError):
    """Another session holds the lock. Nothing was done."""

    sqlstate = "55P03"


class SerializationFailure(DatabaseError):
    """The transaction lost a race. Repeat it."""

    sqlstate = "40001"


class NotGranted(DatabaseError):
    """The role of the connection lacks a right.

    The message names the grant that is missing. It is the same whether or not the topic or the
    group exists. Where PostgreSQL itself refuses the call, because the role has no right of that
    kind at all, `sqlstate` is 42501.
    """

    sqlstate = "MQ025"


class InvalidArgument(Error, ValueError):
    """An argument is null, out of range, not one of the options, or not JSON."""

    sqlstate = "MQ001"


class InvalidName(InvalidArgument):
    """The name is not allowed: names match ``^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$``."""

    sqlstate = "MQ002"


class InvalidFilter(InvalidArgument):
    """The filter is no predicate, or uses a variable other than $headers, $key and $tag."""

    sqlstate = "MQ020"


class PayloadTooLarge(InvalidArgument):
    """The payload, or the headers, are larger than the topic allows."""

    sqlstate = "MQ010"


class NotFound(Error, LookupError):
    """Something that the caller named does not exist."""


class UnknownTopic(NotFound):
    """There is no topic of this name."""

    sqlstate = "MQ003"


class UnknownProducerGroup(NotFound):
    """There is no producer group of this name."""

    sqlstate = "MQ004"


class UnknownSubscription(NotFound):
    """The consumer group is not subscribed to the topic."""

    sqlstate = "MQ005"


class UnknownHandle(NotFound):
    """No half message of this broker has this handle.

    `commit`, `rollback` and `settle` answer `unknown` instead.
    """

    sqlstate = "MQ006"


class OffsetOutOfRange(NotFound):
    """The offset is below the oldest one that is kept, or beyond the queue's next one."""

    sqlstate = "MQ013"


class ReceiptError(Error):
    """The receipt cannot be used to acknowledge, return or extend a delivery."""


class MalformedReceipt(ReceiptError):
    """The text is no receipt of this broker.

    It was changed, or comes from another broker, from a subscription that is gone, or from a
    `receive` that was rolled back.
    """

    sqlstate = "MQ007"


class SpentReceipt(ReceiptError):
    """Nothing of the delivery is left: all of it was acknowledged or returned before."""

    sqlstate = "MQ008"


class StaleReceipt(ReceiptError):
    """The lease ended, and another consumer has received the messages since.

    Nothing was changed.
    """

    sqlstate = "MQ009"


class AlreadyDefined(Error):
    """The topic, group or subscription exists with other arguments."""

    sqlstate = "MQ011"


class TopicInUse(Error):
    """The topic has messages that are undelivered, delayed or undecided."""

    sqlstate = "MQ012"


class MissingBody(Error):
    """The body of a message is gone from the log, although it must still be there."""

    sqlstate = "MQ014"


class WrongTransaction(Error):
    """The transaction wrote something before the call, or is not READ COMMITTED.

    append, compensate, due_checks and keep must be the first statement of a READ COMMITTED
    transaction.
    """

    sqlstate = "MQ015"


class RestoredCluster(Error):
    """The data come from another cluster, by a dump, a restore or a promotion.

    Run `mqpg migrate adopt` before the broker is used.
    """

    sqlstate = "MQ016"


class Fenced(Error):
    """A check-back has already ruled that the half message rolls back.

    The local transaction must not commit.
    """

    sqlstate = "MQ017"


class WrongState(Error):
    """The half message is not in the state that this call needs."""

    sqlstate = "MQ018"


class TooManyUndecided(Error):
    """The producer group has more undecided half messages than its `max_undecided`.

    Nothing was prepared. Something keeps the group's halves undecided: the hint says where to look.
    """

    sqlstate = "MQ026"


class NoSpace(Error):
    """The topic, or the broker, is at its `max_bytes`.

    Nothing was sent or prepared. Receiving, acknowledging and deciding go on.
    """

    sqlstate = "MQ028"


class IdsUsedUp(Error):
    """The broker has given out all 2,097,150 ids of subscriptions.

    Each member of a broadcast group uses one. Those that exist work on. `mqpg doctor` warns at 80 %.
    """

    sqlstate = "MQ027"


class WrongTopicKind(Error):
    """The topic is a relay topic, which cannot be read like that.

    It needs mode "exclusive" or "pinned" and no filter.
    """

    sqlstate = "MQ024"


class LedgerError(Error):
    """A table of mqpg in a user's database is missing or not as it must be."""


class Undecodable(Error, ValueError):
    """JSON that PostgreSQL stores and Python does not decode.

    A number of more than 4,300 digits is an example, or an array that is nested thousands deep. The
    message's `raw` has the text.
    """


class OffsetBeyondLog(Error):
    """The consumer's own offset is beyond the broker's log, so the broker has lost messages.

    The consumer stops.
    """


class HandlerTimeout(Error):
    """A handler took longer than its consumer's `timeout`.

    Args:
        message: One line that says how long that is.
        abandoned: Whether the handler still runs, in a thread that could not be ended.
    """

    _thread: Thread | None = None  # in which the abandoned handler runs

    def __init__(self, message: str, *, abandoned: bool = False) -> None:
        super().__init__(message)
        self.abandoned = abandoned
        self.message_ids: tuple[int, ...] = ()


class HandlerStuck(Error):
    """Too many calls of a handler do not return.

    Only a restart of the process ends their threads.
    """


class NoReply(Error, TimeoutError):
    """No reply to a request came in time.

    Args:
        message: One line that says how long the call waited.
        correlation_id: The request's correlation id, to look for the reply later.
    """

    def __init__(self, message: str, *, correlation_id: str) -> None:
        super().__init__(message)
        self.correlation_id = correlation_id


class NotDone(Error, TimeoutError):
    """A consumer group did not acknowledge a message in time.

    Args:
        message: One line that says how long the call waited, and what holds the message up.
        causes: What holds it up, as `Client.why` says it.
    """

    def __init__(self, message: str, *, causes: Sequence[Cause] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)


_REPR = reprlib.Repr()
_REPR.maxstring = 140  # the longest name, and a little more


def shown(value: object) -> str:
    """Describe a value that a caller passed, for a message.

    Args:
        value: Any object.

    Returns:
        Its repr, shortened, or its type where it has none, such as an integer of thousands of digits.
    """
    try:
        text = _REPR.repr(value)
        if isinstance(value, int):
            repr(value)  # from Python 3.14 on, reprlib gives the address of one that has none
    except Exception:
        text = f"a value of type {type(value).__name__}"
    return " ".join(text.encode("utf-8", "backslashreplace").decode().split())
