"""The SQL behind each frame that is read from a broker.

Whether a snapshot sees a transaction is decided here, by PostgreSQL itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.sql import SQL, Composable, Literal
from pyspark.sql.types import StructType

from . import schemas
from .horizon import DROPPED, Horizon

__all__ = [
    "DROPPED",
    "DROPPED_SEGMENTS",
    "JUMPS",
    "LOG_SEGMENTS",
    "OTHER_SUBSCRIPTIONS",
    "Query",
    "broker_queries",
    "cursor_query",
    "literal_text",
]

# Retention drops decisions later than bodies, and none while a half message of the segment is
# undecided.
_DECISIONS_GONE = (
    "exists (select from mqpg.audit_segment s where s.family = 'log' "
    "and (s.dropped_at is not null or s.leaving in ('op_log', 'check_log')) "
    "and x.message_id >= s.lower_bound::bigint * 1024 and x.message_id < s.upper_bound::bigint * 1024)"
)

# The ids of the messages that groups skipped, or that a seek back delivers again. They are found by
# looking up the offsets of position jumps in the consume queues, as far back as the queues reach.
_JUMPED_OVER = (
    "(select j.subscription_id, j.consumer_group, j.topic, j.back, c.first_ids[u.i] + o.o - u.start as message_id "
    "from mqpg.audit_position_jump j join mqpg.audit_consume_queue c "
    "on c.topic_id = j.topic_id and c.queue_id = j.queue_id "
    "and c.subscription_id = case j.queue_id when -1 then j.subscription_id else 0 end "
    "and c.base_offset < j.to_offset and c.base_offset + c.n > j.from_offset "
    "cross join lateral unnest(c.starts) with ordinality as u(start, i) "
    "cross join lateral generate_series(u.start, coalesce(c.starts[u.i + 1], c.n) - 1) as o(o) "
    "where c.base_offset + o.o >= j.from_offset and c.base_offset + o.o < j.to_offset)"
)
# Messages that a group does not have to apply: dead letters and discarded dead letters, messages
# skipped by seek, purge, expiry or policy, and messages that the subscription's filter leaves out.
_NOT_TO_APPLY = (
    "(select d.subscription_id, d.message_id, max(d.attempts) as attempts from ("
    "select l.subscription_id, l.message_id, l.attempts from mqpg.audit_dead_letter l "
    "union all select f.subscription_id, f.message_id, f.attempts from mqpg.audit_former_dead_letter f "
    "where f.fate = 'discarded' "
    f"union all select j.subscription_id, j.message_id, 0 from {_JUMPED_OVER} j where not j.back "
    "union all select u.subscription_id, u.message_id, 0 from mqpg.audit_unmatched u) d group by 1, 2)"
)

# Segments whose first table is marked as dropped although its rows are still there. A table that is
# still to be dropped is named in `leaving`.
_REMAINS = " union all ".join(
    f"select s.family, s.segment_no from mqpg.audit_segment s where s.family = '{family}' "
    f"and s.body_dropped_at is not null and s.leaving is distinct from '{table}' and exists ("
    f"select from mqpg.audit_{table} r "
    f"where r.{column} >= s.lower_bound::{kind} and r.{column} < s.upper_bound::{kind})"
    for family, table, column, kind in (
        ("log", "commit_log", "batch_id", "bigint"),
        ("tick", "consume_queue", "tick_id", "bigint"),
        ("cursor", "cursor", "slot", "int"),
        ("delayed", "delayed", "written_at", "timestamptz"),
    )
)

LOG_SEGMENTS = """
select s.lower_bound::bigint as lower, s.upper_bound::bigint as upper from mqpg.audit_segment s
where s.family = 'log' and s.opened_at is not null and s.body_dropped_at is null and s.left_out = '{}' order by 1
"""
# Ids of subscriptions ascend without end. One that is missing may have been a subscription.
OTHER_SUBSCRIPTIONS = """
select count(*) < coalesce(max(s.subscription_id), 0) or exists (
    select from mqpg.audit_cursor c
    where c.subscription_id > (select coalesce(max(n.subscription_id), 0) from mqpg.audit_subscription n)) as had_others
