"""The columns of every frame that the audit reads or returns.

Ids and transaction ids are bigint, times are UTC timestamps.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = [
    "ANOMALY",
    "APPLIED",
    "BODIES",
    "CURSORS",
    "CURSOR_HISTORY",
    "DEAD_LETTERS",
    "DECISIONS",
    "DEDUP",
    "DEFERRED",
    "DELAYED",
    "JUMPS",
    "LEDGER",
    "LEDGER_GROUPS",
    "LETTERS",
    "LOCAL_COMMITS",
    "MOVED",
    "OTHER_HALVES",
    "OFFSETS",
    "OUTBOX",
    "QUEUE_ROWS",
    "READERS",
    "REMAINS",
    "REPLAYS",
    "SUBSCRIPTIONS",
    "TICKS",
    "TOPICS",
    "conform",
]

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "array<int>": ArrayType(IntegerType()),
    "array<string>": ArrayType(StringType()),
    "array<bigint>": ArrayType(LongType()),
}


def _parse(text: str) -> StructType:
    # StructType.fromDDL needs a running JVM.
    columns = [column.split() for column in text.split(",")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns])


ANOMALY = _parse(
    "kind string, consumer_group string, topic string, queue_id int, queue_offset bigint, message_id bigint, "
    "evidence string"
)

# The log, one row for each record batch, and the surviving rows.
# covered: the newest tick's snapshot sees its transaction, so it must have an offset.
# may_be_dropped: the oldest remaining tick's snapshot sees its transaction, so its offset may have
# been dropped since.
# handle_hashes: for each half message the SHA-256 of the nonce in its handle. The handle itself is
# a secret of its producers.
# key_hashes: for each message a hash that is equal for equal keys.
# sizes: the number of payloads, keys, tags and headers.
# intact: whether the bodies match their checksum. Null if there is none.
# decision_gone: a half message whose decision retention has dropped.
BODIES = _parse(
    "first_id bigint, n int, xid bigint, born_at timestamp, topic_id int, producer_group_id int, kind string, "
    "check_at timestamp, covered boolean, may_be_dropped boolean, handle_hashes array<string>, decision_gone boolean, "
    "queue_id int, key_hashes array<bigint>, sizes array<int>, intact boolean"
)
# deliver_id: the message that holds the final payload.
# relayed_as: the message that delivers the commit of a half message of a relay topic.
DECISIONS = _parse(
    "message_id bigint, stage int, op string, xid bigint, at timestamp, visible_at timestamp, decided_by string, "
    "relayed_as bigint, covered boolean, may_be_dropped boolean, topic_id int, order_no bigint, deliver_id bigint, "
    "queue_id int"
)
# due: the due_until of the newest tick has reached its time.
DELAYED = _parse(
    "first_id bigint, n int, visible_at timestamp, xid bigint, topic_id int, subscription_id int, attempt int, "
    "due boolean, covered boolean, may_be_dropped boolean, written_at timestamp, deliver_id bigint, queue_id int"
)
QUEUE_ROWS = _parse(
    "base_offset bigint, tick_id bigint, topic_id int, subscription_id int, n int, queue_id int, "
    "first_ids array<bigint>, starts array<int>, attempts array<int>, deliver_ids array<bigint>"
)
TICKS = _parse("tick_id bigint, xmax bigint, xip array<bigint>, due_until timestamp, at timestamp")
# Where queues were added: their first number, and the batch ids that only it, or only the present one, has placed.
TOPICS = _parse("topic_id int, topic string, first_queues int, grown_from bigint, settled_batch bigint")
# filtered: it has, or had, a filter or tags.
SUBSCRIPTIONS = _parse("subscription_id int, consumer_group string, topic_id int, start string, filtered boolean")
CURSORS = _parse("subscription_id int, queue_id int, committed bigint, start_offset bigint")
# Messages that a group does not have to apply: its dead letters, and those that it skipped.
DEAD_LETTERS = _parse("subscription_id int, message_id bigint, attempts int")
# claims: the claims as JSON, null if there is none.
CURSOR_HISTORY = _parse(
    "subscription_id int, queue_id int, slot int, version bigint, committed bigint, claimed bigint, at timestamp, "
    "epoch bigint, action string, claims string"
)
# Every row of a subscription. reads: not a broadcast group's own row, through which nothing is
# delivered.
READERS = _parse(
    "subscription_id int, topic_id int, consumer_group string, mode string, on_failure string, "
    "retries_from timestamp, filtered boolean, reads boolean, topic string"
)
JUMPS = _parse(
    "jump_id bigint, at timestamp, subscription_id int, consumer_group string, topic string, queue_id int, "
    "from_offset bigint, to_offset bigint, why string, back boolean"
)
# The same with the topic's id, for looking up the offsets in archived queues.
MOVED = _parse("subscription_id int, topic_id int, queue_id int, from_offset bigint, to_offset bigint, back boolean")
# present: still a dead letter, neither redriven nor discarded.
LETTERS = _parse(
    "subscription_id int, message_id bigint, deliver_id bigint, attempts int, died_at timestamp, present boolean"
)
DEDUP = _parse("message_id bigint, slot bigint, topic_id int, dedup_hash string")
# dedup_hash: the SHA-256 of the row's id, which is also the message's dedup id.
OUTBOX = _parse("ledger string, dedup_hash string, state string, handle_id bigint, topic string, created_at timestamp")
REMAINS = _parse("family string, segment_no bigint")
# How often a seek back delivered a message again.
REPLAYS = _parse("subscription_id int, message_id bigint, times bigint")
# The half messages of topics that are not audited. A ledger may have rows of them.
OTHER_HALVES = _parse("first_id bigint, n int")

LEDGER = _parse("ledger string, message_id bigint, nonce string, entry string, created_at timestamp, done_at timestamp")
# Rows of a ledger whose local transaction committed, as reconciliation reads them.
LOCAL_COMMITS = _parse("ledger string, handle string, message_id bigint, nonce string")
# in_broker: the ledger is mqpg.audit_ledger, in the broker's own database.
LEDGER_GROUPS = _parse("producer_group_id int, producer_group string, ledger string, in_broker boolean")
APPLIED = _parse(
    "consumer_group string, topic string, queue_id int, queue_offset bigint, message_id bigint, "
    "applied_at timestamp, subscription_id int"
)
# Messages that a group deferred in its own database. Its position is beyond them, and a retry will
# apply them.
DEFERRED = _parse("consumer_group string, topic string, message_id bigint")
OFFSETS = _parse("consumer_group string, topic string, queue_id int, next_offset bigint")


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """Select exactly a schema's columns, in its order and types."""
    # One text for each column. The functions of PySpark ask the JVM a dozen times for each.
    return frame.selectExpr(
        *(f"cast({column.name} as {column.dataType.simpleString()}) as {column.name}" for column in schema)
    )
