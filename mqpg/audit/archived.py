"""Which segments and files of an archive an audit reads.

A segment that retention has dropped is read only if all of its tables are archived. Queues and
cursors are histories without holes, so of them only the newest dropped segments are read, up to the
first one that is not archived, or out of which a merge has left messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "KEYS",
    "Archive",
    "Chosen",
    "choose",
    "columns_of",
    "multirange",
    "read_ranges",
    "segments_with",
    "within",
]

Ask = Callable[[str], list[dict[str, Any]]]
"""Runs a query at the broker and returns its rows by column."""
Bounds = tuple[str, str]
"""A lower bound, inclusive, and an upper bound, exclusive."""

# The tables of each family, with how many units of their key one unit of the segment's bounds is.
_FAMILIES: Mapping[str, Mapping[str, int]] = {
    "log": {"commit_log": 1, "op_log": 1024},
    "tick": {"consume_queue": 1, "tick": 1},
    "cursor": {"cursor": 1},
    "delayed": {"delayed": 1},
}
KEYS: Mapping[str, str] = {
    "commit_log": "batch_id",
    "op_log": "message_id",
    "consume_queue": "tick_id",
    "tick": "tick_id",
    "cursor": "slot",
    "delayed": "written_at",
}
"""The archived tables and the key by which each is partitioned."""
_UNBROKEN = ("tick", "cursor")
# What says that a segment is dropped, and what these columns are while it is there.
_DROPPED = {"leaving": "null", "body_dropped_at": "null", "dropped_at": "null", "left_out": "'{}'"}
# Where decisions are read from files: they stay in their table for longer than the bodies. While
# all of them are there, those of the table are judged.
_NO_DECISIONS = """(
    select coalesce(range_agg(int8range(s.lower_bound::bigint * 1024, s.upper_bound::bigint * 1024)), '{}')
    from mqpg.audit_segment as s
    where s.family = 'log'
        and (s.dropped_at is not null or s.leaving in ('op_log', 'check_log') or s.left_out <> '{}')
)"""
# A transaction id of another incarnation means nothing. Files that a merge had left rows out of are
# not complete.
_NOTED = """
select a.table_name, a.lower_bound, a.upper_bound, a.location, a.columns, a.n, a.digest
from mqpg.audit_archived_segment as a
join mqpg.audit_broker as b on b.incarnation = a.incarnation
where a.left_out = '{}'
"""
_SEGMENTS = """
select s.family, s.segment_no, s.lower_bound, s.upper_bound, s.body_dropped_at is not null as dropped,
    s.body_dropped_at is null and s.left_out <> '{}' as partial,
    s.closed_at <= now() - (
        select t.value::interval from mqpg.audit_settings as t where t.name = 'position_jump_keep'
    ) as forgotten
