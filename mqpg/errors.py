"""Exceptions of mqpg: one tree, one class per cause, one SQLSTATE each where SQL can raise it.

::

    Error
     ├── ConfigurationError        a DSN, setting or combination of options that cannot work
     ├── ConnectionFailed          the server does not answer, or the connection was lost
     │    └── OutcomeUnknown       ... after the request was sent: it may or may not have happened
     ├── SchemaError
     │    ├── SchemaMissing        mqpg is not installed in this database
     │    ├── SchemaTooOld         installed by an older release: run `mqpg migrate`
     │    └── SchemaTooNew         installed by a newer release: upgrade this one
     ├── DatabaseError             any other error of the server, SQLSTATE kept
     │    ├── LockTimeout          55P03  somebody else holds the lock
     │    └── SerializationFailure 40001  lost a race: repeat the transaction
     ├── InvalidArgument           MQ001  null, negative, out of range, not an option
     │    ├── InvalidName          MQ002  name of a topic or group
     │    ├── InvalidFilter        MQ020  a subscription's filter that cannot work
     │    └── PayloadTooLarge      MQ010
     ├── NotFound
     │    ├── UnknownTopic         MQ003
     │    ├── UnknownProducerGroup MQ004
     │    ├── UnknownSubscription  MQ005
     │    ├── UnknownHandle        MQ006
     │    └── OffsetOutOfRange     MQ013  fetch below the oldest offset or beyond the tail
     ├── ReceiptError
     │    ├── MalformedReceipt     MQ007
     │    ├── SpentReceipt         MQ008  nothing is left of its delivery
     │    └── StaleReceipt         MQ009  the delivery was given to somebody else
     ├── AlreadyDefined            MQ011  created again with other arguments
     ├── TopicInUse                MQ012  drop_topic without force
     ├── MissingBody               MQ014  a message whose body is gone: never skipped
     ├── WrongTransaction          MQ015  a pass called after the transaction wrote, or not READ COMMITTED
     ├── RestoredCluster           MQ016  the data come from another cluster
     ├── Fenced                    MQ017  a check-back has already ruled that this transaction rolls back
     ├── WrongState                MQ018  not possible for this half message now
     ├── WrongTopicKind            MQ024  a relay topic cannot be read like that
     ├── LedgerError               the ledger (or offsets) table is not what it must be
     ├── OffsetBeyondLog           the consumer's own offset lies beyond the broker's log
     ├── HandlerTimeout            a handler took longer than its consumer's `timeout`
     ├── HandlerStuck              too many handlers never returned: the process has to be restarted
     └── NoReply                   nobody replied to a request in time

Messages are one line: what was wrong, and what is allowed.
"""

from __future__ import annotations

import psycopg

__all__ = [
    "AlreadyDefined",
    "ConfigurationError",
    "ConnectionFailed",
    "DatabaseError",
    "Error",
    "Fenced",
    "HandlerStuck",
    "HandlerTimeout",
    "InvalidArgument",
    "InvalidFilter",
    "InvalidName",
    "LedgerError",
    "LockTimeout",
    "MalformedReceipt",
    "MissingBody",
    "NoReply",
    "NotFound",
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
    "TopicInUse",
    "UnknownHandle",
    "UnknownProducerGroup",
    "UnknownSubscription",
    "UnknownTopic",
    "WrongState",
    "WrongTopicKind",
    "WrongTransaction",
    "by_sqlstate",
    "translate",
]


class Error(Exception):
    """Base of everything that mqpg raises on purpose."""

    sqlstate: str | None = None
    detail: str | None = None
    hint: str | None = None


class ConfigurationError(Error):
    """A DSN, a setting or a combination of options that cannot work."""


class ConnectionFailed(Error):
    """The server does not answer, refuses the connection, or the connection was lost."""


class OutcomeUnknown(ConnectionFailed):
    """The connection was lost after the request was sent: it may or may not have happened."""


class SchemaError(Error):
    """The schema in the database and this release do not fit."""


class SchemaMissing(SchemaError):
    """mqpg is not installed in this database."""


class SchemaTooOld(SchemaError):
    """The schema was installed by an older release."""


class SchemaTooNew(SchemaError):
    """The schema was installed by a newer release."""


class DatabaseError(Error):
    """An error of the server that is not mqpg's own; `sqlstate` tells which."""


class LockTimeout(DatabaseError):
    """Somebody else holds the lock; nothing was done."""

    sqlstate = "55P03"


class SerializationFailure(DatabaseError):
    """Lost a race; repeat the transaction."""

    sqlstate = "40001"


class InvalidArgument(Error, ValueError):
    """Null, negative, out of range, not one of the options, or not JSON."""

    sqlstate = "MQ001"


class InvalidName(InvalidArgument):
    """Names match ``^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$``."""

    sqlstate = "MQ002"


class InvalidFilter(InvalidArgument):
    """The filter names a variable other than ``$headers``, ``$key`` and ``$tag``."""

    sqlstate = "MQ020"


class PayloadTooLarge(InvalidArgument):
    """The payload is over the topic's limit."""

    sqlstate = "MQ010"


class NotFound(Error, LookupError):
    """Something named by the caller does not exist."""


class UnknownTopic(NotFound):
    """No such topic."""

    sqlstate = "MQ003"


class UnknownProducerGroup(NotFound):
    """No such producer group."""

    sqlstate = "MQ004"


class UnknownSubscription(NotFound):
    """This consumer group has not subscribed to this topic."""

    sqlstate = "MQ005"


class UnknownHandle(NotFound):
    """No half message of this broker has this handle."""

    sqlstate = "MQ006"


