"""The sides of the comparison, by name."""

from .bare_side import BareSide
from .base import Side
from .mqpg_side import MqpgSide
from .pgmq_side import PgmqSide
from .pgq_side import PgqSide

__all__ = ["SIDES", "Side"]

_ALL: tuple[Side, ...] = (MqpgSide(), PgmqSide(), PgqSide(), BareSide())

SIDES: dict[str, Side] = {side.name: side for side in _ALL}
