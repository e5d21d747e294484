"""The client that a command works with, and its listings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

import mqpg
from mqpg.cli.options import print_rows
from mqpg.values import errors
from mqpg.values.translation import translate

__all__ = ["broker", "rows", "show"]

# Where the text of decoded attributes is.
_RAW = {"payload": "raw", "headers": "raw_headers", "history": "raw_history", "detail": "raw_detail"}


@contextmanager
def broker(dsn: str | None) -> Iterator[mqpg.Client]:
    """Open a client for one command. It does not retry, so a failure is reported at once.

    Args:
        dsn: The broker's database. None: the sources that `mqpg.connect` names.

    Yields:
        The client, which is closed at the end of the block.

    Raises:
        ConnectionFailed: The database does not answer.
        SchemaError: The schema is missing, or this release cannot work with it.
        ConfigurationError: The DSN is malformed, or there is none.
    """
    with mqpg.connect(dsn, retry_timeout=0, pool_timeout=5) as client:
        yield client


def rows(client: mqpg.Client, query: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Run a query.

    Args:
        client: The client of the broker.
        query: The SQL text.
        values: Values of its named parameters. None: it has none.

    Returns:
        One dictionary for each row, in the order of the columns.

    Raises:
        Error: The query failed.
    """
    try:
        with client.transaction() as conn, conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.encode(), values).fetchall()
    except psycopg.Error as error:
        raise translate(error) from error


def show(found: Iterable[Any], columns: list[str], *, as_json: bool) -> None:
    """Print dataclasses or dictionaries as a listing.

    A table shows the JSON of messages as it was sent. With `as_json` it is part of the array, as a
    string where Python does not decode it.

    Args:
        found: The objects.
        columns: Which of their attributes to print, in this order.
        as_json: Print a JSON array instead of a table.
    """
    listed = [{column: _value(one, column, as_json=as_json) for column in columns} for one in found]
    print_rows(listed, columns, as_json=as_json)


def _value(one: Any, column: str, *, as_json: bool) -> Any:
    if not is_dataclass(one):
        return one[column]
    raw = getattr(one, _RAW.get(column, column), None)
    if column not in _RAW or not as_json:
        return raw
    try:
        return getattr(one, column)
    except errors.Undecodable:
        return raw
