"""A message, and a local transaction in a second database with the message's ledger row."""

from __future__ import annotations

from .link import Link
from .sides.base import Decider

__all__ = ["LedgerTransactions", "create_ledger", "ledger_rows"]

_TABLES = """
create table bench_ledger (handle text primary key, at timestamptz not null default clock_timestamp());
create table bench_order (id bigint generated always as identity primary key, note text not null)"""


def create_ledger(link: Link) -> None:
    """Create the ledger, and a business table beside it."""
    link.execute(_TABLES)


def ledger_rows(link: Link) -> int:
    """The number of local transactions that were committed."""
    return int(link.scalar("select count(*) from bench_ledger join bench_order on note = handle"))


class LedgerTransactions:
    """Prepares a message, commits a local transaction with its ledger row, commits the message."""

    def __init__(self, broker: Decider, local: Link) -> None:
        local.prepare("begin", "begin")
        local.prepare("ledger", "insert into bench_ledger (handle) values ($1::text)")
        local.prepare("order", "insert into bench_order (note) values ($1::text)")
        local.prepare("commit", "commit")
        self._broker, self._local = broker, local

    def step(self) -> int:
        """Once; it returns 1, the number of messages."""
        handle = self._broker.prepare()
        self._local.run(b"begin")
        self._local.run(b"ledger", [handle])
        self._local.run(b"order", [handle])
        self._local.run(b"commit")
        self._broker.commit()
        return 1
