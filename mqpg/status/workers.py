"""Roles without a process at work, and what processes report, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mqpg.values.words import duration

from .finding import Row

__all__ = [
    "FAILING",
    "FULL_DISK",
    "failing_roles",
    "failing_seconds",
    "failure",
    "full_disk",
    "fullness",
    "in_words",
    "missing_roles",
    "silent_roles",
]

_MISSING = """
select r.role, l.host, l.pid, l.started_at, l.seen_at,
    to_char(l.seen_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') as seen
from unnest(array['appender', 'compensator', 'keeper']) as r(role)
left join lateral (
    select w.host, w.pid, w.started_at, w.seen_at from mqpg.worker_status as w
    where w.role = r.role order by w.seen_at desc limit 1
) as l on true
where not exists (
    select from mqpg.worker_status as w where w.role = r.role and w.alive and w.state = 'active'
)
"""
_HERE = """
select distinct w.role from mqpg.worker_status as w
where w.alive and w.host = %(host)s and w.role = any(%(roles)s)
"""
# Processes whose iterations fail, one after another. A process that stands by does not work, and one
# that works again says so with its next heartbeat. The work of a role is done if another one does it.
FAILING = """
select w.worker_id, w.role, w.host, w.pid, w.detail,
    extract(epoch from clock_timestamp() - w.seen_at)::float8 as seen_seconds_ago
from mqpg.worker_status as w
where w.alive and w.detail ->> 'failing' is not null
    and (w.role in ('consumer', 'audit') or not exists (
        select from mqpg.worker_status as o
        where o.alive and o.role = w.role and o.state = 'active' and o.detail ->> 'failing' is null))
order by w.role, w.worker_id
"""
FULL_DISK = """
select to_char(f.since at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') as since,
    extract(epoch from clock_timestamp() - f.since)::float8 as seconds, (
        select string_agg(distinct a.application_name || coalesce(' on ' || host(a.client_addr), ''), ', ')
        from pg_stat_activity as a where a.pid = any(f.noticed_by)) as noticed_by
from mqpg._full_disk() as f
"""
_LEAST_TIMES = 3  # One failure is a lost connection or a lost race, as a rule.


def missing_roles(rows: Callable[[str], list[Row]]) -> list[Row]:
    """Find the roles of `mqpg worker` that no process leads.

    Each has `host`, `pid`, `started_at` and `seen_at` of its newest process (None if none has ever
    reported), and `said`, a sentence that says what to do.
    """
    return [one | {"said": _said(one)} for one in rows(_MISSING)]


def silent_roles(rows: Callable[..., list[Row]], host: str, roles: Sequence[str]) -> list[str]:
    """Find the roles of which no process on a host has sent a heartbeat within 30 s.

    A process that stands by counts. `host` is the name that processes report.
    """
    heard = {one["role"] for one in rows(_HERE, {"host": host, "roles": list(roles)})}
    return [role for role in roles if role not in heard]


def failing_roles(rows: Callable[[str], list[Row]], host: str, roles: Sequence[str]) -> list[str]:
    """Say of which processes on a host, with one of these roles, each iteration fails, a sentence each."""
    found = [one for one in rows(FAILING) if one["host"] == host and one["role"] in roles]
    return [said for said in map(failure, found) if said]


def full_disk(rows: Callable[[str], list[Row]]) -> list[str]:
    """Say since when the disk is full, and who has noticed. Empty: it has room."""
    return [fullness(one) for one in rows(FULL_DISK)]


def fullness(one: Row) -> str:
    """Say what a row of FULL_DISK says."""
    since = f" since {one['since']}, for {duration(one['seconds'])}" if one["since"] else ""
    noticed = f", as {one['noticed_by']} noticed" if one["noticed_by"] else ""
    return f"the disk of the database is full{since}{noticed}: nothing can be sent, received or acknowledged"


def failure(one: Row) -> str | None:
    """Say since when, how often and with which error a process of FAILING fails. None: too seldom to say so."""
    what = one["detail"]["failing"]
    times = what.get("times") if isinstance(what, dict) else None
    if not isinstance(times, int) or times < _LEAST_TIMES:
        return None
    since = duration(failing_seconds(one))
    who = f"the {one['role']} on {one['host']}, pid {one['pid']},"
    return f"{who} has failed {times} times in a row, for {since}: {what.get('error')}"


def failing_seconds(one: Row) -> float:
    """Seconds since the first of its failures in a row, of a row with `detail` and `seen_seconds_ago`. 0: it works."""
    what = one["detail"]["failing"]
    seconds = what.get("seconds") if isinstance(what, dict) else None
    if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
        return 0.0
    return float(seconds) + float(one["seen_seconds_ago"])


def _said(one: Row) -> str:
    role = one["role"]
    last = (
        "it has never reported"
        if one["seen"] is None
        else f"last seen {one['seen']} on {one['host']}, pid {one['pid']}"
    )
    return f"no {role} is at work ({last}): start mqpg worker {role}"


def in_words(value: object) -> str:
    """Write a value that a process reports in words. What is None is left out.

    For example `messages 12, ledgers (shop (state ok, failures 0))`.
    """
    if isinstance(value, Mapping):
        known = {str(name): one for name, one in value.items() if one is not None}
        return ", ".join(f"{_named(name)} {_inside(one)}" for name, one in known.items()) or "nothing"
    if isinstance(value, list | tuple):
        return ", ".join(_inside(one) for one in value) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _named(name: str) -> str:
    """A name with blanks. What is no name, such as a jsonpath, stays as it is."""
    return name.replace("_", " ") if name.isidentifier() else name


def _inside(value: object) -> str:
    return f"({in_words(value)})" if isinstance(value, Mapping) and value else in_words(value)
