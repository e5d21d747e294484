"""The frames that the audits work on, each computed once and put down, so that none drags its history along."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..read.inputs import Inputs
from ..read.session import together
from . import deliveries, messages
from .stage import Stage

__all__ = ["Frames", "derive"]


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
    dropped: messages.Segments


def derive(inputs: Inputs, to: Stage) -> Frames:
    """All frames from what was read."""
    raw = {name: to.narrow(frame) for name, frame in inputs.frames.items()}
    topics, queue_rows, dropped = raw["topic"], raw["consume_queue"], inputs.dropped
    bodies = to.narrow(raw["commit_log"].unionByName(raw["survivor"]))
    known = to.keep("known", messages.messages(bodies, raw["op_log"], raw["delayed"]))
    offsets = messages.entries(queue_rows).join(topics, "topic_id")
    journal = messages.applied_messages(raw["applied"], topics)
    spots = deliveries.positions(raw["subscription"], raw["cursors"], raw["offsets"], topics, queue_rows)
    placed, applied, where = together(
        lambda: to.keep("placed", messages.with_state(offsets, known, topics, dropped)),
        lambda: to.keep("applied", messages.with_state(journal, known, topics, dropped)),
        lambda: to.keep("where", spots),
    )
    queued = placed.where("subscription_id = 0").select("message_id").distinct()
    seen = to.narrow(placed.select("message_id").unionByName(applied.select("message_id"))).distinct()
    lanes = placed.where("subscription_id > 0")
    retried = to.narrow(deliveries.retries(raw["delayed"], lanes, raw["deferred"], raw["subscription"], topics))
    journalled = where.where(F.col("consumer_group").isin(inputs.journalled))
    promises = messages.promises(known, raw["ledger"], raw["ledger_groups"])
    sighted = promises.join(seen.withColumn("sighted", F.lit(True)), "message_id", "left")
    delivered, promised = together(
        lambda: to.keep("delivered", deliveries.deliveries(placed, journalled, applied, retried, raw["dead_letter"])),
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
