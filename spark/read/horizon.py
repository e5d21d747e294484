"""How far the appender of a broker is, and how far back its queues reach, at one snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["DROPPED", "HORIZON", "Horizon"]

# Segments that retention dropped, or whose messages it left out in part when segments were merged.
DROPPED = "(s.body_dropped_at is not null or s.left_out <> '{}')"
# The oldest tick is the first one whose rows in consume_queue all survive. An earlier tick, whose
# rows are dropped, may have appended what this tick's snapshot sees.
# to_json() writes times in one way, whatever the settings of the session are.
HORIZON = f"""
select gone.ticks_dropped, gone.first_tick, oldest.tick_id as oldest_tick,
    oldest.snapshot as oldest_snapshot, oldest.due_until as oldest_due,
    newest.snapshot as newest_snapshot, newest.due_until as newest_due,
    coalesce(newest.floor_id, 0) as floor_id, coalesce(newest.batch_seq, 0) as newest_id
from (
    select count(*) > 0 as ticks_dropped, coalesce(max(s.upper_bound::bigint), 0) as first_tick
    from mqpg.audit_segment s where s.family = 'tick' and {DROPPED}) gone
left join lateral (
    select k.snapshot::text, to_json(k.due_until) #>> '{{}}' as due_until, k.floor_id, k.batch_seq
    from mqpg.audit_tick k order by k.tick_id desc limit 1) newest on true
left join lateral (
    select k.tick_id, k.snapshot::text, to_json(k.due_until) #>> '{{}}' as due_until
    from mqpg.audit_tick k where k.tick_id >= gone.first_tick order by k.tick_id limit 1) oldest on true
"""


@dataclass(frozen=True)
class Horizon:
    """What the ticks of the appender say about every message.

    Attributes:
        newest_snapshot: The newest tick's snapshot. None means that there is no tick.
        newest_due: Up to which time it appended delayed messages.
        oldest_snapshot: The snapshot of the oldest tick whose rows all survive.
        oldest_due: Up to which time that one appended delayed messages.
        ticks_dropped: Whether retention has dropped rows of the queues.
        floor_id: The batch id up to which the newest tick has seen everything.
        newest_id: The newest batch id at the time of the newest tick.
    """

    newest_snapshot: str | None
    newest_due: str | None
    oldest_snapshot: str | None
    oldest_due: str | None
    ticks_dropped: bool
    floor_id: int
    newest_id: int

    @classmethod
    def of(cls, row: dict[str, Any], archived: list[dict[str, Any]] | None = None) -> Horizon:
        """Make it from the row of HORIZON, and from the first and the last of the archived ticks, if any."""
        oldest = {"tick_id": row["oldest_tick"], "snapshot": row["oldest_snapshot"], "due_until": row["oldest_due"]}
        newest = {name: row[f"newest_{name}"] for name in ("snapshot",)} | {
            "due_until": row["newest_due"],
            "floor_id": row["floor_id"],
            "batch_seq": row["newest_id"],
        }
        if archived:
            if archived[0]["tick_id"] >= row["first_tick"]:
                oldest = min(archived[0], oldest, key=lambda tick: (tick["tick_id"] is None, tick["tick_id"]))
            newest = archived[-1] if newest["snapshot"] is None else newest
        return cls(
            newest["snapshot"],
            newest["due_until"],
            oldest["snapshot"],
            oldest["due_until"],
            row["ticks_dropped"],
            newest["floor_id"] or 0,
            newest["batch_seq"] or 0,
        )
