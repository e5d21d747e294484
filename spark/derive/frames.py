"""The frames in which anomalies are looked for.

Each frame is computed once and written to Parquet, which cuts its lineage.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..read.inputs import AuditInputs
from ..read.session import run_concurrently
from .deliveries import derive_deliveries, derive_positions, derive_retries
from .messages import (
    IdRanges,
    add_message_state,
    add_topic_id,
    derive_entries,
    derive_messages,
    match_ledger,
)
from .parquet import ParquetStore

__all__ = ["Frames", "derive_frames"]


@dataclass(frozen=True)
class Frames:
    """Everything that the anomalies are computed from.

    Attributes:
        topics: The audited topics.
        ticks: The ticks of the appender.
        queue_rows: The consume queues as stored.
        messages: One row for each message, with its state.
        entries: One row for each offset of the consume queues, with the state of its message.
        queued_ids: The ids of messages that have an offset in a topic's own queue.
        effects: One row for each journal row, with the state of its message.
        positions: Where each group is in each queue.
        deliveries: One row for each group with a journal and each offset since its start.
        ledger_matches: One row for each half message of a producer group with a ledger, matched
            with its ledger row. `seen` says whether it is in a queue or applied.
        seen_ids: The ids of messages that are in any queue or applied.
        replays: How often a seek back delivered a message again.
        dropped_ranges: The ids of messages that retention has dropped.
    """

    topics: DataFrame
    ticks: DataFrame
    queue_rows: DataFrame
    messages: DataFrame
    entries: DataFrame
    queued_ids: DataFrame
    effects: DataFrame
    positions: DataFrame
    deliveries: DataFrame
    ledger_matches: DataFrame
    seen_ids: DataFrame
    replays: DataFrame
    dropped_ranges: IdRanges


def derive_frames(inputs: AuditInputs, store: ParquetStore) -> Frames:
    """Derive all frames.

    Args:
        inputs: What was read.
        store: Where the frames are written.

    Returns:
        The frames.
    """
    raw = {name: store.narrow(frame) for name, frame in inputs.frames.items()}
    topics, queue_rows, dropped_ranges = raw["topic"], raw["consume_queue"], inputs.dropped_ranges
    bodies = store.narrow(raw["commit_log"].unionByName(raw["survivor"]))
    messages = store.materialize("messages", derive_messages(bodies, raw["op_log"], raw["delayed"]))
    offsets = derive_entries(queue_rows).join(topics, "topic_id")
    journal = add_topic_id(raw["applied"], topics)
    cursors = derive_positions(raw["subscription"], raw["cursors"], raw["offsets"], topics, queue_rows)
    entries, effects, positions = run_concurrently(
        lambda: store.materialize("entries", add_message_state(offsets, messages, topics, dropped_ranges)),
        lambda: store.materialize("effects", add_message_state(journal, messages, topics, dropped_ranges)),
        lambda: store.materialize("positions", cursors),
    )
    queued_ids = entries.where("subscription_id = 0").select("message_id").distinct()
    seen_ids = store.narrow(entries.select("message_id").unionByName(effects.select("message_id"))).distinct()
    retry_entries = entries.where("subscription_id > 0")
    retries = store.narrow(derive_retries(raw["delayed"], retry_entries, raw["deferred"], raw["subscription"], topics))
    with_journal = positions.where(F.col("consumer_group").isin(inputs.groups_with_journal))
    matches = match_ledger(messages, raw["ledger"], raw["ledger_groups"])
    matches = matches.join(seen_ids.withColumn("is_seen", F.lit(True)), "message_id", "left")
    matches = matches.withColumn("seen", F.col("is_seen").isNotNull()).drop("is_seen")
    deliveries, ledger_matches = run_concurrently(
        lambda: store.materialize(
            "deliveries", derive_deliveries(entries, with_journal, effects, retries, raw["dead_letter"])
        ),
        lambda: store.materialize("ledger_matches", matches.join(topics, "topic_id", "left")),
    )
    return Frames(
        topics=topics,
        ticks=raw["tick"],
        queue_rows=queue_rows,
        messages=messages,
        entries=entries,
        queued_ids=queued_ids,
        effects=effects,
        positions=positions,
        deliveries=deliveries,
        ledger_matches=ledger_matches,
        seen_ids=seen_ids,
        replays=raw["replay"],
        dropped_ranges=dropped_ranges,
    )
