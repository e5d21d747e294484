"""Roles without a process at work, and what processes report, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .finding import Row

__all__ = ["in_words", "missing_roles", "silent_roles"]

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
