"""What `mqpg status` reads. Its cost does not grow with the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .finding import Finding, Row
from .half_messages import UNDECIDED
from .live_checks import check_moment
from .workers import FAILING, FULL_DISK

__all__ = ["STUCK", "Overview", "read_overview"]

STUCK = 60
"""A consumer that is at work acknowledges within its lease, 30 seconds by default."""

_BROKER = """
select b.broker_id, b.incarnation, (mqpg.schema_version()).release from mqpg._broker() as b
"""
_REFUSAL = "select mqpg._append_refusal() as said"
# What each list of an overview is read by.
_LISTS = {
    "workers": """
select w.role, count(*) filter (where w.alive) as alive,
    count(*) filter (where w.alive and w.state = 'active') as active,
    round(extract(epoch from clock_timestamp() - max(w.seen_at)))::int as seen_seconds_ago
from mqpg.worker_status as w
group by w.role order by w.role
""",
    # What holds a group up is asked for the first 20 whose oldest message waits for long.
    "groups": f"""
with g as materialized (
    select s.*, round(extract(epoch from clock_timestamp() - s.oldest_unread_at))::int as oldest_unread_seconds
    from mqpg.group_status as s
)
select g.consumer_group, g.topic, g.mode, g.paused,
    (select t.paused from mqpg.topics as t where t.topic = g.topic) as topic_paused, g.lag,
    g.claims, g.oldest_unread_seconds, g.dead_letters,
    (select count(*) from mqpg.worker_status as w where w.alive and w.role = 'consumer'
        and w.detail ->> 'consumer_group' = g.consumer_group and w.detail ->> 'topic' = g.topic) as consumers,
    round(extract(epoch from clock_timestamp() - g.changed_at))::int as changed_seconds_ago,
    case when g.oldest_unread_seconds > {STUCK} and row_number() over (order by g.oldest_unread_at) <= 20
        then (
            select json_agg(json_build_object('cause', c.cause, 'detail', c.detail, 'remedy', c.remedy,
                'at', clock_timestamp()) order by c.cause)
            from mqpg._group_causes(g.consumer_group, g.topic) as c)
    end as causes,
    case when g.dead_letters > 0 and row_number() over (order by g.dead_letters desc) <= 20
        then (select left(d.reason, 200) from mqpg._newest_dead_letter(g.consumer_group, g.topic) as d)
    end as dead_letter_reason
from g
order by g.oldest_unread_at nulls last, g.lag desc, g.consumer_group, g.topic
""",
    "failing": """
select f.consumer_group, f.topic, f.messages, f.message_id, f.attempt, left(f.reason, 200) as reason,
    f.until::text as until
from mqpg._failing() as f order by f.attempt desc, f.messages desc
""",
    "filters": """
select f.consumer_group, f.topic, f.filter, f.tags, json_build_object('cause', 'filter_chooses_nothing',
    'detail', f.detail, 'remedy', f.remedy, 'at', clock_timestamp()) as cause
from mqpg._silent_filters() as f
""",
    "half_messages": f"""
select h.producer_group, count(*) filter (where h.parked_at is null) as pending,
    count(*) filter (where h.parked_at is null and h.check_at <= clock_timestamp()) as overdue,
    count(*) filter (where h.parked_at is null and h.check_at < clock_timestamp() - interval '1 minute') as late,
    count(h.parked_at) as parked, max(h.reason) filter (where h.parked_at is null) as reason,
    max(h.reason) filter (where h.parked_at is not null) as parked_reason
from ({UNDECIDED}) as h
group by h.producer_group order by h.producer_group
""",
    "silent_ledgers": "select l.producer_groups, l.problem from mqpg._silent_ledgers() as l order by l.checker_target",
    "differing": """
select distinct w.detail ->> 'consumer_group' as consumer_group, w.detail ->> 'topic' as topic,
    w.detail ->> 'handler' as handler, w.detail ->> 'subscription_differs' as differences
from mqpg.worker_status as w
where w.alive and w.role = 'consumer' and w.detail ->> 'subscription_differs' is not null
""",
    # A session that has just come and soon goes again holds nothing up.
    "blocked": """
select b.table_name, b.state, round(extract(epoch from b.age))::int as seconds, s.blocked_by, s.sessions
from mqpg.blocked_segments as b
cross join lateral (
    select string_agg(format('%s (%s)', a.pid, coalesce(nullif(a.application_name, ''), 'no name')), ', '
            order by a.xact_start) as blocked_by,
        json_agg(json_build_object('pid', a.pid, 'application', a.application_name, 'seconds',
            round(extract(epoch from clock_timestamp() - a.xact_start))::int) order by a.xact_start) as sessions
    from pg_stat_activity as a
    where a.pid = any(b.blocked_by) and a.xact_start < clock_timestamp() - interval '5 seconds'
) as s
order by b.since
""",
    "pins": """