from mqpg.audit_subscription s
"""
DROPPED_SEGMENTS = f"""
select s.lower_bound::bigint * 1024 as first_id, s.upper_bound::bigint * 1024 - 1 as last_id
from mqpg.audit_segment s where s.family = 'log' and {DROPPED}
"""
# What groups were moved over, with the topic's id.
JUMPS = """
select j.subscription_id, j.topic_id, j.queue_id::int as queue_id, j.from_offset, j.to_offset, j.back
from mqpg.audit_position_jump j
"""


@dataclass(frozen=True)
class Query:
    """A set of rows to read.

    Attributes:
        name: The name of the frame.
        origin: The FROM clause and the WHERE clause.
        schema: The columns of the frame.
        key: An indexed integer expression by which the rows are cut into partitions. None means
            that they are not cut by a key.
        table: Schema and name of the one relation that is read. A table is cut into partitions of
            pages. None means that the rows are not cut by pages.
        fetch_rows: How many rows a partition holds in memory at a time.
    """

    name: str
    columns: str
    origin: str
    schema: StructType
    key: str | None = None
    table: tuple[str, str] | None = None
    fetch_rows: int = 5000


def _literal(value: str | None, kind: str) -> str:
    return f"null::{kind}" if value is None else f"'{value}'::{kind}"


def _covered(xid: str, horizon: Horizon) -> str:
    newest = _literal(horizon.newest_snapshot, "pg_snapshot")
    return f"coalesce(pg_visible_in_snapshot({xid}, {newest}), false) as covered"


def _may_be_dropped(xid: str, horizon: Horizon, also: str = "true") -> str:
    seen = f"coalesce(pg_visible_in_snapshot({xid}, {_literal(horizon.oldest_snapshot, 'pg_snapshot')}), true)"
    return f"{str(horizon.ticks_dropped).lower()} and {also} and {seen} as may_be_dropped"


def literal_text(composed: Composable) -> str:
    """Composed SQL as text, with its identifiers and literals quoted."""
    return composed.as_string(None)


def broker_queries(topic_ids: list[int] | None, horizon: Horizon) -> list[Query]:
    """The queries that read a broker.

    With `topic_ids` they read only these topics and those that were dropped, because the ids of their
    messages may appear elsewhere.
    """
    scope = "true"
    if topic_ids is not None:
        scope = literal_text(
            SQL(
                "(x.topic_id = any({}::int[]) or x.topic_id not in (select t.topic_id from mqpg.audit_topic t))"
            ).format(Literal(topic_ids))
        )
    return [
        *_log_queries(scope, horizon),
        *_decision_queries(scope, horizon),
        *_queue_queries(scope),
        *_group_queries(scope),
        *_excuse_queries(scope),
    ]


def _log_queries(scope: str, horizon: Horizon) -> list[Query]:
    """The messages: bodies in the log, survivors of dropped segments, dedup ids."""
    state = f"{_covered('x.xid', horizon)}, {_may_be_dropped('x.xid', horizon)}"
    body = (
        "x.xid::text::bigint as xid, x.born_at, x.topic_id, x.producer_group_id, x.kind::text as kind, "
        "x.queue_id::int as queue_id, "
        f"x.check_at, {state}"
    )
    return [
        Query(
            "commit_log",
            f"x.batch_id * 1024 as first_id, x.n::int as n, {body}, x.handle_hashes, false as decision_gone, "
            "x.key_hashes, x.sizes, x.intact",
            f"mqpg.audit_commit_log x where {scope}",
            schemas.BODIES,
            "x.batch_id",
            fetch_rows=200,  # A row may have 1024 hashes.
        ),
        Query(
            "survivor",
            f"x.message_id as first_id, 1 as n, {body}, array[x.handle_hash] as handle_hashes, "
            f"{_DECISIONS_GONE} as decision_gone, array[x.key_hash] as key_hashes, "
            "null::int[] as sizes, null::boolean as intact",
            "mqpg.audit_held x "
            "where not exists (select from mqpg.audit_commit_log c where c.batch_id = x.message_id >> 10) "
            f"and {scope}",
            schemas.BODIES,
        ),
        Query(
            "dedup",
            "x.message_id, x.slot, x.topic_id, x.dedup_hash",
            f"mqpg.audit_dedup x where {scope}",
            schemas.DEDUP,
            "x.message_id",
        ),
        Query(
            "other_half",
            "x.first_id, x.n",
            "(select l.batch_id * 1024 as first_id, l.n::int as n, l.topic_id from mqpg.audit_commit_log l "
            "where l.kind = 'h' union all select h.message_id, 1, h.topic_id from mqpg.audit_held h "
            f"where h.kind = 'h') x where not {scope}",
            schemas.OTHER_HALVES,
        ),
    ]


def _decision_queries(scope: str, horizon: Horizon) -> list[Query]:
    """What was decided about messages, and what comes later."""
    newest_due, oldest_due = (_literal(due, "timestamptz") for due in (horizon.newest_due, horizon.oldest_due))
    state = f"{_covered('x.xid', horizon)}, {_may_be_dropped('x.xid', horizon)}"
    return [
        Query(
            "op_log",
            "x.message_id, x.topic_id, x.order_no, x.stage::int as stage, x.op::text as op, "
            "x.xid::text::bigint as xid, x.at, nullif(x.visible_at, 'infinity') as visible_at, x.decided_by, "
            # A message of its own delivers the commit of a half message of a relay topic.
            "case when x.visible_at = 'infinity' then x.deliver_id end as relayed_as, "
            "case when x.op = 'c' and x.visible_at is distinct from 'infinity' then x.deliver_id end as deliver_id, "
            "x.queue_id::int as queue_id, "
            f"{state}",
            f"mqpg.audit_op_log x where {scope}",
            schemas.DECISIONS,
            "x.message_id",
        ),
        Query(
            "delayed",
            "x.first_id, x.n::int as n, x.deliver_id, x.queue_id::int as queue_id, x.written_at, x.visible_at, "
            "x.xid::text::bigint as xid, x.topic_id, x.subscription_id, "
            f"x.attempt::int as attempt, coalesce(x.visible_at <= {newest_due}, false) as due, "
            f"{_covered('x.xid', horizon)}, {_may_be_dropped('x.xid', horizon, f'x.visible_at <= {oldest_due}')}",
            f"mqpg.audit_delayed x where {scope}",
            schemas.DELAYED,
            "x.first_id",
        ),
    ]


def _queue_queries(scope: str) -> list[Query]:
    """The queues, and what is said of their topics."""
    return [
        Query(
            "consume_queue",
            "x.base_offset, x.tick_id, x.topic_id, x.subscription_id, x.n, x.queue_id::int as queue_id, x.first_ids, "
            "x.starts, x.attempts::int[] as attempts, x.deliver_ids",
            f"mqpg.audit_consume_queue x where {scope}",
            schemas.QUEUE_ROWS,
            "x.tick_id",
            fetch_rows=1000,  # A row may have thousands of runs.
        ),
        Query(
            "tick",
            "x.tick_id, pg_snapshot_xmax(x.snapshot)::text::bigint as xmax, "
            "array(select i::text::bigint from pg_snapshot_xip(x.snapshot) i) as xip, x.due_until, x.at",
            "mqpg.audit_tick x",
            schemas.TICKS,
            "x.tick_id",
        ),
        Query(
            "topic",
            "x.topic_id, x.name as topic, x.first_queues, x.grown_from, x.settled_batch",
            f"mqpg.audit_topic x where {scope}",
            schemas.TOPICS,
        ),
        Query("remains", "x.family, x.segment_no", f"({_REMAINS}) x", schemas.REMAINS),
    ]


def _group_queries(scope: str) -> list[Query]:
    """The groups, and where each has been."""
    return [
        Query(
            "subscription",
            "x.subscription_id, x.consumer_group, x.topic_id, x.start, x.filter is not null or x.tags is not null or "
            "exists (select from mqpg.audit_former_filter f where f.subscription_id = x.subscription_id) as filtered",
            # Nothing is delivered through a broadcast group's own row. Its members have positions.
            f"mqpg.audit_subscription x where {scope} and (x.mode <> 'broadcast' or x.member <> '')",
            schemas.SUBSCRIPTIONS,
        ),
        Query(
            "cursor_history",
            "x.subscription_id, x.queue_id::int as queue_id, x.slot, x.version, x.committed, x.claimed, x.at, x.epoch, "
            "x.action, case when cardinality(x.claims) > 0 then to_json(x.claims)::text end as claims",
            "mqpg.audit_cursor x",
            schemas.CURSOR_HISTORY,
            "x.version",
        ),
        Query(
            "reader",
            "x.subscription_id, x.topic_id, x.consumer_group, x.mode, x.on_failure, x.retries_from, "
            "x.filter is not null or x.tags is not null as filtered, x.mode <> 'broadcast' or x.member <> '' as reads, "
            "(select t.name from mqpg.audit_topic t where t.topic_id = x.topic_id) as topic",
            f"mqpg.audit_subscription x where {scope}",
            schemas.READERS,
        ),
    ]


def _excuse_queries(scope: str) -> list[Query]:
    """What groups did not get, or got again, on purpose."""
    return [
        Query(
            "dead_letter",
            "x.subscription_id, x.message_id, x.attempts",
            f"{_NOT_TO_APPLY} x",
            schemas.DEAD_LETTERS,
        ),
        Query(
            "jump",
            "x.jump_id, x.at, x.subscription_id, x.consumer_group, x.topic, x.queue_id::int as queue_id, "
            "x.from_offset, x.to_offset, x.why, x.back",
            f"mqpg.audit_position_jump x where {scope}",
            schemas.JUMPS,
        ),
        Query(
            "letter",
            "x.subscription_id, x.message_id, x.deliver_id, x.attempts, x.died_at, x.present",
            "(select d.subscription_id, d.message_id, d.deliver_id, d.attempts, d.died_at, true as present "
            "from mqpg.audit_dead_letter d union all "
            "select f.subscription_id, f.message_id, null, f.attempts, f.died_at, false "
            "from mqpg.audit_former_dead_letter f) x",
            schemas.LETTERS,
        ),
        Query(
            "replay",
            "x.subscription_id, x.message_id, x.times",
            "(select j.subscription_id, j.message_id, count(*) as times "
            f"from {_JUMPED_OVER} j where j.back group by 1, 2) x",
            schemas.REPLAYS,
        ),
    ]


def cursor_query() -> Query:
    """Return the query for the newest cursor of each queue of each subscription.

    Its column start_offset is where the subscription started, null if that is no longer known.
    """
    return Query(
        "cursor",
        "x.subscription_id, x.queue_id, x.committed, x.start_offset",
        "(select distinct on (c.subscription_id, c.queue_id) c.subscription_id, c.queue_id::int as queue_id, "
        "c.committed, (select s.committed from mqpg.audit_cursor s where s.subscription_id = c.subscription_id "
        "and s.queue_id = c.queue_id and s.version = 1 and s.action = 'subscribe' limit 1) as start_offset "
        "from mqpg.audit_cursor c order by c.subscription_id, c.queue_id, c.version desc) x",
        schemas.CURSORS,
    )