class OffsetOutOfRange(NotFound):
    """The offset is below the queue's oldest one or beyond its tail."""

    sqlstate = "MQ013"


class ReceiptError(Error):
    """The receipt settles nothing."""


class MalformedReceipt(ReceiptError):
    """The text is not a receipt."""

    sqlstate = "MQ007"


class SpentReceipt(ReceiptError):
    """Everything of this delivery is settled already."""

    sqlstate = "MQ008"


class StaleReceipt(ReceiptError):
    """The lease ended and the delivery was given to somebody else; nothing was changed."""

    sqlstate = "MQ009"


class AlreadyDefined(Error):
    """Created before with other arguments."""

    sqlstate = "MQ011"


class TopicInUse(Error):
    """Something in the topic is undelivered or undecided."""

    sqlstate = "MQ012"


class MissingBody(Error):
    """The body of a message that must still be there is gone."""

    sqlstate = "MQ014"


class WrongTransaction(Error):
    """append, compensate, due_checks and keep want a READ COMMITTED transaction that wrote nothing before."""

    sqlstate = "MQ015"


class RestoredCluster(Error):
    """The data come from another cluster (dump, promotion, restore): run the restore step first."""

    sqlstate = "MQ016"


class Fenced(Error):
    """A check-back has ruled this half message rolled back; the local transaction must not commit."""

    sqlstate = "MQ017"


class WrongState(Error):
    """The half message is not in the state that this call needs."""

    sqlstate = "MQ018"


class WrongTopicKind(Error):
    """A relay topic is read in mode exclusive or pinned, without a filter."""

    sqlstate = "MQ024"


class LedgerError(Error):
    """A ledger or offsets table lacks its primary key or a column."""


class OffsetBeyondLog(Error):
    """The consumer's own offset lies beyond the broker's log: the broker lost messages. Hard stop."""


class HandlerTimeout(Error):
    """A handler took longer than its consumer's `timeout`; `abandoned`: its thread could not be ended."""

    def __init__(self, message: str, *, abandoned: bool = False) -> None:
        super().__init__(message)
        self.abandoned = abandoned
        self.message_ids: tuple[int, ...] = ()


class HandlerStuck(Error):
    """So many handlers never returned that the process has to be restarted to be rid of their threads."""


class NoReply(Error, TimeoutError):
    """Nobody replied to a request in time. `correlation_id` names it, for a later look."""

    def __init__(self, message: str, *, correlation_id: str) -> None:
        super().__init__(message)
        self.correlation_id = correlation_id


def _subclasses(cls: type[Error]) -> list[type[Error]]:
    return [cls, *(below for direct in cls.__subclasses__() for below in _subclasses(direct))]


_BY_SQLSTATE: dict[str, type[Error]] = {
    cls.sqlstate: cls for cls in _subclasses(Error) if "sqlstate" in vars(cls) and cls.sqlstate
}
# 40P01 deadlock: the loser may repeat, as after 40001. 3F000: "schema mqpg does not exist".
_BY_SQLSTATE |= {"40P01": SerializationFailure, "3F000": SchemaMissing}

# Classes of SQLSTATE that mean "no server": connection exceptions, bad login, shutdown, too many clients.
_CONNECTION_STATES = ("08", "28", "3D000", "57P", "53300")


def by_sqlstate(sqlstate: str | None) -> type[Error]:
    """The class for a SQLSTATE; None (libpq's own errors) is a lost or refused connection."""
    if sqlstate is None or sqlstate.startswith(_CONNECTION_STATES):
        return ConnectionFailed
    if sqlstate.startswith("22"):  # data exceptions: not JSON, not a number, ...
        return _BY_SQLSTATE.get(sqlstate, InvalidArgument)
    return _BY_SQLSTATE.get(sqlstate, DatabaseError)


def translate(error: BaseException) -> Error:
    """Turn a psycopg error (or a SQLAlchemy error around one) into mqpg's, as one clear line."""
    origin: BaseException = getattr(error, "orig", None) or error
    if isinstance(origin, Error):
        return origin
    if not isinstance(origin, psycopg.Error):
        return _foreign(origin)
    cls = by_sqlstate(origin.sqlstate)
    if origin.sqlstate == "42601" and "jsonpath" in str(origin.diag.message_primary):
        # Refused by the cast, before mqpg sees it.
        cls = InvalidFilter
    if origin.sqlstate is None and not isinstance(origin, (psycopg.OperationalError, psycopg.InterfaceError)):
        # The driver refused before sending (a value that it cannot adapt, wrong parameters).
        cls = InvalidArgument if isinstance(origin, (psycopg.DataError, psycopg.ProgrammingError)) else DatabaseError
    translated = cls(_describe(origin))
    translated.sqlstate = origin.sqlstate or cls.sqlstate
    translated.detail, translated.hint = origin.diag.message_detail, origin.diag.message_hint
    return translated


def _foreign(error: BaseException) -> Error:
    """Errors of SQLAlchemy itself, and of other drivers, which name the SQLSTATE differently if at all."""
    sqlstate = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    cls = by_sqlstate(sqlstate) if isinstance(sqlstate, str) else DatabaseError
    translated = cls(_one_line(str(error)))
    translated.sqlstate = sqlstate if isinstance(sqlstate, str) else None
    return translated


def _describe(error: psycopg.Error) -> str:
    diag = error.diag
    message = _one_line(diag.message_primary or str(error) or type(error).__name__)
    more = "; ".join(_one_line(part) for part in (diag.message_detail, diag.message_hint) if part)
    return f"{message} ({more})" if more else message


def _one_line(text: str) -> str:
    return " ".join(text.split())
