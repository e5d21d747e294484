"""Errors of drivers as exceptions of mqpg."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg

from mqpg.values.cause import Remedy
from mqpg.values.errors import (
    ConnectionFailed,
    DatabaseError,
    Error,
    InvalidArgument,
    InvalidFilter,
    NotGranted,
    SchemaMissing,
    SchemaTooOld,
    SerializationFailure,
)

__all__ = ["attribute_of", "by_sqlstate", "is_undefined", "translate"]


def _subclasses(cls: type[Error]) -> list[type[Error]]:
    return [cls, *(below for direct in cls.__subclasses__() for below in _subclasses(direct))]


_BY_SQLSTATE: dict[str, type[Error]] = {
    cls.sqlstate: cls for cls in _subclasses(Error) if "sqlstate" in vars(cls) and cls.sqlstate
}
# 40P01 deadlock: the loser may repeat, as after 40001. 3F000: "schema mqpg does not exist". 42501:
# "permission denied for function …".
_BY_SQLSTATE |= {"40P01": SerializationFailure, "3F000": SchemaMissing, "42501": NotGranted}

# Classes of SQLSTATE that mean "no server": connection exceptions, bad login, shutdown, too many
# clients.
_CONNECTION_STATES = ("08", "28", "3D000", "57P", "53300")


def by_sqlstate(sqlstate: str | None) -> type[Error]:
    """The class for an SQLSTATE; DatabaseError if mqpg has none of its own.

    None is an error of libpq itself, which is a lost or refused connection.
    """
    if sqlstate is None or sqlstate.startswith(_CONNECTION_STATES):
        return ConnectionFailed
    if sqlstate.startswith("22"):  # data exceptions: not JSON, not a number, ...
        return _BY_SQLSTATE.get(sqlstate, InvalidArgument)
    return _BY_SQLSTATE.get(sqlstate, DatabaseError)


# Relations, columns, types and functions that are not there.
_UNDEFINED = ("42P01", "42703", "42704", "42883", "3F000")

_POOLED = "behind a pooler in transaction mode set MQPG_PREPARE_THRESHOLD=none"

_NO_PARTITION = "the keeper makes partitions ahead of their use: start mqpg worker"

_REMEDY = '{"function": '  # the beginning of a remedy, as jsonb writes it
# Part of a message of PostgreSQL, which names no argument and shows no example -> the advice.
_ADVICE = {
    "jsonpath input": "a filter is a predicate such as $.total > 100 or $.paid == true",
    "for type interval": "an interval is, for example, '90 seconds' or '1 day 12 hours'",
}


def is_undefined(error: Error) -> bool:
    """Whether the server does not have something that a statement names."""
    return error.sqlstate in _UNDEFINED


def attribute_of(error: object, name: str) -> Any:
    """An attribute of an error. None: its class has none, or fails to make it."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None


def translate(error: BaseException) -> Error:
    """Make the exception of mqpg, with a message of one line, for an error of a driver or of SQLAlchemy.

    An exception of mqpg is returned unchanged.
    """
    origin: BaseException = attribute_of(error, "orig") or error
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
    if origin.sqlstate == "42883" and re.search(r"\bmqpg\.\w+\(", str(origin.diag.message_primary)):
        # A client may be one minor release ahead of the schema. The words around the name are in the server's language.
        cls = SchemaTooOld
    translated = cls(_describe(origin))
    if cls is SchemaTooOld:
        translated = cls(f"{origin.diag.message_primary}: the schema of this database is older: run mqpg migrate")
    translated.sqlstate = origin.sqlstate or cls.sqlstate
    translated.detail, translated.hint = origin.diag.message_detail, origin.diag.message_hint
    translated.remedy = _remedy(origin)
    return translated


def _remedy(error: psycopg.Error) -> Remedy | None:
    """The call that mqpg says in the DETAIL of its errors, as JSON."""
    detail = error.diag.message_detail or ""
    return Remedy(**json.loads(detail)) if detail.startswith(_REMEDY) else None


def _foreign(error: BaseException) -> Error:
    """The exception for errors of SQLAlchemy itself and of other drivers."""
    sqlstate = attribute_of(error, "sqlstate") or attribute_of(error, "pgcode")
    cls = by_sqlstate(sqlstate) if isinstance(sqlstate, str) else DatabaseError
    translated = cls(_in_sentences(str(error)))
    translated.sqlstate = sqlstate if isinstance(sqlstate, str) else None
    return translated


def _describe(error: psycopg.Error) -> str:
    diag = error.diag
    message = _in_sentences(diag.message_primary or str(error) or type(error).__name__)
    advice = [_POOLED] if error.sqlstate in ("26000", "42P05") else []
    if error.sqlstate == "23514" and diag.schema_name == "mqpg" and diag.constraint_name is None:
        advice.append(_NO_PARTITION)
    advice += [text for part, text in _ADVICE.items() if part in message]
    detail = None if _remedy(error) else diag.message_detail
    more = "; ".join(_one_line(part) for part in (detail, diag.message_hint, *advice) if part)
    return f"{message} ({more})" if more else message


def _in_sentences(text: str) -> str:
    """In one line. If a driver begins a new line with a capital, it begins a new sentence."""
    said: list[str] = []
    for line in filter(None, map(_one_line, text.splitlines())):
        if said and line[0].isupper() and said[-1][-1] not in ".,:;?!":
            said[-1] += "."
        said.append(line)
    return " ".join(said)


def _one_line(text: str) -> str:
    return " ".join(text.encode("utf-8", "backslashreplace").decode().split())
