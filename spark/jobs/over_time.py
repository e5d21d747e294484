"""The part of the report that shows what happened when."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from mqpg.audit.timeline import interval_seconds

from ..derive import timeline
from ..derive.frames import Frames

__all__ = ["over_time"]


def over_time(frames: Frames) -> dict[str, Any]:
    """Count what happened in each interval: its width in seconds, and the rows of `timeline`, in order."""
    span = timeline.ticks_range(frames.ticks).collect()[0]
    seconds = interval_seconds(span["first"], span["last"])
    rows = timeline.timeline(frames.entries, frames.deliveries, frames.ticks, seconds=seconds).collect()
    ordered = sorted(rows, key=lambda row: (row["step"], row["consumer_group"] or "", row["at"]))
    # Spark returns times without a zone, in the zone of this process.
    zoned = [row.asDict() | {"at": row["at"].astimezone(UTC)} for row in ordered]
    return {"interval_seconds": seconds, "rows": zoned}
