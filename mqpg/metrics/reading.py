"""What a scrape reads: the overview of `mqpg status`, and what that does not show.

No query here grows with the log. Each reads one row for each group, worker, table or segment, or a
bounded part of an index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mqpg.status import Overview, read_overview
from mqpg.status.finding import Row

__all__ = ["Reading", "read_metrics"]

_WORKERS = """
select w.worker_id, w.role, w.host, w.state, w.alive, w.detail,
    extract(epoch from clock_timestamp() - w.seen_at)::float8 as seen_seconds_ago
from mqpg.worker_status as w where w.alive or w.role = 'audit'
"""
_APPENDER = """
select b.waiting, extract(epoch from clock_timestamp() - b.oldest_at)::float8 as oldest_seconds,
    c.commits, c.average_seconds, c.longest_seconds
from mqpg._append_backlog() as b cross join mqpg._recent_commits() as c
"""
# Partitions are named by their table and a number.
_TABLES = """
select regexp_replace(t.relname, '_[0-9]+$', '') as table_name, count(*) as partitions,
    sum(t.n_live_tup)::float8 as live, sum(t.n_dead_tup)::float8 as dead,
    sum(pg_catalog.pg_total_relation_size(t.relid))::float8 as bytes
from pg_catalog.pg_stat_user_tables as t
where t.schemaname = 'mqpg' or (t.schemaname = 'pgmq' and t.relname in ('q_mqpg_oplog', 'a_mqpg_oplog'))
group by 1
"""
_OLDEST = """
select coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)::float8 as seconds
from pg_catalog.pg_stat_activity as a where a.datname = current_database() and a.pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Reading:
    """The state of a broker at one scrape."""

    overview: Overview
    workers: list[Row]  # each worker that is alive, and each audit, with what it reports
    appender: Row  # what waits for the appender, and how long the latest halves were undecided
    tables: list[Row]  # each table of mqpg: its partitions and tuples, as the statistics know them, and its bytes
    # The age of the oldest open transaction in this database, in seconds, of those that the role may see
    oldest_transaction: float


def read_metrics(rows: Callable[[str], list[Row]]) -> Reading:
    """Read the state of a broker. The role needs the right of an operator, an auditor or a worker."""
    return Reading(
        overview=read_overview(rows),
        workers=rows(_WORKERS),
        appender=rows(_APPENDER)[0],
        tables=rows(_TABLES),
        oldest_transaction=float(rows(_OLDEST)[0]["seconds"]),
    )
