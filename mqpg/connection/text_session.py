"""Sessions that copy or hash rows as text, which must look alike wherever it is printed."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row

from mqpg.connection.dsn import describe
from mqpg.connection.options import UNLIMITED, transport
from mqpg.values.errors import ConnectionFailed

__all__ = ["one_line", "text_session"]

# What both ends of a COPY, and all digests of rows, must agree on, and what would end a long read.
_SETTINGS = """
set datestyle = 'ISO';
set timezone = 'UTC';
set intervalstyle = 'postgres';
set client_encoding = 'UTF8';
set idle_in_transaction_session_timeout = 0;
"""


def text_session(dsn: str, program: str) -> psycopg.Connection[dict[str, Any]]:
    """Connect in autocommit mode to a database whose rows are read as text. Raises ConnectionFailed.

    `program` is what the server shows as application_name.
    """
    try:
        connection = psycopg.connect(
            dsn, autocommit=True, row_factory=dict_row, application_name=program, **transport(dsn)
        )
        connection.execute(_SETTINGS.encode())
        connection.execute(UNLIMITED)
    except psycopg.Error as error:
        raise ConnectionFailed(f"no connection to {describe(dsn)}: {one_line(error)}") from error
    return connection


def one_line(error: BaseException) -> str:
    """The text of an error in one line, without the statement that SQLAlchemy and the server show of it."""
    cause = getattr(error, "orig", None) or error
    said = cause.diag.message_primary if isinstance(cause, psycopg.Error) else None
    return " ".join((said or str(cause)).split())
