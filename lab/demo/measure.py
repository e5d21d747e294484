"""Counts from the three databases, which may be down, for the progress and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

import psycopg

from .expected import Board, Cell
from .names import CONSUMER_GROUP, PRODUCER_GROUP
from .servers import Databases

__all__ = ["Backlog", "Decisions", "Gauges", "Reading"]

_DONE: LiteralString = "select (select count(*) from departure), (select count(*) from cancellation)"
_SHOWN: LiteralString = "select coalesce(sum(departures), 0)::bigint from board_cell"
_CELLS: LiteralString = "select origin, day::text, departures, delay from board_cell"
_BACKLOG: LiteralString = """
    select (select count(*) from mqpg.half_pending where producer_group = %(producer)s),
           (select count(*) from mqpg.half_parked where producer_group = %(producer)s),
           (select coalesce(sum(lag), 0)::bigint from mqpg.subscription_lag where consumer_group = %(consumer)s)"""
_DECISIONS: LiteralString = """
    select count(*) filter (where op = 'c'), count(*) filter (where op = 'b'),
           count(*) filter (where op = 'c' and decided_by = 'checker'),
           count(*) filter (where op = 'b' and decided_by = 'checker')
    from mqpg.op_log where stage = 0"""


@dataclass(frozen=True, slots=True)
class Reading:
    """How many flights departed, how many were cancelled, and how many are on the board."""

    departed: int
    cancelled: int
    shown: int

    @property
    def done(self) -> int:
        return self.departed + self.cancelled


@dataclass(frozen=True, slots=True)
class Backlog:
    """The broker's remaining work: undecided halves, parked halves, messages not consumed."""

    undecided: int
    parked: int
    lag: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """How many halves were committed and rolled back, and how many of each by a check-back."""

    committed: int
    rolled_back: int
    committed_by_check: int
    rolled_back_by_check: int


class Gauges:
    """One autocommit connection for each database.

    It is opened when first needed, and again after a loss.
    """

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._open: dict[str, psycopg.Connection] = {}

    def reading(self) -> Reading | None:
        """The current counts; None while a server does not answer."""
        try:
            departed, cancelled = self._row(self._databases.airline, _DONE)
            (shown,) = self._row(self._databases.board, _SHOWN)
        except psycopg.OperationalError:
            return None
        return Reading(departed, cancelled, shown)

    def backlog(self) -> Backlog | None:
        """The broker's remaining work; None while the server does not answer."""
        groups = {"producer": PRODUCER_GROUP, "consumer": CONSUMER_GROUP}
        try:
            return Backlog(*self._row(self._databases.broker, _BACKLOG, groups))
        except psycopg.OperationalError:
            return None

    def decisions(self) -> Decisions:
        """The decisions about all halves of the broker."""
        return Decisions(*self._row(self._databases.broker, _DECISIONS))

    def board(self) -> Board:
        """The rows of the board's table."""
        rows = self._connection(self._databases.board).execute(_CELLS).fetchall()
        return {(origin, day): Cell(departures, delay) for origin, day, departures, delay in rows}

    def close(self) -> None:
        """Close all connections."""
        for conn in self._open.values():
            conn.close()
        self._open.clear()

    def _row(self, dsn: str, query: LiteralString, args: dict[str, str] | None = None) -> tuple[int, ...]:
        row = self._connection(dsn).execute(query, args).fetchone()
        assert row is not None
        return tuple(row)

    def _connection(self, dsn: str) -> psycopg.Connection:
        conn = self._open.get(dsn)
        if conn is None or conn.closed:
            conn = self._open[dsn] = psycopg.connect(dsn, autocommit=True, connect_timeout=5)
        return conn
