"""Adding what an archive has to the frames of a broker."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqpg.audit.archived import read_ranges

from . import queries, schemas
from .archive import Archive
from .archived_rows import archived_rows, in_bounds, jumped_over
from .chunks import frame_of_rows
from .horizon import Horizon
from .schemas import conform
from .snapshot import Snapshot
from .stores import FrameStore

__all__ = ["add_archived"]

# The frames that have rows of an archived table, each with its table and columns.
_FRAMES = {
    "commit_log": ("commit_log", schemas.BODIES),
    "op_log": ("op_log", schemas.DECISIONS),
    "delayed": ("delayed", schemas.DELAYED),
    "consume_queue": ("consume_queue", schemas.QUEUE_ROWS),
    "tick": ("tick", schemas.TICKS),
    "cursor_history": ("cursor", schemas.CURSOR_HISTORY),
}
_SCOPED = ("commit_log", "op_log", "delayed", "consume_queue")


def add_archived(
    frames: dict[str, DataFrame],
    archive: Archive,
    horizon: Horizon,
    broker: Snapshot,
    scope: tuple[list[int], list[int]] | None,
    store: FrameStore | None,
) -> dict[str, int]:
    """Add the archived rows to the frames of the live tables, and to those that follow from them.

    Args:
        frames: The frames by the name of their query, which are replaced.
        archive: The archive.
        horizon: How far the appender is.
        broker: The broker's snapshot.
        scope: The ids of the audited topics, and those of all present topics. None means that all topics are
            audited.
        store: Where the rows of a large audit are kept. None means a small audit.

    Returns:
        How many rows were added, by a name for the report.
    """
    archive.verify()
    ranges = dict(archive.chosen.ranges)
    # Of a dropped segment the decisions may still be there.
    shown = broker.rows(
        f"select lower(r)::text as low, upper(r)::text as high from unnest({read_ranges('op_log', ranges['op_log'])}) r"
    )
    ranges["op_log"] = [(row["low"], row["high"]) for row in shown]
    raw = {
        table: found.where(in_bounds(table, bounds))
        for table, bounds in ranges.items()
        if bounds and (found := archive.rows(table)) is not None
    }
    inside = "true"
    if scope is not None:
        audited, present = (", ".join(map(str, ids)) or "null" for ids in scope)
        inside = f"(topic_id in ({audited}) or coalesce(topic_id not in ({present}), true))"
    rows = {}
    for name, (table, schema) in _FRAMES.items():
        if table not in raw:
            continue
        chosen = raw[table].where(inside) if name in _SCOPED else raw[table]
        frame = conform(archived_rows(name, chosen, horizon), schema)
        large = store is not None and not store.tuning.small
        kept = store.materialize(f"archived {name}", frame) if store and large else frame.persist()
        frames[name] = frames[name].unionByName(kept)
        rows[f"{name} archived"] = sum(int(one["n"]) for one in archive.chosen.of(table))
    if "commit_log" in raw:
        batches = raw["commit_log"].select("batch_id").distinct()
        held = frames["survivor"].withColumn("batch_id", F.expr("first_id >> 10"))
        frames["survivor"] = held.join(batches, "batch_id", "left_anti").drop("batch_id")
        if scope is not None:
            others = raw["commit_log"].where(f"kind = 'h' and not {inside}")
            others = conform(archived_rows("other_half", others, horizon), schemas.OTHER_HALVES)
            frames["other_half"] = frames["other_half"].unionByName(others)
    if "consume_queue" in raw:
        jumps = broker.rows(queries.JUMPS)
        if jumps:
            moved = frame_of_rows(archive.spark, [tuple(row.values()) for row in jumps], schemas.MOVED)
            queues = conform(archived_rows("consume_queue", raw["consume_queue"], horizon), schemas.QUEUE_ROWS)
            _add_jumped(frames, jumped_over(moved, queues))
    return rows


def _add_jumped(frames: dict[str, DataFrame], jumped: DataFrame) -> None:
    """Add messages in archived queues to those that do not have to be applied, and to the replays."""
    names = ["subscription_id", "message_id"]
    passed = jumped.where("not back").select(*names, F.lit(0).alias("attempts"))
    excused = frames["dead_letter"].unionByName(passed)
    excused = excused.groupBy(*names).agg(F.max("attempts").alias("attempts"))
    frames["dead_letter"] = conform(excused, schemas.DEAD_LETTERS)
    again = jumped.where("back").select(*names, F.lit(1).alias("times"))
    replays = frames["replay"].unionByName(again).groupBy(*names).agg(F.sum("times").alias("times"))
    frames["replay"] = conform(replays, schemas.REPLAYS)
