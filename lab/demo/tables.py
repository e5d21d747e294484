"""Names that the processes of the demo share, and the business tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Date, Integer, MetaData, String, Table

__all__ = [
    "BOARD_URL",
    "CONSUMER_GROUP",
    "LEDGER_URL",
    "PRODUCER_GROUP",
    "QUEUES",
    "TOPIC",
    "airline_metadata",
    "board_cell",
    "board_metadata",
    "cancellation",
    "departure",
]

TOPIC = "departures"
QUEUES = 8
PRODUCER_GROUP = "airline"
CONSUMER_GROUP = "board"
# URLs go to the processes through their environment, because every user of the machine can read
# arguments. The first one is what the compensator reads for the checker target 'airline'.
LEDGER_URL = "MQPG_LEDGER_AIRLINE"
BOARD_URL = "MQPG_DEMO_BOARD"

airline_metadata, board_metadata = MetaData(), MetaData()

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
)
board_cell = Table(
    "board_cell",
    board_metadata,
    Column("origin", String(3), primary_key=True),
    Column("day", Date, primary_key=True),
    Column("departures", Integer, nullable=False),
    Column("delay", BigInteger, nullable=False),  # sum of minutes
)
