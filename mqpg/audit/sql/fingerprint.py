"""Fingerprints of judged rows: for each part of a table, how many rows and the sum of their hashes.

A sum does not depend on the order, and the sum of a longer history is the sum of its parts. So the
rows that a run has just judged are added from its temporary tables, and the next run computes the
same over the original tables, without transferring a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["BROKER", "CLOSED", "USERS", "Fingerprint", "add", "grouped"]

# A message that is judged and not open.
CLOSED = (
    "({0} < (select j.until_id from judged as j) "
    "and not exists (select from open_message as o where o.message_id = {0}))"
)


@dataclass(frozen=True)
class Fingerprint:
    """What is hashed of a table."""

    family: str | None  # of the segments that keep its parts apart; None: a single part
    key: str  # the expression that the family's bounds cut
    columns: str  # what is hashed
    closed: str  # which rows of the temporary table are judged


BROKER: Mapping[str, Fingerprint] = {
    "body": Fingerprint(
        "log",
        "q.first_id >> 10",
        "q.first_id, q.n, q.xid, q.born_at, q.topic_id, q.producer_group_id, q.kind, q.delay, q.check_at, "
        "q.queue_id, q.handle_hashes, q.key_hashes, q.sizes, q.intact",
        # Single messages of a batch, and those that outlived it, have no sizes.
        "q.sizes is not null and q.first_id < (select j.until_id from judged as j)",
    ),
    "decision": Fingerprint(
        "log",
        "q.message_id >> 10",
        "q.message_id, q.topic_id, q.order_no, q.stage, q.op, q.xid, q.at, q.visible_at, q.decided_by, q.relayed_as, "
        "q.deliver_id, q.queue_id",
        CLOSED.format("q.message_id"),
    ),
    "tick": Fingerprint(
        "tick",
        "q.tick_id",
        "q.tick_id, q.snapshot::text, q.due_until, q.at, q.xid, q.floor_id, q.batch_seq, q.messages",
        "q.tick_id <= (select j.last_tick from judged as j)",
    ),
    "queue_row": Fingerprint(
        "tick",
        "q.tick_id",
        "q.base_offset, q.tick_id, q.topic_id, q.subscription_id, q.n, q.queue_id, q.first_ids, q.starts, q.attempts, "
        "q.deliver_ids",
        "q.tick_id <= (select j.last_tick from judged as j)",
    ),
    "delayed": Fingerprint(
        "delayed",
        "q.written_at",
        "q.message_id, q.deliver_id, q.queue_id, q.written_at, q.visible_at, q.topic_id, q.subscription_id, q.attempt, "
        "q.xid",
        CLOSED.format("q.message_id"),
    ),
    "letter": Fingerprint(
        None,
        "''",
        "q.subscription_id, q.message_id, q.deliver_id, q.queue_id, q.attempts, q.died_at, q.left_at, q.present, "
        "q.excuses",
        CLOSED.format("q.message_id"),
    ),
}
# The key is the consumer group, or the name of the ledger.
USERS: Mapping[str, Fingerprint] = {
    "applied": Fingerprint(
        None,
        "q.consumer_group::text",
        "q.consumer_group::text, q.topic::text, q.queue_id::int, q.queue_offset::bigint, q.message_id::bigint, "
        "q.applied_at::timestamptz, q.subscription_id::int",
        CLOSED.format("q.message_id"),
    ),
    "ledger_row": Fingerprint(
        None,
        "q.ledger::text",
        "q.ledger::text, q.message_id::bigint, q.handle_hash::text, q.entry::text, q.created_at::timestamptz, "
        "q.done_at::timestamptz, q.topic::text",
        CLOSED.format("q.message_id"),
    ),
}
_TYPES = {"log": "bigint", "tick": "bigint", "delayed": "timestamptz"}


def grouped(fingerprint: Fingerprint, rows: str, bounds: Mapping[str, list[str]]) -> str:
    """The query for the fingerprint of each part.

    `rows` is a FROM item with the name q, and perhaps a WHERE clause. `bounds` has the lower bounds of the
    segments of each family.
    """
    part = fingerprint.key
    if fingerprint.family:
        listed = ",".join(f'"{bound}"' for bound in bounds.get(fingerprint.family, []))
        kind = _TYPES[fingerprint.family]
        part = f"width_bucket(({part})::{kind}, '{{{listed}}}'::{kind}[])::text" if listed else "'0'"
    return f"select {part} as part, count(*) as n, {_digest(fingerprint.columns)} as digest from {rows} group by 1"


def _digest(columns: str) -> str:
    # Hashing a record takes half as long as hashing its text. The hash of a record is a sum over
    # its columns, so a sum over rows would not see that two rows have exchanged a value. The
    # second hash prevents that.
    return f"sum(hashint8extended(hash_record_extended(row({columns}), 0), 0))"


def add(into: dict[str, list[int]], found: Mapping[str, list[int]]) -> None:
    """Add the fingerprints of more rows of a table, by part. `into` is changed."""
    for part, (n, digest) in found.items():
        old = into.setdefault(part, [0, 0])
        into[part] = [old[0] + n, old[1] + digest]
