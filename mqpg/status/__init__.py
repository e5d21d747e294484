"""The state of a broker at a glance, and what to do about it: `mqpg status`."""

from __future__ import annotations

from .advice import advice, findings
from .checks import check_server
from .finding import Finding
from .overview import Overview, read_overview
from .source import Source

__all__ = [
    "Finding",
    "Overview",
    "Source",
    "advice",
    "check_server",
    "findings",
    "read_overview",
]
