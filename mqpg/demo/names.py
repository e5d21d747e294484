"""Names that the processes of the demo share."""

from __future__ import annotations

__all__ = ["BOARD_URL", "CONSUMER_GROUP", "LEDGER_URL", "PRODUCER_GROUP", "QUEUES", "TOPIC"]

TOPIC = "departures"
QUEUES = 8
PRODUCER_GROUP = "airline"
CONSUMER_GROUP = "board"
# URLs reach the processes through their environment: arguments can be read by everybody on the machine.
LEDGER_URL = "MQPG_LEDGER_AIRLINE"  # the name that the compensator looks under for checker target 'airline'
BOARD_URL = "MQPG_DEMO_BOARD"
