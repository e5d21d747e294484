"""What somebody needs who decides half messages by hand: their content, and why they wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mqpg.errors import NotGranted

from .finding import Row, counted
from .words import span

__all__ = [
    "Rows",
    "bodies",
    "keys",
    "ledgers_in_vain",
    "parked_because",
    "parks_again",
    "parse_handle",
    "producers",
]

Rows = Callable[[str, Mapping[str, Any]], list[Row]]
"""Runs a query with named parameters, and returns its rows as dictionaries."""

_HANDLE = re.compile(r"([^.]+)\.\d+\.(\d{1,18})\.[0-9a-f]{32}")
_BODIES = """
select b.message_id, b.topic, b.key, b.tag, b.headers::text as headers, left(b.payload::text, %(most)s) as payload,
    length(b.payload::text) as length, b.state
from mqpg._bodies(%(ids)s::bigint[]) as b
"""
_KEYS = "select b.message_id, b.key from mqpg._bodies(%(ids)s::bigint[]) as b"
_PRODUCERS = """
select g.producer_group, g.max_checks, g.on_exhausted, g.checker, g.checker_target, g.expire_after, g.check_after,
    extract(epoch from g.check_after::interval)::float8 as check_seconds
from mqpg._producer_groups() as g where g.producer_group = any(%(groups)s::text[])
"""
_LEDGERS = """
select l.key as ledger, l.value ->> 'reason' as reason, l.value -> 'failures' as failures
from mqpg.worker_status as w
cross join lateral jsonb_each(
    case jsonb_typeof(w.detail -> 'ledgers') when 'object' then w.detail -> 'ledgers' end
) as l
where w.role = 'compensator' and w.alive and l.value ->> 'state' = 'no verdict' and l.key = any(%(ledgers)s::text[])
order by w.seen_at
"""
_SOON = 60.0  # seconds within which nobody decides by hand


def parse_handle(text: str) -> tuple[str, int] | None:
    """Read a handle.

    Args:
        text: The handle.

    Returns:
        The id of its broker, and the message id. None: it is no handle.
    """
    found = _HANDLE.fullmatch(text)
    return (found[1], int(found[2])) if found else None


def bodies(rows: Rows, ids: Iterable[int], most: int = 2_000_000_000) -> dict[int, Row]:
    """Read the keys and payloads of messages in any state.

    Args:
        rows: Runs a query.
        ids: The ids of the messages.
        most: How many characters of a payload are read.

    Returns:
        Message id -> `topic`, `key`, `tag`, `headers`, `payload`, `length` of the whole payload and
        `state`. Messages that are not stored, or that the role may not read, are missing.
    """
    try:
        return {one["message_id"]: one for one in rows(_BODIES, {"ids": list(ids), "most": most})}
    except NotGranted:
        return {}


def keys(rows: Rows, ids: Iterable[int]) -> dict[int, str | None]:
    """Read the keys of messages in any state.

    Args:
        rows: Runs a query.
        ids: The ids of the messages.

    Returns:
        Message id -> key. Messages that are not stored, or that the role may not read, are missing.
    """
    try:
        return {one["message_id"]: one["key"] for one in rows(_KEYS, {"ids": list(ids)})}
    except NotGranted:
        return {}


def producers(rows: Rows, groups: Iterable[str | None]) -> dict[str, Row]:
    """Read the settings of producer groups.

    Args:
        rows: Runs a query.
        groups: Their names. None stands for a group that was dropped.

    Returns:
        Name -> settings. It is empty where the role may not read them.
    """
    try:
        found = rows(_PRODUCERS, {"groups": sorted({one for one in groups if one is not None})})
    except NotGranted:
        return {}
    return {one["producer_group"]: one for one in found}


def ledgers_in_vain(rows: Rows, ledgers: Iterable[str | None]) -> dict[str, str]:
    """Say how often compensators have asked ledgers that do not answer.

    Args:
        rows: Runs a query.
        ledgers: The names of ledgers. None stands for no ledger.

    Returns:
        Ledger -> for example `asked 80 times without an answer: connection refused`. Ledgers that
        answer are missing.
    """
    found = rows(_LEDGERS, {"ledgers": sorted({one for one in ledgers if one is not None})})
    return {one["ledger"]: _in_vain(one["failures"], one["reason"]) for one in found}


def _in_vain(failures: object, reason: str | None) -> str:
    times = counted(failures, "time") if isinstance(failures, int) else "again and again"
    return f"asked {times} without an answer" + (f": {reason}" if reason else "")


def parked_because(half: Row, producer: Row | None) -> str:
    """Say why a half message is parked.

    Args:
        half: Its `prepared_at` and `parked_at`.
        producer: The settings of its group. None: they are not known.

    Returns:
        For example `max_checks 1, check_after 10 ms: parked 90 ms after it was prepared`.
    """
    after = span((half["parked_at"] - half["prepared_at"]).total_seconds())
    limits = f"{_limits(producer)}: " if producer else ""
    return f"{limits}parked {after} after it was prepared"


def parks_again(producer: Row | None) -> str | None:
    """Say that a second round of checks would end as soon as the first one.

    Args:
        producer: The settings of the group. None: they are not known.

    Returns:
        A sentence. None where its limits leave time for an answer.
    """
    if producer is None or producer["check_seconds"] is None:
        return None
    seconds = producer["check_seconds"] * sum(2.0**n for n in range(min(producer["max_checks"], 30)))
    if seconds > _SOON:
        return None
    return (
        f"Checked again, it is parked again after {span(seconds)} unless it is answered by then. Raise the limits "
        f"first: mqpg group alter {producer['producer_group']} --max-checks 10 --check-after '1 min'"
    )


def _limits(producer: Row) -> str:
    return f"max_checks {producer['max_checks']}, check_after {span(producer['check_seconds'])}"
