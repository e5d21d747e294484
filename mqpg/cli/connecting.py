"""The client that a command works with, and rows of a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any

from psycopg.rows import dict_row

import mqpg
from mqpg.cli.options import print_rows

__all__ = ["broker", "rows", "show"]


@contextmanager
def broker(dsn: str | None) -> Iterator[mqpg.Client]:
    """A client for one command: it says at once what does not work. Raises mqpg.Error."""
    with mqpg.connect(dsn, retry_timeout=0, pool_timeout=5) as client:
        yield client


def rows(client: mqpg.Client, query: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """What a query gives, as dictionaries in the order of its columns."""
    with client.transaction() as conn, conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


def show(found: Iterable[Any], columns: list[str], *, as_json: bool) -> None:
    """A listing of dataclasses or dictionaries."""
    listed = [asdict(one) if is_dataclass(one) and not isinstance(one, type) else one for one in found]
    print_rows([{column: one[column] for column in columns} for one in listed], columns, as_json=as_json)
