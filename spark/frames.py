"""The frames that the audits work on, each computed once and put down, so that none drags its history along."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqpg.spark import history
from mqpg.spark.inputs import Inputs

__all__ = ["Frames", "Keep", "derive", "stage"]

Keep = Callable[[str, DataFrame], DataFrame]


@dataclass(frozen=True)
class Frames:
    """One row a message (known), an offset (placed), an effect (applied), a delivery owed, a promise of a ledger.

    queued: ids with an offset of their topic; seen: ids with any offset or an effect; where: positions of groups.
    """

    topics: DataFrame
    ticks: DataFrame
    dropped: DataFrame
    queue_rows: DataFrame
    known: DataFrame
    placed: DataFrame
    queued: DataFrame
    applied: DataFrame
    where: DataFrame
    delivered: DataFrame
    promised: DataFrame
    seen: DataFrame


@contextlib.contextmanager
def stage() -> Iterator[Keep]:
    """A place for intermediate frames, as Parquet: read back, a frame has its true size and a plan of one node.

    (Cached frames keep their lineage: planning a union of twenty audits over it took longer than the audit.)
    """
    with tempfile.TemporaryDirectory(prefix="mqpg-audit-") as folder:

        def keep(name: str, frame: DataFrame) -> DataFrame:
            path = str(Path(folder, name))
            frame.write.parquet(path)
            return frame.sparkSession.read.schema(frame.schema).parquet(path)

        yield keep


def derive(inputs: Inputs, keep: Keep) -> Frames:
    """All frames from what was read."""
    raw = inputs.frames
    topics, dropped = keep("topics", raw["topic"]), keep("dropped", raw["dropped_segments"])
    queue_rows, ticks = keep("queue_rows", raw["consume_queue"]), keep("ticks", raw["tick"])
    bodies = raw["commit_log"].unionByName(raw["held"])
    known = keep("known", history.messages(bodies, raw["op_log"], raw["delayed"]))
    offsets = history.entries(queue_rows).join(F.broadcast(topics), "topic_id")
    placed = keep("placed", history.with_state(offsets, known, topics, dropped))
    queued = keep("queued", placed.where("subscription_id = 0").select("message_id").distinct())
    journal = history.applied_messages(raw["applied"], topics)
    applied = keep("applied", history.with_state(journal, known, topics, dropped))
    where = keep("where", history.positions(raw["subscription"], raw["cursors"], raw["offsets"], topics, queue_rows))
    retried = history.retries(raw["delayed"], placed.where("subscription_id > 0"))
    journalled = where.where(F.col("consumer_group").isin(inputs.journalled))
    delivered = keep("delivered", history.deliveries(placed, journalled, applied, retried, raw["dead_letter"]))
    seen = keep("seen", placed.select("message_id").unionByName(applied.select("message_id")).distinct())
    promised = keep(
        "promised",
        history.promises(known, raw["ledger"], raw["ledger_groups"])
        .join(seen.withColumn("was_seen", F.lit(True)), "message_id", "left")
        .join(F.broadcast(topics), "topic_id", "left")
        .withColumn("seen", F.col("was_seen").isNotNull()),
    )
    return Frames(topics, ticks, dropped, queue_rows, known, placed, queued, applied, where, delivered, promised, seen)
