"""Names that the processes of the demo share."""

from __future__ import annotations

__all__ = ["BOARD_URL", "CONSUMER_GROUP", "LEDGER_URL", "PRODUCER_GROUP", "QUEUES", "TOPIC"]

TOPIC = "departures"
QUEUES = 8
PRODUCER_GROUP = "airline"
CONSUMER_GROUP = "board"
# URLs go to the processes through their environment, because every user of the machine can read
# arguments. The first one is what the compensator reads for the checker target 'airline'.
LEDGER_URL = "MQPG_LEDGER_AIRLINE"
BOARD_URL = "MQPG_DEMO_BOARD"
