"""The business tables: the airline's in its database, the board's in another database."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Date, DateTime, Integer, MetaData, String, Table, func

__all__ = ["airline_metadata", "board_cell", "board_metadata", "cancellation", "departure"]

airline_metadata = MetaData()

# Because of the primary key a departure happens once, whatever a producer repeats after a crash.
departure = Table(
    "departure",
    airline_metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("day", Date, nullable=False),
    Column("carrier", String(2), nullable=False),
    Column("flight", Integer, nullable=False),
    Column("tail", String(10)),
    Column("origin", String(3), nullable=False),
    Column("dest", String(3), nullable=False),
    Column("delay", Integer),
)

cancellation = Table(
    "cancellation",
    airline_metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("handle", String(200), nullable=False),  # of the half message that was rolled back
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

board_metadata = MetaData()

board_cell = Table(
    "board_cell",
    board_metadata,
    Column("origin", String(3), primary_key=True),
    Column("day", Date, primary_key=True),
    Column("departures", Integer, nullable=False),
    Column("delay", BigInteger, nullable=False),  # sum of minutes
)
