"""What one audit has read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["Inputs", "Read", "foreign_offsets"]


@dataclass(frozen=True)
class Read:
    """One snapshot that was read: for the report."""

    role: str
    database: str
    snapshot: str
    taken_at: datetime


@dataclass
class Inputs:
    """Frames in the shapes of `schemas`, cached and sealed, and what is needed to interpret them."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    journalled: list[str] = field(default_factory=list)
    group_tolerance: dict[str, float] = field(default_factory=dict)
    ledger_tolerance: dict[str, float] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    taken_at: datetime = datetime.min
    dropped: list[tuple[int, int]] = field(default_factory=list)
    complete: bool = True


def foreign_offsets(rows: list[dict[str, Any]], groups: list[str], broker_id: str, incarnation: int) -> list[str]:
    """Why offsets (consumer_group, broker, incarnation) are of another broker, or of a later life of this one."""
    doubts = []
    for group in groups:
        brokers = {row["broker"] for row in rows if row["consumer_group"] == group}
        if brokers and broker_id not in brokers:
            doubts.append(f"the offsets of group {group} belong to another broker, {min(brokers)}")
        lives = [row["incarnation"] for row in rows if (row["consumer_group"], row["broker"]) == (group, broker_id)]
        if lives and max(lives) > incarnation:
            doubts.append(
                f"the offsets of group {group} come from incarnation {max(lives)} of the broker, "
                f"which is at {incarnation}"
            )
    return doubts
