"""What changes by the minute: connections, the clock, old transactions."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from mqpg.values.errors import NotGranted
from mqpg.values.remedies import literal
from mqpg.values.words import counted, duration

from .clocks import is_synchronised, judge_clocks
from .finding import LATER, SOME_WAIT, STANDS, Finding, Row

__all__ = ["SENT_LONG_AGO", "check_moment", "senders"]

# A role without pg_read_all_stats does not see what sessions of other roles are and do, only whose they are.
_CONNECTIONS = """
select count(*) as n, count(*) filter (where a.backend_type is null) as hidden,
    current_setting('max_connections')::int as most
from pg_stat_activity as a
where a.backend_type = 'client backend' or a.backend_type is null and a.datid is not null and a.usesysid is not null
"""
# A session that has inserted into the log holds that lock until the end of its transaction.
_TRANSACTIONS = """
select a.pid, a.usename as role, a.application_name as application, host(a.client_addr) as client, a.state,
    a.backend_xid is not null as writes, k.pid is not null as sent,
    round(extract(epoch from clock_timestamp() - a.xact_start))::int as seconds
from pg_stat_activity as a
left join (
    select distinct l.pid from pg_locks as l
    where l.relation = 'mqpg.commit_log'::regclass and l.mode = 'RowExclusiveLock' and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
) as k on k.pid = a.pid
where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
    and {chosen}
order by a.xact_start limit 10
"""
_OLDER = "a.xact_start < clock_timestamp() - interval '{} seconds'"
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
# The oldest transactions of all databases: one of a session that listens holds the queue.
_NOTIFICATIONS = """
select pg_notification_queue_usage() as usage, (
    select string_agg(format('pid %s (%s, database %s)', a.pid,
            coalesce(nullif(a.application_name, ''), 'no name'), a.datname), ', ')
    from (
        select s.* from pg_stat_activity as s
        where s.backend_type = 'client backend' and s.xact_start is not null and s.pid <> pg_backend_pid()
        order by s.xact_start limit 3
    ) as a) as sessions
"""
# Commits that wait until a synchronous standby has them.
_STANDBY = """
select count(*) as n, round(extract(epoch from clock_timestamp() - min(a.state_change)))::int as seconds,
    current_setting('synchronous_standby_names') as names
from pg_stat_activity as a
where a.wait_event = 'SyncRep' and a.state_change < clock_timestamp() - interval '5 seconds'
"""
# A server that has no transaction ids left takes no writes in any of its databases.
_IDS = """
select d.datname as database, age(d.datfrozenxid) as age from pg_database as d
order by age(d.datfrozenxid) desc limit 1
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
_STATES = {"active": "running a statement"}
_MOST_CONNECTIONS = 0.9  # of max_connections
_MOST_NOTIFICATIONS = 0.5
_LAST_ID = 2**31 - 3_000_000  # transactions after which PostgreSQL refuses writes
_MOST_IDS = 1_000_000_000  # autovacuum begins at 200 million, unless somebody has set another number
SENT_LONG_AGO = 60
"""Seconds after which messages of an open transaction are missed."""

_OLD = 300


