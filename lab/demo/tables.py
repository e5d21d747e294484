"""Names that the processes of the demo share, and the business tables."""

from __future__ import annotations

__all__ = ["AIRLINE", "BOARD", "BOARD_URL", "CONSUMER_GROUP", "LEDGER_URL", "PRODUCER_GROUP", "QUEUES", "TOPIC"]

TOPIC = "departures"
QUEUES = 8
PRODUCER_GROUP = "airline"
CONSUMER_GROUP = "board"
# URLs go to the processes through their environment, because every user of the machine can read
# arguments. The first one is what the compensator reads for the checker target 'airline'.
LEDGER_URL = "MQPG_LEDGER_AIRLINE"
BOARD_URL = "MQPG_DEMO_BOARD"

# Because of the primary key a departure happens once, whatever a producer repeats after a crash.
AIRLINE = """
create table departure (number int primary key, day date not null, carrier text not null, flight int not null,
    tail text, origin text not null, dest text not null, delay int);
create table cancellation (number int primary key, handle text not null)
"""
BOARD = """
create table board_cell (origin text, day date, departures int not null, delay bigint not null,
    primary key (origin, day))
"""
