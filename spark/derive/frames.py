"""The frames in which anomalies are looked for.

Each frame is computed once and kept, which cuts its lineage. Those with one row for each message
are kept in partitions by message id, so that the joins and groups by message need no shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..read.inputs import AuditInputs
from ..read.session import run_concurrently
from ..read.stores import FrameStore
from .batch_ids import derive_deleted, derive_first_sends
from .cursor_history import (
    derive_failures,
    derive_known_since,
    derive_letters,
    derive_released,
    derive_transitions,
)
from .deliveries import (
    add_dropped_replays,
    add_lives,
    derive_deliveries,
    derive_positions,
    derive_retries,
    derive_retry_times,
)
from .messages import (
    IdRanges,
    add_message_state,
    add_topic_id,
    derive_entries,
    derive_messages,
    expand_batches,
    match_ledger,
)
from .outbox import derive_outbox, match_outbox

__all__ = ["Frames", "derive_frames"]

_ID = "message_id"
# Frames that have few rows as a rule, and that a row of each message is joined with.
_LOOKED_UP = ("topic", "subscription", "cursors", "offsets", "ledger_groups", "tick", "replay", "dead_letter")


@dataclass(frozen=True)
class Frames:
    """Everything that the anomalies are computed from.

    Attributes:
        topics: The audited topics.
        growth: The same, with the numbers of queues that they had.
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
        transitions: One row for each version of a cursor, with the version before it.
        readers: Every row of a subscription.
        decisions: The decisions as stored.
        delayed: The delayed messages and retries as stored.
        bodies: The record batches as stored, with the surviving messages.
        retry_times: When each retry becomes visible.
        outbox: The rows of outboxes, with the states of their messages.
        dedup: The dedup ids of recent sends, as hashes.
        deleted: Messages without a row that another table names.
        known_since: Since when the history of each queue's cursor is known.
        released: The offsets that each version of a cursor released.
        failures: The messages whose delivery failed.
        letters: The dead letters of present subscriptions, redriven and discarded ones too.
        remains: Segments that are marked as dropped although their rows are there.
        jumps: The ranges of offsets that groups were moved over on purpose.
        replays: How often a seek back delivered a message again.
        dropped_ranges: The ids of messages that retention has dropped.
    """

    topics: DataFrame
    growth: DataFrame
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
    transitions: DataFrame
    readers: DataFrame
    decisions: DataFrame
    delayed: DataFrame
    bodies: DataFrame
    retry_times: DataFrame
    outbox: DataFrame
    dedup: DataFrame
    deleted: DataFrame
    known_since: DataFrame
    released: DataFrame
    failures: DataFrame
    letters: DataFrame
    remains: DataFrame
    jumps: DataFrame
    replays: DataFrame
    dropped_ranges: IdRanges


def derive_frames(inputs: AuditInputs, store: FrameStore) -> Frames:
    """Derive all frames."""
    raw = {name: store.narrow(frame) for name, frame in inputs.frames.items()}
    raw |= {name: F.broadcast(raw[name]) for name in _LOOKED_UP if store.tuning.broadcasts(inputs.rows_of(name))}
    raw["growth"], raw["topic"] = raw["topic"], raw["topic"].select("topic_id", "topic")
    raw["body"] = store.narrow(raw["commit_log"].unionByName(raw["survivor"]))
    messages, positions, transitions = _derive_states(raw, store)
    entries, effects = _derive_places(raw, messages, inputs, store)
    seen_ids = store.narrow(entries.select("message_id").unionByName(effects.select("message_id"))).distinct()
    known_since, released = derive_known_since(transitions), derive_released(transitions)
    outbox = derive_outbox(raw["outbox"], raw["dedup"], messages, raw["topic"])
    deliveries, ledger_matches, failures = run_concurrently(
        lambda: store.materialize(
            "deliveries", _derive_deliveries(raw, positions, entries, effects, inputs, store), key=_ID
        ),
        lambda: store.materialize("ledger_matches", _match_halves(raw, messages, outbox, seen_ids), key=_ID),
        lambda: store.materialize("failures", derive_failures(released, entries)),
    )
    witnesses = _witnesses(raw, entries)
    if inputs.all_topics:
        witnesses |= _outside_witnesses(effects, outbox, ledger_matches)
    return Frames(
        topics=raw["topic"],
        growth=raw["growth"],
        ticks=raw["tick"],
        queue_rows=raw["consume_queue"],
        messages=messages,
        entries=entries,
        queued_ids=entries.where("subscription_id = 0").select("message_id").distinct(),
        effects=effects,
        positions=positions,
        deliveries=deliveries,
        ledger_matches=ledger_matches,
        seen_ids=seen_ids,
        transitions=transitions,
        readers=raw["reader"],
        decisions=raw["op_log"],
        delayed=raw["delayed"],
        bodies=raw["body"],
        retry_times=derive_retry_times(raw["delayed"]),
        outbox=outbox,
        dedup=raw["dedup"],
        deleted=derive_deleted(messages, witnesses, inputs.dropped_ranges, newest_id=inputs.newest_id),
        known_since=known_since,
        released=released,
        failures=failures,
        letters=derive_letters(raw["letter"], known_since, raw["reader"]),
        remains=raw["remains"],
        jumps=raw["jump"],
        replays=_derive_replays(raw, inputs, effects, entries),
        dropped_ranges=inputs.dropped_ranges,
    )


def _derive_states(raw: dict[str, DataFrame], store: FrameStore) -> list[DataFrame]:
    """The states of messages and of groups: messages, positions, transitions."""
    cursors = derive_positions(raw["subscription"], raw["cursors"], raw["offsets"], raw["topic"], raw["consume_queue"])
    # The messages of a small history are one task, which leaves a core to the others.
    states = derive_messages(raw["body"], raw["op_log"], raw["delayed"])
    return run_concurrently(
        lambda: store.materialize("messages", states, key=_ID),
        lambda: store.materialize("positions", cursors),
        lambda: store.materialize("transitions", derive_transitions(raw["cursor_history"], raw["reader"])),
    )


def _derive_places(
    raw: dict[str, DataFrame], messages: DataFrame, inputs: AuditInputs, store: FrameStore
) -> list[DataFrame]:
    """Where messages went, with their states: entries of queues, and effects of journals."""
    topics, dropped_ranges = raw["topic"], inputs.dropped_ranges
    offsets = derive_entries(raw["consume_queue"]).join(topics, "topic_id")
    journal = add_lives(add_topic_id(raw["applied"], topics), raw["subscription"], raw["offsets"], topics)
    return run_concurrently(
        lambda: store.materialize("entries", add_message_state(offsets, messages, topics, dropped_ranges), key=_ID),
        lambda: store.materialize("effects", add_message_state(journal, messages, topics, dropped_ranges), key=_ID),
    )


def _derive_deliveries(
    raw: dict[str, DataFrame],
    positions: DataFrame,
    entries: DataFrame,
    effects: DataFrame,
    inputs: AuditInputs,
    store: FrameStore,
) -> DataFrame:
    """What each group with a journal was to apply, and what it applied."""
    retry_entries = entries.where("subscription_id > 0")
    retries = store.narrow(
        derive_retries(raw["delayed"], retry_entries, raw["deferred"], raw["subscription"], raw["tick"], raw["topic"])
    )
    unattributed = effects.where("unattributed").select("consumer_group", "topic_id").distinct()
    with_journal = positions.where(F.col("consumer_group").isin(inputs.groups_with_journal))
    with_journal = with_journal.join(unattributed, ["consumer_group", "topic_id"], "left_anti")
    return derive_deliveries(
        entries,
        with_journal,
        effects,
        retries,
        raw["dead_letter"],
        inputs.archived_ranges,
        inputs.jumps_purged_before,
    )


def _match_halves(raw: dict[str, DataFrame], messages: DataFrame, outbox: DataFrame, seen_ids: DataFrame) -> DataFrame:
    """Half messages beside their rows in ledgers and outboxes, with `seen` and their topics."""
    other_halves = expand_batches(raw["other_half"]).select("message_id")
    ledger = raw["ledger"].join(other_halves, "message_id", "left_anti")
    matches = match_ledger(messages, ledger, raw["ledger_groups"])
    matches = matches.unionByName(match_outbox(messages, outbox, raw["outbox_groups"]), allowMissingColumns=True)
    matches = matches.join(seen_ids.withColumn("is_seen", F.lit(True)), "message_id", "left")
    matches = matches.withColumn("seen", F.col("is_seen").isNotNull()).drop("is_seen")
    return matches.join(raw["topic"], "topic_id", "left")


def _derive_replays(
    raw: dict[str, DataFrame], inputs: AuditInputs, effects: DataFrame, entries: DataFrame
) -> DataFrame:
    if not inputs.complete and any(row["back"] for row in inputs.broker["left_out"]):
        return add_dropped_replays(raw["replay"], raw["jump"], effects, entries)
    return raw["replay"]


def _witnesses(raw: dict[str, DataFrame], entries: DataFrame) -> dict[str, DataFrame]:
    """The broker's own rows that name a message, by where they are."""
    return {
        "a queue": entries.where("state = 'missing'"),
        "the op log": raw["op_log"],
        "the delayed messages": raw["delayed"],
        "the dedup ids": derive_first_sends(raw["dedup"]),
    }


def _outside_witnesses(effects: DataFrame, outbox: DataFrame, ledger_matches: DataFrame) -> dict[str, DataFrame]:
    """The rows of users' databases that name a message, if the audit reads every topic."""
    return {
        "a journal": effects.where("state = 'missing'"),
        "an outbox": outbox.where("state in ('commit', 'rollback') and message_id is not null"),
        "a ledger": ledger_matches.where("not audited and entry = 'local'"),
    }
