"""The client that a command works with, and its listings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

from psycopg.rows import dict_row

import mqpg
from mqpg.cli.options import print_result, print_rows
from mqpg.connection.lockers import reading
from mqpg.values import errors
from mqpg.values.messages import Json

__all__ = ["broker", "call", "rows", "show"]

# Where the text of decoded attributes is.
_RAW = {"payload": "raw", "headers": "raw_headers", "history": "raw_history", "detail": "raw_detail"}


@contextmanager
def broker(dsn: str | None) -> Iterator[mqpg.Client]:
    """Open a client for one command. It does not retry, so a failure is reported at once."""
    with mqpg.connect(dsn, retry_timeout=0, pool_timeout=5) as client:
        yield client


def call(action: str, /, *, json: bool, dsn: str | None, **arguments: Any) -> None:
    """Call a method of the client that changes something, and say what was done.

    A command whose options have the names of the method's arguments gives its `locals()`.
    """
    with broker(dsn) as mq:
        getattr(mq, action)(**arguments)
    print_result(action, as_json=json, **arguments)


def rows(client: mqpg.Client, query: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Run a query with named parameters, and return its rows as dictionaries."""
    with reading(client.transaction) as conn, conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


def show(found: Iterable[Any], columns: list[str], *, as_json: bool) -> None:
    """Print these columns of dataclasses or dictionaries, as a table or as a JSON array.

    A table shows the JSON of messages as it was sent. With `as_json` it is part of the array, as a
    string if Python does not decode it.
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
        getattr(one, column)
    except errors.Undecodable:
        return raw
    return None if raw is None else Json(raw)