select p.consumer_group, p.topic, count(distinct p.segment_no) as segments, sum(p.messages)::bigint as messages,
    sum(p.bytes)::bigint as bytes, round(extract(epoch from clock_timestamp() - min(p.closed_at)))::int as seconds
from mqpg._pins() as p group by p.consumer_group, p.topic order by seconds desc
""",
    "losses": """
select l.consumer_group, l.topic, l.why, sum(l.messages)::bigint as messages, max(l.at)::text as latest
from mqpg.losses as l where l.at > clock_timestamp() - interval '1 day'
group by l.consumer_group, l.topic, l.why order by latest desc
""",
    "orphans": "select o.topic, o.messages, o.undecided from mqpg.orphans as o where o.messages + o.undecided > 0",
    "clock_steps": """
select s.at::text as at, s.by::text as by, s.by < '0' as forward, s.ahead > '0' as counts, s.ahead::text as ahead,
    s.dead_letters
from mqpg._clock_steps() as s limit 3
""",
    "overfull": "select o.producer_group, o.max_undecided from mqpg._overfull_groups() as o",
    "ended_sessions": """
select w.role, w.host, w.pid, w.detail -> 'ended_silent' as ended, clock_timestamp() as now from mqpg.worker_status as w
where jsonb_typeof(w.detail -> 'ended_silent') = 'object' order by w.role, w.worker_id
""",
    "full_topics": "select f.topic, f.full_of, f.max_bytes from mqpg._full_topics() as f",
    "growth": "select g.topic, g.bytes, g.bytes_a_day, g.max_bytes, g.days_left from mqpg._growth() as g",
    "foreign_locks": "select f.pid, f.role, f.stops, f.remedy from mqpg.foreign_locks as f",
    "failing_workers": FAILING,
    "full_disk": FULL_DISK,
}


@dataclass(frozen=True)
class Overview:
    """The state of a broker."""

    broker: Row  # its id, incarnation and release, and the bytes of its tables and indexes
    # Each role that has ever reported, and how many of its processes are alive. Alive means that the last heartbeat is
    # at most 30 seconds old.
    workers: list[Row]
    # Each subscription, the one with the oldest unread message first. `causes` says what holds it up if that message
    # waits for more than a minute, `dead_letter_reason` why its newest dead letter failed.
    groups: list[Row]
    half_messages: list[Row]  # undecided half messages of each producer group
    silent_ledgers: list[Row]  # ledgers in other databases that give no verdict now: their producer groups, and why
    blocked: list[Row]  # drops and merges of segments that open transactions hold up
    pins: list[Row]  # unread messages that keep closed segments
    losses: list[Row]  # what groups lost by a policy of the topic within a day
    orphans: list[Row]  # messages of dropped topics
    foreign_locks: list[Row]  # other sessions that stop something of mqpg
    filters: list[Row]  # groups whose filter has chosen nothing lately
    moment: list[Finding]
    failing: list[Row]  # groups with messages that failed at least twice and wait for another attempt
    refusal: str | None  # Why append() refuses to work in this database, such as in a copy. None: it works.
    clock_steps: list[Row]  # steps of the server's clock within seven days
    failing_workers: list[Row]  # processes that are alive, and whose iterations fail one after another
    differing: list[Row]  # consumers whose decorator has other options than their subscription
    overfull: list[Row] = field(default_factory=list)  # producer groups over their `max_undecided`
    # Since when the disk is full, and who has noticed. Empty: it has room.
    full_disk: list[Row] = field(default_factory=list)
    # Topics that take no messages, because they or the broker are at their `max_bytes`
    full_topics: list[Row] = field(default_factory=list)
    # What the broker (topic None) and each topic with a `max_bytes` store, and in how many days it reaches its limit,
    # the next one first. None: it has no limit, or the rate is not known.
    growth: list[Row] = field(default_factory=list)
    # Which session each worker or consumer ended last, because it was silent
    ended_sessions: list[Row] = field(default_factory=list)


def read_overview(rows: Callable[[str], list[Row]]) -> Overview:
    """Read the state of a broker. The role needs the right of an operator, an auditor or a worker."""
    lists = {name: rows(query) for name, query in _LISTS.items()}
    stored = next(one["bytes"] for one in lists["growth"] if one["topic"] is None)
    return Overview(
        broker=rows(_BROKER)[0] | {"bytes": stored},
        moment=check_moment(rows),
        refusal=rows(_REFUSAL)[0]["said"],
        **lists,
    )
