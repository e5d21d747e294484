"""The frames that the audits work on, each computed once and put down, so that none drags its history along."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqpg.spark import groups, history
from mqpg.spark.inputs import Inputs
from mqpg.spark.session import together

__all__ = ["Frames", "Stage", "derive", "interpreted", "stage"]

# Up to so many rows one task that interprets is done sooner than shuffles, broadcasts and the compilation of
# some hundred generated classes are set up.
_SMALL = 400_000
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_ONE_TASK = _INTERPRETED | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True)
class Frames:
    """One row a message (known), an offset (placed), an effect (applied), a delivery owed, a promise of a ledger.

    queued: ids with an offset of their topic; seen: ids with any offset or an effect; where: positions of groups;
    again: what a seek back brought again; dropped: ranges of ids whose messages are dropped.
    """

    topics: DataFrame
    ticks: DataFrame
    queue_rows: DataFrame
    known: DataFrame
    placed: DataFrame
    queued: DataFrame
    applied: DataFrame
    where: DataFrame
    delivered: DataFrame
    promised: DataFrame
    seen: DataFrame
    again: DataFrame
    dropped: history.Segments


@dataclass(frozen=True)
class Stage:
    """A place for frames, as Parquet: read back, a frame has its true size and a plan of one node.

    (Cached frames keep their lineage: planning a union of twenty audits over it took longer than the audit.)
    small: frames are single partitions, so that their joins need no shuffle.
    """

    folder: Path
    small: bool

    def narrow(self, frame: DataFrame) -> DataFrame:
        """The frame in as many partitions as suit the stage."""
        return frame.coalesce(1) if self.small else frame

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """The frame, put down and read back."""
        path = str(self.folder / name)
        self.narrow(frame).write.parquet(path)
        return self.narrow(frame.sparkSession.read.schema(frame.schema).parquet(path))


@contextlib.contextmanager
def stage(spark: SparkSession, rows: int) -> Iterator[Stage]:
    """A stage for an audit of so many rows, and the settings that suit it, until the block ends."""
    small = rows <= _SMALL
    with tempfile.TemporaryDirectory(prefix="mqpg-audit-") as folder, _settings(spark, _ONE_TASK if small else {}):
        yield Stage(Path(folder), small)


def interpreted(spark: SparkSession) -> contextlib.AbstractContextManager[None]:
    """Plain reads gain nothing from generated code, whose compilation a short job feels."""
    return _settings(spark, _INTERPRETED)


@contextlib.contextmanager
def _settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    before: dict[str, str | None] = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def derive(inputs: Inputs, to: Stage) -> Frames:
    """All frames from what was read."""
    raw = {name: to.narrow(frame) for name, frame in inputs.frames.items()}
    topics, queue_rows, dropped = raw["topic"], raw["consume_queue"], inputs.dropped
    bodies = to.narrow(raw["commit_log"].unionByName(raw["held"]))
    known = to.keep("known", history.messages(bodies, raw["op_log"], raw["delayed"]))
    offsets = history.entries(queue_rows).join(topics, "topic_id")
    journal = history.applied_messages(raw["applied"], topics)
    spots = groups.positions(raw["subscription"], raw["cursors"], raw["offsets"], topics, queue_rows)
    placed, applied, where = together(
        lambda: to.keep("placed", history.with_state(offsets, known, topics, dropped)),
        lambda: to.keep("applied", history.with_state(journal, known, topics, dropped)),
        lambda: to.keep("where", spots),
    )
    queued = placed.where("subscription_id = 0").select("message_id").distinct()
    seen = to.narrow(placed.select("message_id").unionByName(applied.select("message_id"))).distinct()
    lanes = placed.where("subscription_id > 0")
    retried = to.narrow(groups.retries(raw["delayed"], lanes, raw["deferred"], raw["subscription"], topics))
    journalled = where.where(F.col("consumer_group").isin(inputs.journalled))
    promises = history.promises(known, raw["ledger"], raw["ledger_groups"])
    sighted = promises.join(seen.withColumn("sighted", F.lit(True)), "message_id", "left")
    delivered, promised = together(
        lambda: to.keep("delivered", groups.deliveries(placed, journalled, applied, retried, raw["dead_letter"])),
        lambda: to.keep(
            "promised",
            sighted.withColumn("seen", F.col("sighted").isNotNull()).drop("sighted").join(topics, "topic_id", "left"),
        ),
    )
    return Frames(
        topics,
        raw["tick"],
        queue_rows,
        known,
        placed,
        queued,
        applied,
        where,
        delivered,
        promised,
        seen,
        raw["again"],
        dropped,
    )