def check_moment(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """Look at the server's sessions and its clock."""
    count = rows(_CONNECTIONS)[0]
    of_server = [_connections(count["n"], count["most"]), *_clocks(rows), *_notifications(rows), *_ids(rows)]
    of_server += _standby(rows)
    return [*of_server, *_transactions(rows, count["hidden"])]


def _connections(used: int, most: int) -> Finding:
    full = used > most * _MOST_CONNECTIONS
    remedy = "raise max_connections, or use a pooler" if full else None
    return Finding("connections", not full, f"{used} of {most} connections are in use", remedy, STANDS)


def _notifications(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """The server's queue of notifications, which a session that listens in an open transaction fills."""
    one = rows(_NOTIFICATIONS)[0]
    usage = f"the queue of notifications is {one['usage']:.0%} full"
    if one["usage"] < _MOST_NOTIFICATIONS:
        return []
    remedy = f"end the oldest transaction of a session that listens, one of {one['sessions'] or 'another role'}"
    return [Finding("notifications", False, f"{usage}, so consumers wait for their next look", remedy, SOME_WAIT)]


def _standby(rows: Callable[[str], list[Row]]) -> list[Finding]:
    one = rows(_STANDBY)[0]
    if not one["n"]:
        return []
    found = f"commits wait for a synchronous standby for {duration(one['seconds'])} ({counted(one['n'], 'session')})"
    remedy = f"start a standby that synchronous_standby_names names ({one['names']}), or change that and reload"
    return [Finding("synchronous standby", False, found, remedy, STANDS)]


def _ids(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """Transaction ids of which vacuum has freed none for long, because something holds it back or it is off."""
    one = rows(_IDS)[0]
    if one["age"] < _MOST_IDS:
        return []
    left = max(0, _LAST_ID - one["age"])
    found = f"the database {one['database']} was not vacuumed for {one['age']:,} transactions: {left:,} are left"
    remedy = "end old transactions, prepared transactions and unused replication slots, then run vacuum in it"
    return [Finding("transaction ids", False, f"{found} before the server takes no more writes", remedy, SOME_WAIT)]


def _clocks(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """The server's clock against this machine's, amid the question, and the workers'."""
    before = datetime.now(UTC)
    server: datetime = rows(_CLOCK)[0]["at"]
    took = datetime.now(UTC) - before
    workers: dict[str, float] = {}
    with suppress(NotGranted):  # the rest needs no right
        workers = {one["host"]: float(one["ahead"]) for one in rows(_CLOCKS)}
    here = platform.node() or "this machine"
    return judge_clocks(server, before + took / 2, here, took.total_seconds(), workers, is_synchronised())


def senders(rows: Callable[[str], list[Row]], after: int, before: int) -> list[Finding]:
    """Find sessions that have sent messages in a transaction that is still open.

    The transaction has been open for more than `after` and at most `before` seconds. At most ten are found,
    the oldest first.
    """
    chosen = f"k.pid is not null and {_OLDER.format(after)} and not {_OLDER.format(before)}"
    return [_of_transaction(one) for one in rows(_TRANSACTIONS.format(chosen=chosen))]


def _transactions(rows: Callable[[str], list[Row]], hidden: int = 0) -> list[Finding]:
    chosen = f"({_OLDER.format(_OLD)} or k.pid is not null and {_OLDER.format(SENT_LONG_AGO)})"
    found = [_of_transaction(one) for one in rows(_TRANSACTIONS.format(chosen=chosen))]
    found += [
        Finding(
            "prepared transaction",
            False,
            f"the prepared transaction {one['gid']} of {one['role']} waits for {duration(one['seconds'])}",
            f"commit prepared or rollback prepared {literal(one['gid'])}",
            SOME_WAIT,
        )
        for one in rows(_PREPARED)
    ]
    found += [
        Finding(
            "replication slot",
            False,
            f"the replication slot {one['slot_name']} is not used and holds old rows",
            f"select pg_drop_replication_slot({literal(one['slot_name'])}), if no replica needs it",
        )
        for one in rows(_SLOTS)
    ]
    unseen = f", but this role does not see those of {counted(hidden, 'session')}: grant it pg_read_all_stats"
    return found or [Finding("old transactions", True, "none older than 5 minutes" + (unseen if hidden else ""))]


def _of_transaction(one: Row) -> Finding:
    """A session with an open transaction: who it is, what it does, and for how long."""
    who = ", ".join(
        part
        for part in (one["role"], one["application"] or "no name", one["client"] and f"from {one['client']}")
        if part
    )
    age = f"that is open for {duration(one['seconds'])} ({_STATES.get(one['state'], one['state'])})"
    what = "has sent messages in a transaction" if one["sent"] else "has a transaction"
    urgency = SOME_WAIT if one["writes"] else LATER
    about = {"pid": str(one["pid"])}
    found = f"pid {one['pid']} ({who}) {what} {age}"
    return Finding("open transaction" if one["sent"] else "old transaction", False, found, _ending(one), urgency, about)


def _ending(session: Row) -> str:
    ending = f"select pg_terminate_backend({session['pid']})"
    keeps = "it keeps dropped segments and dead rows"
    if session["sent"]:
        return f"they are delivered only after its commit, and {keeps}: commit it; {ending} undoes its work"
    if session["writes"]:
        return f"what it wrote counts only after its commit, and {keeps}: commit it; {ending} undoes its work"
    return f"{keeps}: end it, or {ending}"
