"""The SQL behind each frame. What depends on PostgreSQL's idea of visibility is decided here, by PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.sql import SQL, Composable, Identifier, Literal
from pyspark.sql.types import StructType

from . import schemas

__all__ = [
    "DROPPED_SEGMENTS",
    "Source",
    "applied_source",
    "broker_sources",
    "cursor_source",
    "deferred_source",
    "ledger_source",
    "offsets_source",
    "promises_source",
]

_HANDLE = r"^[^.]+\.[0-9]+\.[0-9]{1,18}\.[0-9a-f]{32}$"
_NEWEST = "(select k.snapshot from mqpg.tick k order by k.tick_id desc limit 1)"
_NEWEST_DUE = "(select k.due_until from mqpg.tick k order by k.tick_id desc limit 1)"
# The first tick whose consume_queue rows are all there still; what it had seen may have been appended before it.
_FIRST_KEPT = (
    "(select coalesce(max(s.upper_bound::bigint), 0) from mqpg.segment s "
    "where s.family = 'tick' and s.body_dropped_at is not null)"
)
_OLDEST = f"(select k.snapshot from mqpg.tick k where k.tick_id >= {_FIRST_KEPT} order by k.tick_id limit 1)"
_OLDEST_DUE = f"(select k.due_until from mqpg.tick k where k.tick_id >= {_FIRST_KEPT} order by k.tick_id limit 1)"
_TICKS_DROPPED = "exists (select from mqpg.segment s where s.family = 'tick' and s.body_dropped_at is not null)"
# Decisions go later than bodies, and never while one of them is still to be made.
_DECISIONS_GONE = (
    "exists (select from mqpg.segment s where s.family = 'log' and s.dropped_at is not null "
    "and x.message_id >= s.lower_bound::bigint * 1024 and x.message_id < s.upper_bound::bigint * 1024)"
)

# What groups were moved over, or are to get again, as ids: offsets of jumps, found in the queues as far as these go.
_JUMPED = (
    "(select j.subscription_id, j.consumer_group, j.topic, j.back, c.first_ids[u.i] + o.o - u.start as message_id "
    "from mqpg.position_jump j join mqpg.consume_queue c on c.topic_id = j.topic_id and c.queue_id = j.queue_id "
    "and c.subscription_id = case j.queue_id when -1 then j.subscription_id else 0 end "
    "and c.base_offset < j.to_offset and c.base_offset + c.n > j.from_offset "
    "cross join lateral unnest(c.starts) with ordinality as u(start, i) "
    "cross join lateral generate_series(u.start, coalesce(c.starts[u.i + 1], c.n) - 1) as o(o) "
    "where c.base_offset + o.o >= j.from_offset and c.base_offset + o.o < j.to_offset)"
)
# Dead letters, those that were discarded, what was left out by seek, purge, expiry or policy, and what a filter does
# not choose: settled on purpose.
_SETTLED_APART = (
    "(select d.subscription_id, d.message_id, max(d.attempts) as attempts from ("
    "select l.subscription_id, l.message_id, l.attempts from mqpg.dead_letter l "
    "union all select f.subscription_id, f.message_id, f.attempts from mqpg.former_dead_letter f "
    "where f.fate = 'discarded' "
    f"union all select j.subscription_id, j.message_id, 0 from {_JUMPED} j where not j.back "
    "union all select u.subscription_id, u.message_id, 0 from mqpg._unmatched_messages() u) d group by 1, 2)"
)

DROPPED_SEGMENTS = """
select lower_bound::bigint * 1024 as first_id, upper_bound::bigint * 1024 - 1 as last_id
from mqpg.segment where family = 'log' and body_dropped_at is not null
"""


@dataclass(frozen=True)
class Source:
    """A row set: `columns` of `origin` (FROM and WHERE), cut into partitions along the integer `key`."""

    name: str
    columns: str
    origin: str
    schema: StructType
    key: str | None = None


def _settled(xid: str) -> str:
    return f"coalesce(pg_visible_in_snapshot({xid}, {_NEWEST}), false) as settled"


def _forgotten(xid: str, also: str = "true") -> str:
    return f"{_TICKS_DROPPED} and {also} and coalesce(pg_visible_in_snapshot({xid}, {_OLDEST}), true) as forgotten"


def _text(composed: Composable) -> str:
    return composed.as_string(None)


def broker_sources(topic_ids: list[int] | None) -> list[Source]:
    """What is read of a broker; with topic ids only those topics, and dropped ones (their ids may turn up)."""
    scope = "true"
    if topic_ids is not None:
        scope = _text(
            SQL("(x.topic_id = any({}::int[]) or x.topic_id not in (select t.topic_id from mqpg.topic t))").format(
                Literal(topic_ids)
            )
        )
    body = (
        "x.xid::text::bigint as xid, x.born_at, x.topic_id, x.producer_group_id, x.kind::text as kind, "
        f"replace(x.nonce::text, '-', '') as nonce, x.check_at, {_settled('x.xid')}, {_forgotten('x.xid')}"
    )
    return [
        Source(
            "commit_log",
            f"x.batch_id * 1024 as first_id, x.n::int as n, {body}, false as decision_gone",
            f"mqpg.commit_log x where {scope}",
            schemas.BODIES,
            "x.batch_id",
        ),
        Source(
            "survivor",
            f"x.message_id as first_id, 1 as n, {body}, {_DECISIONS_GONE} as decision_gone",
            "mqpg.survivor x where not exists (select from mqpg.commit_log c where c.batch_id = x.message_id >> 10) "
            f"and {scope}",
            schemas.BODIES,
        ),
        Source(
            "op_log",
            "x.message_id, x.stage::int as stage, x.op::text as op, x.xid::text::bigint as xid, x.at, "
            "nullif(x.visible_at, 'infinity') as visible_at, x.decided_by, "
            # the commit of a relay topic's half travels as a message of its own
            "case when x.visible_at = 'infinity' then x.deliver_id end as relayed_as, "
            f"{_settled('x.xid')}, {_forgotten('x.xid')}",
            f"mqpg.op_log x where {scope}",
            schemas.DECISIONS,
            "x.message_id",
        ),
        Source(
            "delayed",
            "x.first_id, x.n::int as n, x.visible_at, x.xid::text::bigint as xid, x.topic_id, x.subscription_id, "
            f"x.attempt::int as attempt, coalesce(x.visible_at <= {_NEWEST_DUE}, false) as due, {_settled('x.xid')}, "
            f"{_forgotten('x.xid', f'x.visible_at <= {_OLDEST_DUE}')}",
            f"mqpg.delayed x where {scope}",
            schemas.DELAYED,
            "x.first_id",
        ),
        Source(
            "consume_queue",
            "x.base_offset, x.tick_id, x.topic_id, x.subscription_id, x.n, x.queue_id::int as queue_id, x.first_ids, "
            "x.starts, x.attempts::int[] as attempts",
            f"mqpg.consume_queue x where {scope}",
            schemas.QUEUE_ROWS,
            "x.tick_id",
        ),
        Source(
            "tick",
            "x.tick_id, pg_snapshot_xmax(x.snapshot)::text::bigint as xmax, "
            "array(select i::text::bigint from pg_snapshot_xip(x.snapshot) i) as xip, x.due_until, x.at",
            "mqpg.tick x",
            schemas.TICKS,
            "x.tick_id",
        ),
        Source("topic", "x.topic_id, x.name as topic", f"mqpg.topic x where {scope}", schemas.TOPICS),
        Source(
            "subscription",
            "x.subscription_id, x.consumer_group, x.topic_id, x.start",
            # a broadcast group's own row is never read by: its members have the positions
            f"mqpg.subscription x where {scope} and (x.mode <> 'broadcast' or x.member <> '')",
            schemas.SUBSCRIPTIONS,
        ),
        Source(
            "dead_letter",
            "x.subscription_id, x.message_id, x.attempts",
            f"{_SETTLED_APART} x",
            schemas.DEAD_LETTERS,
        ),
        Source(
            "again",
            "x.consumer_group, x.topic, x.message_id, x.times",
            "(select j.consumer_group, j.topic, j.message_id, count(*) as times "
            f"from {_JUMPED} j where j.back group by 1, 2, 3) x",
            schemas.AGAIN,
        ),
    ]


def cursor_source() -> Source:
    """The newest cursor of each queue of each subscription, and where the subscription started if still known."""
    return Source(
        "cursor",
        "x.subscription_id, x.queue_id, x.committed, x.start_offset",
        "(select distinct on (c.subscription_id, c.queue_id) c.subscription_id, c.queue_id::int as queue_id, "
        "c.committed, (select s.committed from mqpg.cursor s where s.subscription_id = c.subscription_id "
        "and s.queue_id = c.queue_id and s.version = 1 and s.action = 's' limit 1) as start_offset "
        "from mqpg.cursor c order by c.subscription_id, c.queue_id, c.version desc) x",
        schemas.CURSORS,
    )


def ledger_source(label: str, table: tuple[str, str], broker_id: str) -> Source:
    """The rows of a ledger that belong to one broker; `table` is (schema, name), mqpg.ledger or an mqpg_ledger."""
    times = "x.at as created_at, null::timestamptz as done_at" if table[0] == "mqpg" else "x.created_at, x.done_at"
    columns = (
        _text(
            SQL(
                "{} as ledger, split_part(x.handle, '.', 3)::bigint as message_id, "
                "split_part(x.handle, '.', 4) as nonce, x.entry::text as entry, "
            ).format(Literal(label))
        )
        + times
    )
    origin = _text(
        SQL("{} x where case when x.handle ~ {} then split_part(x.handle, '.', 1) = {} else false end").format(
            Identifier(*table), Literal(_HANDLE), Literal(broker_id)
        )
    )
    return Source(f"ledger {label}", columns, origin, schemas.LEDGER, "(hashtext(x.handle) & 2147483647)")


def promises_source(label: str, table: tuple[str, str], broker_id: str, before: datetime) -> Source:
    """The committed rows of a ledger that belong to one broker and were written before a time."""
    columns = _text(
        SQL(
            "{} as ledger, x.handle::text as handle, split_part(x.handle, '.', 3)::bigint as message_id, "
            "split_part(x.handle, '.', 4) as nonce"
        ).format(Literal(label))
    )
    written = SQL("x.at" if table[0] == "mqpg" else "x.created_at")
    origin = SQL(
        "{} x where case when x.handle ~ {} then split_part(x.handle, '.', 1) = {} else false end "
        "and x.entry = 'local' and {} <= {}"
    ).format(Identifier(*table), Literal(_HANDLE), Literal(broker_id), written, Literal(before))
    key = "(hashtext(x.handle) & 2147483647)"
    return Source(f"ledger {label}", columns, _text(origin), schemas.PROMISES, key)


def applied_source(label: str, table: tuple[str, str], groups: list[str], topics: list[str] | None) -> Source:
    """The journal rows of some consumer groups of one database, of all topics or the named ones."""
    columns = "x.consumer_group, x.topic, x.queue_id, x.queue_offset, x.message_id, x.applied_at"
    return Source(f"applied {label}", columns, _of_groups(table, groups, topics), schemas.APPLIED, "x.message_id")


def deferred_source(label: str, table: tuple[str, str], groups: list[str], topics: list[str] | None) -> Source:
    """The messages that consumer groups set aside in their own database and have not applied since."""
    origin = _of_groups(table, groups, topics) + " and x.state = 'deferred'"
    return Source(f"deferred {label}", "x.consumer_group, x.topic, x.message_id", origin, schemas.DEFERRED)


def offsets_source(
    label: str, table: tuple[str, str], groups: list[str], topics: list[str] | None, broker_id: str
) -> Source:
    """The positions on one broker that consumer groups keep in their own database."""
    columns = "x.consumer_group, x.topic, x.queue_id, x.next_offset"
    ours = _text(SQL(" and x.broker = {}").format(Literal(broker_id)))
    return Source(f"offsets {label}", columns, _of_groups(table, groups, topics) + ours, schemas.OFFSETS)


def _of_groups(table: tuple[str, str], groups: list[str], topics: list[str] | None) -> str:
    condition = SQL("{} x where x.consumer_group = any({}::text[])").format(Identifier(*table), Literal(groups))
    if topics is not None:
        condition += SQL(" and x.topic = any({}::text[])").format(Literal(topics))
    return _text(condition)
