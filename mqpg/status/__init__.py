"""The state of a broker at a glance, and what to do about it: `mqpg status`."""

from __future__ import annotations

from .advice import advice
from .overview import Overview, read_overview

__all__ = ["Overview", "advice", "read_overview"]
