"""Counts from the three databases, which may be down, for the progress and the result."""

from __future__ import annotations

from typing import LiteralString, NamedTuple, Self

import psycopg

from .flights import Board, Cell
from .tables import CONSUMER_GROUP, PRODUCER_GROUP

__all__ = ["Counts", "Databases", "Decisions", "Gauges"]

_DONE: LiteralString = "select (select count(*) from departure), (select count(*) from cancellation)"
_SHOWN: LiteralString = "select coalesce(sum(departures), 0)::bigint from board_cell"
_CELLS: LiteralString = "select origin, day::text, departures, delay from board_cell"
_OPEN: LiteralString = """
select (select count(*) from mqpg.half_pending where producer_group = %s),
    (select coalesce(sum(lag), 0)::bigint from mqpg.subscription_lag where consumer_group = %s)"""
_DECISIONS: LiteralString = """
select count(*) filter (where op = 'c'), count(*) filter (where op = 'b'),
    count(*) filter (where op = 'c' and decided_by = 'checker'),
    count(*) filter (where op = 'b' and decided_by = 'checker')
from mqpg.op_log where stage = 0"""


class Databases(NamedTuple):
    """The DSNs of the three databases."""

    broker: str
    airline: str
    board: str


class Counts(NamedTuple):
    """How many flights departed, were cancelled and are on the board, and what is open at the broker."""

    departed: int
    cancelled: int
    shown: int
    undecided: int = 0
    lag: int = 0

    @property
    def done(self) -> int:
        """How many flights are done."""
        return self.departed + self.cancelled

    @property
    def drained(self) -> bool:
        """Whether nothing is open. The lag counts appended messages, and the board the others."""
        return not self.undecided and not self.lag and self.shown >= self.departed


class Decisions(NamedTuple):
    """How many halves were committed and rolled back, and how many of each by a check-back."""

    committed: int
    rolled_back: int
    committed_by_check: int
    rolled_back_by_check: int


class Gauges:
    """One autocommit connection for each database, opened when first needed, and again after a loss."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._open: dict[str, psycopg.Connection] = {}

    def read(self, *, backlog: bool = False) -> Counts | None:
        """The current counts, with those of the broker if `backlog`. None: a server does not answer."""
        try:
            done = self._row(self._databases.airline, _DONE)
            shown = self._row(self._databases.board, _SHOWN)
            rest = self._row(self._databases.broker, _OPEN, PRODUCER_GROUP, CONSUMER_GROUP) if backlog else ()
        except psycopg.OperationalError:
            return None
        return Counts(*done, *shown, *rest)

    def decisions(self) -> Decisions:
        """The decisions about all halves of the broker."""
        return Decisions(*self._row(self._databases.broker, _DECISIONS))

    def board(self) -> Board:
        """The rows of the board's table."""
        rows = self._connection(self._databases.board).execute(_CELLS).fetchall()
        return {(origin, day): Cell(departures, delay) for origin, day, departures, delay in rows}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for conn in self._open.values():
            conn.close()

    def _row(self, dsn: str, query: LiteralString, *args: str) -> tuple[int, ...]:
        row = self._connection(dsn).execute(query, args).fetchone()
        assert row is not None
        return tuple(row)

    def _connection(self, dsn: str) -> psycopg.Connection:
        conn = self._open.get(dsn)
        if conn is None or conn.closed:
            conn = self._open[dsn] = psycopg.connect(dsn, autocommit=True, connect_timeout=5)
        return conn
