"""Segments that retention has dropped, read from the files that `mqpg archive` wrote.

The rows of a dropped segment go into temporary tables. Temporary views then stand in for the
broker's views: they have these rows too, and show such a segment as if it were there. A segment is
read only if all of its tables are archived. Queues and cursors are histories without holes, so of
them only the newest dropped segments are read, up to the first one that is not archived, or out of
which a merge has left messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqpg.archive.digest import row_digest
from mqpg.errors import ConfigurationError, DatabaseError

from .workspace import Workspace

__all__ = ["Archive", "load_archive", "with_archive"]

# The tables of each family, with how many units of their key one unit of the segment's bounds is.
_FAMILIES: Mapping[str, Mapping[str, int]] = {
    "log": {"commit_log": 1, "op_log": 1024},
    "tick": {"consume_queue": 1, "tick": 1},
    "cursor": {"cursor": 1},
    "delayed": {"delayed": 1},
}
_KEYS = {
    "commit_log": "batch_id",
    "op_log": "message_id",
    "consume_queue": "tick_id",
    "tick": "tick_id",
    "cursor": "slot",
    "delayed": "written_at",
}
_UNBROKEN = ("tick", "cursor")
_REPLACED = re.compile(r"mqpg\.audit_(commit_log|op_log|consume_queue|tick|cursor|delayed|segment)\b")
# What says that a segment is dropped, and what these columns are while it is there.
_DROPPED = {"leaving": "null", "body_dropped_at": "null", "dropped_at": "null", "left_out": "'{}'"}
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
    """What was read from an archive.

    Attributes:
        files: How many files.
        rows: How many rows they have.
        segments: How many dropped segments of each family these are.
    """

    files: int
    rows: int
    segments: dict[str, int]


def with_archive(name: str, text: str) -> str:
    """Return a statement that reads the archive too.

    Args:
        name: Its name among the reads.
        text: The statement.
    """
    return text if name == "remaining" else _REPLACED.sub(r"all_\1", text)


def load_archive(work: Workspace, folder: Path) -> Archive:
    """Read what an archive has of dropped segments, and verify it.

    Args:
        work: The session, before it reads the broker.
        folder: The folder of the archive.

    Returns:
        What was read.

    Raises:
        ConfigurationError: A file is missing, damaged or another one than the broker noted.
        DatabaseError: A statement failed.
    """
    noted = work.query(_NOTED)
    chosen = _choose(work, noted)
    ranges: dict[str, list[tuple[str, str]]] = {table: [] for table in _KEYS}
    found = Archive(0, 0, {})
    for segment in chosen:
        found.segments[segment["family"]] = found.segments.get(segment["family"], 0) + 1
        for table, bounds in _bounds(segment).items():
            ranges[table].append(bounds)
    for table in _KEYS:
        columns = _columns(work, table)
        work.query(f"create temp table archived_{table} as select q.* from mqpg.audit_{table} as q with no data")
        for record in noted:
            if record["table_name"] == table and _touches(work, table, record, ranges[table]):
                found.files += 1
                found.rows += _load_file(work, folder, record, columns)
        _stand_in(work, table, ranges[table])
    _stand_in_for_segments(work, chosen)
    work.insert("archived_range", [(int(low) * 1024, int(high) * 1024) for low, high in ranges["commit_log"]])
    return found


def _choose(work: Workspace, noted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the dropped segments that are read from the archive."""
    chosen = []
    for family, tables in _FAMILIES.items():
        covered = {table: [one for one in noted if one["table_name"] == table] for table in tables}
        segments = [one for one in work.query(_SEGMENTS) if one["family"] == family]
        for segment in segments:
            if segment["partial"] and family in _UNBROKEN:
                break  # What a merge left out of a segment that is there would be a hole.
            if not segment["dropped"]:
                continue
            bounds = _bounds(segment)
            complete = all(_covers(work, table, covered[table], bounds[table]) for table in tables)
            # What groups were moved over, discarded or redrove then is not known any more.
            complete = complete and not segment["forgotten"]
            # Rows of the oldest segments may be deleted. Then the history does not begin here.
            if family == "tick" and segment is segments[-1] and int(segment["lower_bound"]) > 0:
                complete = False
            if complete:
                chosen.append(segment)
            elif family in _UNBROKEN:
                break
    return chosen


