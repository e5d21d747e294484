"""What an operator needs to decide half messages by hand: their content, and why they wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mqpg.values.errors import NotGranted
from mqpg.values.words import counted, span

from .finding import Row

__all__ = ["UNDECIDED", "Asked", "Rows", "asked", "bodies", "parked_because", "parks_again", "undecided"]

Rows = Callable[[str, Mapping[str, Any]], list[Row]]
"""Runs a query with named parameters, and returns its rows as dictionaries."""

UNDECIDED = """
    select p.handle, p.producer_group, p.topic, p.prepared_at, p.check_at, p.checks, p.reason,
        null::timestamptz as parked_at
    from mqpg.half_pending as p
    union all
    select k.handle, k.producer_group, k.topic, k.prepared_at, k.check_at, k.checks, k.reason, k.parked_at
    from mqpg.half_parked as k
"""
_BODIES = """
select b.message_id, b.topic, b.key, b.tag, b.headers::text as headers, left(b.payload::text, %(most)s) as payload,
    length(b.payload::text) as length, b.state
from mqpg._bodies(%(ids)s::bigint[]) as b
"""
_ONE = f"select h.* from ({UNDECIDED}) as h where split_part(h.handle, '.', 3) = %(message_id)s::bigint::text"
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
_SOON = 60.0  # seconds within which no operator decides by hand


@dataclass(frozen=True)
class Asked:
    """What is known about the check-backs of a producer group."""

    producer: Row | None
    in_vain: str | None


def bodies(rows: Rows, ids: Iterable[int], most: int = 2_000_000_000) -> dict[int, Row]:
    """Read the contents of messages in any state, by message id.

    They are `topic`, `key`, `tag`, `headers`, `payload`, `length` and `state`. `most` limits the characters
    of a payload; `length` is that of the whole one. Messages that are not stored, or that the role may not
    read, are missing.
    """
    try:
        return {one["message_id"]: one for one in rows(_BODIES, {"ids": list(ids), "most": most})}
    except NotGranted:
        return {}


def undecided(rows: Rows, message_id: int) -> Row | None:
    """Find a half message by its message id.

    Returns its `handle`, `producer_group`, `prepared_at`, `reason` and `parked_at` (None: it is not
    parked). None: it is decided or does not exist, or the role may not see it.
    """
    try:
        found = rows(_ONE, {"message_id": message_id})
    except NotGranted:
        return None
    return found[0] if found else None


def asked(rows: Rows, groups: Iterable[str | None]) -> dict[str | None, Asked]:
    """Read what is known about the check-backs of producer groups. None stands for a group that was dropped."""
    names = set(groups)
    known = _producers(rows, names - {None})
    ledgers = {name: one["checker_target"] for name, one in known.items() if one["checker"] == "url"}
    in_vain = _in_vain(rows, ledgers.values()) if ledgers else {}
    return {name: Asked(known.get(name), in_vain.get(ledgers.get(name))) for name in names}


def _producers(rows: Rows, groups: Iterable[str | None]) -> dict[str | None, Row]:
    try:
        found = rows(_PRODUCERS, {"groups": list(groups)})
    except NotGranted:
        return {}
    return {one["producer_group"]: one for one in found}


def _in_vain(rows: Rows, ledgers: Iterable[str | None]) -> dict[str | None, str]:
    """Ledger that does not answer -> how often it was asked."""
    found = rows(_LEDGERS, {"ledgers": list(ledgers)})
    return {one["ledger"]: _times(one["failures"], one["reason"]) for one in found}


def _times(failures: object, reason: str | None) -> str:
    times = counted(failures, "time") if isinstance(failures, int) else "again and again"
    return f"asked {times} without an answer" + (f": {reason}" if reason else "")


def parked_because(half: Row, producer: Row | None) -> str:
    """Say why a half message is parked.

    For example `max_checks 1, check_after 10 ms: parked 90 ms after it was prepared`.
    """
    after = span((half["parked_at"] - half["prepared_at"]).total_seconds())
    if producer is None:
        return f"parked {after} after it was prepared"
    limits = f"max_checks {producer['max_checks']}, check_after {span(producer['check_seconds'])}"
    return f"{limits}: parked {after} after it was prepared"


def parks_again(producer: Row | None) -> str | None:
    """Say that a second round of checks would end as soon as the first one; None if the limits leave time."""
    if producer is None or producer["check_seconds"] is None:
        return None
    seconds = producer["check_seconds"] * sum(2.0**n for n in range(min(producer["max_checks"], 30)))
    if seconds > _SOON:
        return None
    return (
        f"Checked again, it is parked again after {span(seconds)} unless it is answered by then. Raise the limits "
        f"first: mqpg group alter {producer['producer_group']} --max-checks 10 --check-after '1 min'"
    )
