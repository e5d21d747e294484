"""What outboxes have counted (FastMiniMQ's transaction_record_cnt), held against what the broker has.

An outbox deletes the row of a message that the broker has permanently. If the broker loses the message
later, only the counter in the producer's database shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import psycopg
from sqlalchemy import create_engine, func, inspect, select

from mqpg.audit.options import AuditOptions
from mqpg.audit.verdict import Relation
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.user_tables.tables import outbox_count

__all__ = ["held_against_counts", "outbox_counts"]

Counts = Mapping[tuple[str, str], int]
"""By the name of the outbox (its producer groups, with commas between), and topic."""

# The topics of which nothing was dropped. One of a name that was used before had other messages.
_WHOLE = """
select t.topic from mqpg_audit.topic as t
where not exists (select from mqpg_audit.segment as s where s.family = 'log' and s.dropped_at is not null)
group by 1 having bool_and(t.dropped_at is null)
"""


def outbox_counts(options: AuditOptions, dsn: str, broker_id: str, outboxes: Mapping[str, str]) -> Counts:
    """Read the counters of the outboxes of an audit, whose names are given by URL.

    Empty while something may be running, because the broker is read at another moment, and for topics of
    which the broker has dropped messages, which the counters still have.
    """
    if not options.drained or not outboxes:
        return {}
    with psycopg.connect(dsn) as broker:
        topics = {topic for (topic,) in broker.execute(_WHOLE)}
    if options.topics:
        topics.intersection_update(options.topics)
    found: dict[tuple[str, str], int] = {}
    mine = select(outbox_count.c.topic, func.sum(outbox_count.c.committed)).where(outbox_count.c.broker == broker_id)
    for url, name in outboxes.items():
        engine = create_engine(to_sqlalchemy(url))
        try:
            with engine.connect() as conn:
                if inspect(conn).has_table(outbox_count.name):
                    for topic, committed in conn.execute(mine.group_by(outbox_count.c.topic)):
                        found[name, topic] = found.get((name, topic), 0) + int(committed)
        finally:
            engine.dispose()
    return {key: count for key, count in found.items() if key[1] in topics}


def held_against_counts(relations: Sequence[Relation], counts: Counts) -> list[Relation]:
    """The relations, with the messages as confirmed and missing that an outbox has counted and the broker lacks."""
    result, seen = [], set()
    for one in relations:
        counted = counts.get((one.ledger, one.topic), 0)
        seen.add((one.ledger, one.topic))
        lost = max(0, counted - one.confirmed)
        result.append(replace(one, confirmed=one.confirmed + lost, missing=one.missing + lost) if lost else one)
    for (ledger, topic), counted in counts.items():
        if counted and (ledger, topic) not in seen:
            result.append(Relation(ledger, "(none)", topic, counted, 0, 0, 0, 0, counted, 0, 0))
    return result
