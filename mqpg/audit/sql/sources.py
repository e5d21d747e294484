"""The databases of consumers and producers, each read in one transaction and in small parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from mqpg.audit.state import Digests, Judged
from mqpg.connection.dsn import to_sqlalchemy

from .postgresql_source import PostgresqlSource
from .sqlalchemy_source import SqlalchemySource
from .workspace import Workspace

__all__ = ["Source", "open_source"]


class Source(Protocol):
    """One transaction of a database of users.

    Attributes:
        name: The database, without a password.
        snapshot: Its snapshot, as the report names it.
        taken_at: The clock just before or after the snapshot.
        system_identifier: The server cluster. None for a database other than PostgreSQL.
        digests: The fingerprints of judged rows that were not copied, by table and part.
    """

    name: str
    snapshot: str
    taken_at: datetime
    system_identifier: int | None
    digests: Digests

    def copy_consumers(
        self,
        work: Workspace,
        table: str,
        groups: list[str],
        topics: list[str] | None,
        broker_id: str,
        judged: Judged | None = None,
    ) -> int | None:
        """Copy rows of some consumer groups into the temporary table applied, stored_offset or deferred.

        Journals and inboxes of other brokers are left out. A row that names no broker was written by an
        earlier release, and belongs to this one. Judged rows of a journal are hashed if that is possible, and
        not copied. Returns how many rows there were; None: the database has no such table.
        """

    def journal_rows(self, topics: list[str] | None, broker_id: str) -> dict[str, int]:
        """Count the journal rows of every consumer group. Rows of other brokers do not count."""

    def copy_outbox(self, work: Workspace, label: str, broker_id: str) -> int | None:
        """Copy the rows of an outbox that belong to one broker into the table outbox_row.

        `label` is the value of the column `ledger`. Returns how many rows there were; None: there is no
        outbox.
        """

    def copy_ledger(
        self,
        work: Workspace,
        label: str,
        broker_id: str,
        *,
        also_the_brokers: bool,
        judged: Judged | None = None,
    ) -> tuple[int, bool] | None:
        """Copy the rows of a ledger that belong to one broker into the table ledger_row.

        With `also_the_brokers` the ledger that every broker has counts too. Judged rows as in
        `copy_consumers`. Returns how many rows there were, and whether it is the broker's own ledger. None:
        there is no ledger.
        """


@contextlib.contextmanager
def open_source(url: str) -> Iterator[PostgresqlSource | SqlalchemySource]:
    """Open a database of users at one snapshot, until the block ends."""
    opened = PostgresqlSource.open if to_sqlalchemy(url).get_backend_name() == "postgresql" else SqlalchemySource.open
    with opened(url) as source:
        yield source
