"""The databases of consumers and producers, each read in one transaction and in small parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mqpg.connection.dsn import to_sqlalchemy

from .postgresql_source import PostgresqlSource
from .sqlalchemy_source import SqlalchemySource

__all__ = ["Source", "open_source"]

Source = PostgresqlSource | SqlalchemySource


@contextlib.contextmanager
def open_source(url: str) -> Iterator[Source]:
    """Open a database of users at one snapshot, until the block ends."""
    opened = PostgresqlSource.open if to_sqlalchemy(url).get_backend_name() == "postgresql" else SqlalchemySource.open
    with opened(url) as source:
        yield source