from mqpg.audit_segment as s
where s.family = any('{log,tick,cursor,delayed}')
order by s.segment_no desc
"""


@dataclass
class Archive:
    """What was read from an archive: how many files, their rows, and the dropped segments of each family."""

    files: int
    rows: int
    segments: dict[str, int]


@dataclass(frozen=True)
class Chosen:
    """What is read from an archive.

    Attributes:
        segments: The dropped segments: family, segment_no, lower_bound and upper_bound.
        ranges: The ranges of each table's key that are read from files.
        files: The files, as the broker noted them.
    """

    segments: list[dict[str, Any]]
    ranges: dict[str, list[Bounds]]
    files: list[dict[str, Any]]

    def summary(self) -> Archive:
        """What the report says about it."""
        found = Archive(len(self.files), sum(int(one["n"]) for one in self.files), {})
        for segment in self.segments:
            found.segments[segment["family"]] = found.segments.get(segment["family"], 0) + 1
        return found

    def of(self, table: str) -> list[dict[str, Any]]:
        """The files of a table."""
        return [one for one in self.files if one["table_name"] == table]


def choose(ask: Ask) -> Chosen:
    """Choose the dropped segments and the files that are read."""
    noted = ask(_NOTED)
    segments = _choose_segments(ask, noted)
    ranges: dict[str, list[Bounds]] = {table: [] for table in KEYS}
    for segment in segments:
        for table, bounds in _bounds(segment).items():
            ranges[table].append(bounds)
    files = [record for table in KEYS for record in _touching(ask, table, ranges[table], noted)]
    return Chosen(segments, ranges, files)


def _touching(ask: Ask, table: str, ranges: list[Bounds], noted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    files = [one for one in noted if one["table_name"] == table]
    touching = _matching(ask, table, ranges, "&&", [_noted_bounds(one) for one in files])
    return [one for place, one in enumerate(files) if place in touching]


def _choose_segments(ask: Ask, noted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    chosen = []
    listed = ask(_SEGMENTS)
    for family, tables in _FAMILIES.items():
        segments = [one for one in listed if one["family"] == family]
        archived = _archived(ask, tables, segments, noted)
        for segment in segments:
            if segment["partial"] and family in _UNBROKEN:
                break  # What a merge left out of a segment that is there would be a hole.
            if not segment["dropped"]:
                continue
            # What groups were moved over, discarded or redrove long ago is not known any more.
            complete = segment["segment_no"] in archived and not segment["forgotten"]
            # Rows of the oldest segments may be deleted. Then the history does not begin here.
            if family == "tick" and segment is segments[-1] and int(segment["lower_bound"]) > 0:
                complete = False
            if complete:
                chosen.append(segment)
            elif family in _UNBROKEN:
                break
    return chosen


def _archived(ask: Ask, tables: Iterable[str], segments: list[dict[str, Any]], noted: list[dict[str, Any]]) -> set[int]:
    """The numbers of the dropped segments of which files hold every table as a whole."""
    dropped = [one for one in segments if one["dropped"]]
    found = set(range(len(dropped)))
    for table in tables:
        files = [_noted_bounds(one) for one in noted if one["table_name"] == table]
        found &= _matching(ask, table, files, "@>", [_bounds(one)[table] for one in dropped])
    return {dropped[place]["segment_no"] for place in found}


def _noted_bounds(record: Mapping[str, Any]) -> Bounds:
    return record["lower_bound"], record["upper_bound"]


def _bounds(segment: Mapping[str, Any]) -> dict[str, Bounds]:
    found = {}
    for table, units in _FAMILIES[segment["family"]].items():
        low, high = segment["lower_bound"], segment["upper_bound"]
        found[table] = (low, high) if units == 1 else (str(int(low) * units), str(int(high) * units))
    return found


def _matching(ask: Ask, table: str, ranges: list[Bounds], operator: str, given: list[Bounds]) -> set[int]:
    """The places in `given` for which `ranges OPERATOR bounds` holds."""
    if not given:
        return set()
    listed = ", ".join(f"({place}, {multirange(table, [bounds])})" for place, bounds in enumerate(given))
    rows = ask(
        f"select g.place from (values {listed}) as g (place, b) where {multirange(table, ranges)} {operator} g.b"
    )
    return {int(row["place"]) for row in rows}


def multirange(table: str, ranges: Iterable[Bounds]) -> str:
    """Ranges of a table's key as an SQL literal."""
    listed = ",".join(f'["{low}","{high}")' for low, high in ranges)
    return f"'{{{listed}}}'::{'tstzmultirange' if table == 'delayed' else 'int8multirange'}"


def read_ranges(table: str, ranges: Iterable[Bounds]) -> str:
    """The SQL expression for the ranges of a table that are read from files, at a snapshot.

    `ranges` are those that were chosen before the snapshot.
    """
    listed = multirange(table, ranges)
    return f"({listed} * {_NO_DECISIONS})" if table == "op_log" else listed


def within(table: str, ranges: Iterable[Bounds]) -> str:
    """The SQL condition that a row q of a table is read from a file, at a snapshot.

    `ranges` are those that were chosen before the snapshot.
    """
    return f"q.{KEYS[table]}{'' if table == 'delayed' else '::bigint'} <@ {read_ranges(table, ranges)}"


def columns_of(ask: Ask, table: str) -> dict[str, str]:
    """The columns of the audit view of a table, with PostgreSQL's names of their types."""
    rows = ask(
        "select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type from pg_attribute as a "
        f"where a.attrelid = 'mqpg.audit_{table}'::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum"
    )
    return {row["name"]: row["type"] for row in rows}


def segments_with(columns: Sequence[str], read: str) -> str:
    """The query for the segments in which those that are read from an archive are there.

    Args:
        columns: The columns of the view of the segments.
        read: A FROM item r (family, segment_no, lower_bound, upper_bound) with the segments that are read.
    """
    listed = ", ".join(
        f"case when r.family is null then s.{name} else {_DROPPED[name]} end as {name}"
        if name in _DROPPED
        else f"s.{name}"
        for name in columns
    )
    return (
        f"select {listed} from mqpg.audit_segment as s left join {read} on "
        "r.family = s.family and r.segment_no = s.segment_no and r.lower_bound = s.lower_bound "
        "and r.upper_bound = s.upper_bound"
    )
