"""The part of a history that earlier valid audits have judged: left out, verified and extended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from mqpg.audit.state import Judged

from .fingerprint import BROKER, CLOSED, USERS, add, grouped
from .workspace import Workspace

__all__ = [
    "MOST_OPEN",
    "Rejudge",
    "advance",
    "check_broker",
    "check_findings",
    "check_frames",
    "check_users",
    "leave_out",
]

# With more open messages, reading them one by one costs more than it saves.
MOST_OPEN = 50_000
_JOURNAL = "the journal of group "


# mqpg writes their rows once. Only adopt() changes them, and then the broker has another life.
_APPEND_ONLY = ("body", "decision", "tick", "queue_row")


class Rejudge(Exception):
    """The earlier verdict may not hold any more, so everything must be judged again.

    `altered` says that somebody changed, added or deleted rows that mqpg writes once.
    """

    def __init__(self, why: str, *, altered: bool = False) -> None:
        super().__init__(why)
        self.altered = altered


def leave_out(work: Workspace, judged: Judged | None) -> None:
    """Fill the tables that say what is judged. The reads that follow leave it out."""
    work.insert("judged", [(True, judged.last_tick, judged.until_id) if judged else (True, -1, 0)])
    if judged:
        work.insert("open_message", [(one,) for one in judged.open])
        work.insert("judged_tail", judged.tails)
        work.insert("judged_start", judged.starts)
        work.insert("judged_pair", judged.pairs)
        work.insert("judged_offset", [(one,) for one in judged.offsets])
        work.insert("judged_failure", judged.failures)


def check_broker(work: Workspace, judged: Judged) -> None:
    """Compare the broker's judged rows with their fingerprints, at the snapshot of the reads.

    Raises Rejudge if a row or a setting has changed.
    """
    settings = _meaning(work)
    # A new subscription may have passed judged offsets since, and a new journal had none of them.
    new = {name: digest for name, digest in settings.items() if name.startswith((_JOURNAL, "subscription "))}
    for name, digest in (new | judged.meaning).items():
        if settings.get(name) != digest or name not in judged.meaning:
            raise Rejudge(f"{name} has changed")
    work.query("update judged set reading = false returning 1")
    for name, fingerprint in BROKER.items():
        found = _digests(work.query(grouped(fingerprint, f"({work.reading(name)}) as q", judged.bounds)))
        _compare(work, name, judged, found, fingerprint.family)
    work.query("update judged set reading = true returning 1")


def check_users(work: Workspace, judged: Judged, table: str, found: dict[str, list[int]]) -> None:
    """Compare the judged rows of users' databases with their fingerprints.

    `found` has the fingerprints that the databases computed. Rows that were copied although they are judged,
    because their database cannot hash them, are hashed and deleted here. Raises Rejudge if a row has changed.
    """
    copied = f"{table} as q where {USERS[table].closed}"
    add(found, _digests(work.query(grouped(USERS[table], copied, {}))))
    work.query(f"delete from {copied} returning 1")
    _compare(work, table, judged, found, None)


def check_frames(work: Workspace) -> None:
    """Raise Rejudge if a row that is judged now concerns what was judged before."""
    for row in work.rows("judged", "doubt"):
        raise Rejudge(row["why"])
    keys = (
        "select 1 as found from judged as j "
        "where j.until_id > 0 and exists (select from message as m where m.key_hash is not null)"
    )
    if work.query(keys):
        for row in work.rows("judged", "other_queue"):
            raise Rejudge(f"the key of message {row['message_id']} is in another queue")


def check_findings(work: Workspace) -> None:
    """Raise Rejudge for a finding that what was not read may explain, such as a seek over judged offsets."""
    for row in work.rows("judged", "suspect"):
        raise Rejudge(row["why"])


def advance(work: Workspace, judged: Judged, snapshot: str, at: datetime) -> Judged | None:
    """Extend what is judged by what a valid audit has judged to the end.

    `snapshot` is that at which the broker was read. `judged` is not changed. Returns what is judged now.
    None: nothing can be judged yet, or too much is open.
    """
    ends = work.rows("judged", "next_tick", {"snapshot": snapshot})
    if not ends:
        return None
    last_tick, until_id = ends[0]["tick_id"], ends[0]["until_id"]
    before = {"last_tick": last_tick, "until_id": until_id}
    found = [row["message_id"] for row in work.rows("judged", "open", before)]
    if len(found) > MOST_OPEN:
        return None
    work.query("delete from open_message returning 1")
    work.insert("open_message", [(one,) for one in found])
    work.query(f"update judged set last_tick = {last_tick}, until_id = {until_id} returning 1")
    while more := [row["message_id"] for row in work.rows("judged", "partner")]:
        work.insert("open_message", [(one,) for one in more])
        found += more
        if len(found) > MOST_OPEN:
            return None
    bounds = _bounds(work, judged.bounds)
    digests = {name: {part: list(one) for part, one in parts.items()} for name, parts in judged.digests.items()}
    for name, fingerprint in {**BROKER, **USERS}.items():
        rows = f"{name} as q where {fingerprint.closed}"
        rows += f" and q.tick_id > {judged.last_tick}" if name == "tick" else ""
        add(digests.setdefault(name, {}), _digests(work.query(grouped(fingerprint, rows, bounds))))
    closed = work.query(f"select count(*) as n from message as q where {CLOSED.format('q.message_id')}")[0]["n"]
    tails = work.rows("judged", "tails")
    work.query("truncate judged_tail")
    work.insert("judged_tail", [tuple(row.values()) for row in tails])
    return replace(
        judged,
        meaning=_meaning(work),
        last_tick=last_tick,
        until_id=until_id,
        open=sorted(found),
        tails=[list(row.values()) for row in tails],
        starts=[_plain(row.values()) for row in work.rows("judged", "starts")],
        offsets=[row["message_id"] for row in work.rows("judged", "offsets")],
        pairs=[list(row.values()) for row in work.rows("judged", "pairs")],
        failures=[list(row.values()) for row in work.rows("judged", "failures")],
        bounds=bounds,
        digests=digests,
        totals=_totals(judged, digests, closed),
        at=at.isoformat(),
    )


def _meaning(work: Workspace) -> dict[str, int]:
    """Return the hashes of all settings. The journal of a group counts as one too."""
    found = {row["name"]: row["digest"] for row in work.query("select m.name, m.digest from meaning as m")}
    groups = work.query("select j.consumer_group as name from journal_group as j")
    return found | {f"{_JOURNAL}{row['name']}": 1 for row in groups}


def _totals(judged: Judged, digests: Mapping[str, Mapping[str, list[int]]], closed: int) -> dict[str, int]:
    rows = {name: sum(n for n, _ in parts.values()) for name, parts in digests.items()}
    counted = {f"{name} rows": n for name, n in rows.items() if n}
    return {"messages": judged.totals.get("messages", 0) + closed} | counted


def _compare(work: Workspace, name: str, judged: Judged, found: Mapping[str, list[int]], family: str | None) -> None:
    stored = judged.digests.get(name, {})
    for part in {*stored, *found}:
        expected, now = stored.get(part, [0, 0]), found.get(part, [0, 0])
        if now == expected:
            continue
        if now[0] or not family or not _is_dropped(work, name, judged.bounds[family], int(part), family):
            where = f"part {part} of {name}" if family else f"{name} {part}".strip()
            altered = bool(family) and name in _APPEND_ONLY
            if family and now[0] < expected[0]:
                altered &= not _of_segments(work, judged.bounds[family], int(part), family, "bool_or(s.rewritten)")
            raise Rejudge(f"judged rows have changed: {where} had {expected[0]} rows and has {now[0]}", altered=altered)


def _is_dropped(work: Workspace, name: str, bounds: list[str], part: int, family: str) -> bool:
    """Whether retention has dropped these rows of all segments of a part."""
    column = "decisions_dropped" if name == "decision" else "dropped"
    return _of_segments(work, bounds, part, family, f"bool_and(s.{column})")


def _of_segments(work: Workspace, bounds: list[str], part: int, family: str, what: str) -> bool:
    """What an aggregate says of the segments of a part. Parts count from 1."""
    if not 0 < part <= len(bounds):
        return False
    kind = "timestamptz" if family == "delayed" else "bigint"
    lower = f"'{bounds[part - 1]}'::{kind}"
    # The newest segment of that time ends where the next one has begun since.
    upper = (
        f"'{bounds[part]}'::{kind}"
        if part < len(bounds)
        else (
            f"(select min(n.lower_bound::{kind}) from segment as n "
            f"where n.family = '{family}' and n.opened and n.lower_bound::{kind} > {lower})"
        )
    )
    query = (
        f"select {what} as found from segment as s where s.family = '{family}' "
        f"and s.lower_bound::{kind} < {upper} and s.upper_bound::{kind} > {lower}"
    )
    return bool(work.query(query)[0]["found"])


def _bounds(work: Workspace, known: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the lower bounds with those of newer segments. Old ones stay when segments merge."""
    found: dict[str, list[str]] = {}
    for family, kind in (("log", "bigint"), ("tick", "bigint"), ("delayed", "timestamptz")):
        old = list(known.get(family, []))
        later = f"and s.lower_bound::{kind} > '{old[-1]}'::{kind}" if old else ""
        rows = work.query(
            f"select s.lower_bound from segment as s where s.family = '{family}' and s.opened {later} "
            f"order by s.lower_bound::{kind}"
        )
        found[family] = old + [row["lower_bound"] for row in rows]
    return found


def _digests(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    return {row["part"]: [row["n"], int(row["digest"] or 0)] for row in rows}


def _plain(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = json.loads(json.dumps(list(values), default=lambda one: one.isoformat()))
    return found