def _bounds(segment: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    found = {}
    for table, units in _FAMILIES[segment["family"]].items():
        low, high = segment["lower_bound"], segment["upper_bound"]
        found[table] = (low, high) if units == 1 else (str(int(low) * units), str(int(high) * units))
    return found


def _multirange(table: str, ranges: Iterable[tuple[str, str]]) -> str:
    """Return ranges of a table's key as an SQL literal."""
    listed = ",".join(f'["{low}","{high}")' for low, high in ranges)
    return f"'{{{listed}}}'::{'tstzmultirange' if table == 'delayed' else 'int8multirange'}"


def _covers(work: Workspace, table: str, noted: list[dict[str, Any]], bounds: tuple[str, str]) -> bool:
    files = _multirange(table, [(one["lower_bound"], one["upper_bound"]) for one in noted])
    return bool(work.query(f"select {files} @> {_multirange(table, [bounds])} as covered")[0]["covered"])


def _touches(work: Workspace, table: str, record: Mapping[str, Any], ranges: list[tuple[str, str]]) -> bool:
    one = _multirange(table, [(record["lower_bound"], record["upper_bound"])])
    return bool(work.query(f"select {one} && {_multirange(table, ranges)} as touches")[0]["touches"])


def _columns(work: Workspace, table: str) -> list[str]:
    rows = work.query(
        f"select a.attname::text as name from pg_attribute as a where a.attrelid = 'mqpg.audit_{table}'::regclass "
        "and a.attnum > 0 and not a.attisdropped order by a.attnum"
    )
    return [row["name"] for row in rows]


def _load_file(work: Workspace, folder: Path, record: Mapping[str, Any], columns: list[str]) -> int:
    """Read one file, compare it with what the broker noted, and keep its rows. Returns how many."""
    from mqpg.archive.files import read_rows

    path, table = folder / record["location"], record["table_name"]
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigurationError(f"--archive: {record['location']} is noted, which is not in {folder}")
    if not path.is_file():
        raise ConfigurationError(f"--archive: {path} is missing")
    unknown = set(record["columns"]) - set(columns)
    if unknown:
        raise ConfigurationError(f"--archive: {path} is from another release: it has {', '.join(sorted(unknown))}")
    named = ", ".join(f'q."{name}"' for name in record["columns"])
    work.query("drop table if exists arriving")
    work.query(f"create temp table arriving as select {named} from archived_{table} as q with no data")
    try:
        work.insert("arriving", read_rows(path, record["columns"]))
    except (OSError, ValueError, DatabaseError) as error:
        text = " ".join(str(error).split())
        raise ConfigurationError(f"--archive: {path} is damaged: {text}") from error
    found = work.query(f"select count(*) as n, coalesce({row_digest(named)}, 0) as digest from arriving as q")[0]
    if (found["n"], found["digest"]) != (record["n"], record["digest"]):
        raise ConfigurationError(
            f"--archive: {path} is not what the broker noted: it has {found['n']} rows with digest "
            f"{found['digest']}, and {record['n']} with {record['digest']} were noted"
        )
    listed = ", ".join(f'"{name}"' for name in record["columns"])
    work.query(f"insert into archived_{table} ({listed}) select {named} from arriving as q")
    return int(found["n"])


def _stand_in(work: Workspace, table: str, ranges: list[tuple[str, str]]) -> None:
    """Make the view of a table: archived rows of some ranges, and live rows of the others."""
    within = f"q.{_KEYS[table]}{'' if table == 'delayed' else '::bigint'} <@ {_multirange(table, ranges)}"
    work.query(
        f"create temp view all_{table} as select q.* from mqpg.audit_{table} as q where not {within} "
        f"union all select q.* from archived_{table} as q where {within}"
    )


def _stand_in_for_segments(work: Workspace, chosen: list[dict[str, Any]]) -> None:
    """Make the view of the segments in which those that were read are there."""
    work.query("create temp table read_segment (family text, segment_no bigint, lower_bound text, upper_bound text)")
    names = ("family", "segment_no", "lower_bound", "upper_bound")
    work.insert("read_segment", [tuple(one[name] for name in names) for one in chosen])
    columns = ", ".join(
        f"case when r.family is null then s.{name} else {_DROPPED[name]} end as {name}"
        if name in _DROPPED
        else f"s.{name}"
        for name in _columns(work, "segment")
    )
    work.query(
        f"create temp view all_segment as select {columns} from mqpg.audit_segment as s left join read_segment as r on "
        "r.family = s.family and r.segment_no = s.segment_no and r.lower_bound = s.lower_bound "
        "and r.upper_bound = s.upper_bound"
    )
