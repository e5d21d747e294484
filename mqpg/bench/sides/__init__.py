"""The sides of the comparison, by name."""

from .bare_side import BareSide
from .base import Side
from .mqpg_side import MqpgSide
from .pgmq_side import PgmqSide

__all__ = ["SIDES", "Side"]

SIDES: dict[str, Side] = {"mqpg": MqpgSide(), "pgmq": PgmqSide(), "bare": BareSide()}
