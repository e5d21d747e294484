"""What changes by the minute: connections, the clock, old transactions."""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import UTC, datetime

from .clocks import is_synchronised, judge_clocks
from .finding import LATER, SOME_WAIT, STANDS, Finding, Row

__all__ = ["check_moment"]

_CONNECTIONS = """
select count(*) as n, current_setting('max_connections')::int as most from pg_stat_activity
where backend_type = 'client backend'
"""
_OLD_TRANSACTIONS = """
select a.pid, a.usename as role, a.application_name as application, a.state, a.backend_xid is not null as writes,
    round(extract(epoch from clock_timestamp() - a.xact_start))::int as seconds
from pg_stat_activity as a
where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
    and a.xact_start < clock_timestamp() - interval '5 minutes'
order by a.xact_start limit 10
"""
_PREPARED = """
select p.gid, p.owner as role, round(extract(epoch from clock_timestamp() - p.prepared))::int as seconds
from pg_prepared_xacts as p
where p.database = current_database() and p.prepared < clock_timestamp() - interval '5 minutes'
order by p.prepared limit 10
"""
_SLOTS = """
select s.slot_name from pg_replication_slots as s
where not s.active and (s.xmin is not null or s.catalog_xmin is not null)
"""
_CLOCK = "select clock_timestamp() as at"
# Each heartbeat brings the time of its machine, and the server notes when it came. A role without
# rights may report anything, so what is no number is left out.
_CLOCKS = """
select distinct on (w.host) w.host,
    ((w.detail ->> 'clock')::numeric - extract(epoch from w.seen_at))::text as ahead
from mqpg.worker_status as w
where w.alive and jsonb_typeof(w.detail -> 'clock') = 'number'
order by w.host, w.seen_at desc limit 100
"""
_MOST_CONNECTIONS = 0.9  # of max_connections


def check_moment(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """Look at the server's sessions and its clock.

    Args:
        rows: Runs a query and returns its rows as dictionaries.

    Returns:
        What was found.
    """
    count = rows(_CONNECTIONS)[0]
    return [_connections(count["n"], count["most"]), *_clocks(rows), *_transactions(rows)]


def _connections(used: int, most: int) -> Finding:
    full = used > most * _MOST_CONNECTIONS
    remedy = "raise max_connections, or use a pooler" if full else None
    return Finding("connections", not full, f"{used} of {most}", remedy, STANDS)


def _clocks(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """The server's clock against this machine's, amid the question, and the workers'."""
    before = datetime.now(UTC)
    server: datetime = rows(_CLOCK)[0]["at"]
    took = datetime.now(UTC) - before
    workers = {one["host"]: float(one["ahead"]) for one in rows(_CLOCKS)}
    here = platform.node() or "this machine"
    return judge_clocks(server, before + took / 2, here, took.total_seconds(), workers, is_synchronised())


def _transactions(rows: Callable[[str], list[Row]]) -> list[Finding]:
    found = [
        Finding(
            "old transaction",
            False,
            f"pid {one['pid']} ({one['role']}, {one['application'] or 'no name'}) is open for {one['seconds']} s",
            _old_transaction(one),
            SOME_WAIT if one["writes"] else LATER,
        )
        for one in rows(_OLD_TRANSACTIONS)
    ]
    found += [
        Finding(
            "prepared transaction",
            False,
            f"{one['gid']} of {one['role']} is prepared for {one['seconds']} s",
            f"commit prepared or rollback prepared '{one['gid']}'",
            SOME_WAIT,
        )
        for one in rows(_PREPARED)
    ]
    found += [
        Finding(
            "replication slot",
            False,
            f"{one['slot_name']} is not used and holds old rows",
            f"select pg_drop_replication_slot('{one['slot_name']}'), if nobody needs it",
        )
        for one in rows(_SLOTS)
    ]
    return found or [Finding("old transactions", True, "none older than 5 minutes")]


def _old_transaction(session: Row) -> str:
    ending = f"select pg_terminate_backend({session['pid']})"
    keeps = "it keeps dropped segments and dead rows"
    if session["writes"]:
        return f"what it sent is delivered only after its commit, and {keeps}: commit it; {ending} undoes its work"
    return f"{keeps}: end it, or {ending}"
