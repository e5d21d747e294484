"""Segments that retention has dropped, read from the files that `mqpg archive` wrote.

The rows of a dropped segment go into temporary tables. Temporary views then stand in for the
broker's views: they have these rows too, and show such a segment as if it were there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mqpg.archive.digest import row_digest
from mqpg.audit.archived import (
    KEYS,
    Archive,
    Bounds,
    Chosen,
    choose,
    columns_of,
    segments_with,
    within,
)
from mqpg.audit.archived_files import damaged, local_folder, require_known_columns, require_noted, require_within
from mqpg.values.errors import ConfigurationError, DatabaseError

from .workspace import Workspace

__all__ = ["load_archive", "with_archive"]

_REPLACED = re.compile(r"mqpg\.audit_(commit_log|op_log|consume_queue|tick|cursor|delayed|segment)\b")


def with_archive(name: str, text: str) -> str:
    """Make the statement of a read, by its name and text, read the archive too."""
    return text if name == "remaining" else _REPLACED.sub(r"all_\1", text)


def load_archive(work: Workspace, archive: str | Path) -> Archive:
    """Read what an archive has of dropped segments, and verify it, before the broker is read.

    Raises ConfigurationError if a file is missing, damaged or another one than the broker noted, or the
    folder is not on this machine.
    """
    folder = local_folder(archive)
    if folder is None:
        raise ConfigurationError(
            f"--archive: the SQL engine reads a folder of this machine, not {archive}: use --engine spark"
        )
    chosen = choose(work.query)
    for table in KEYS:
        columns = columns_of(work.query, table)
        work.query(f"create temp table archived_{table} as select q.* from mqpg.audit_{table} as q with no data")
        for record in chosen.of(table):
            _load_file(work, folder, record, columns)
        _stand_in(work, table, chosen.ranges[table])
    _stand_in_for_segments(work, chosen)
    work.insert("archived_range", [(int(low) * 1024, int(high) * 1024) for low, high in chosen.ranges["commit_log"]])
    return chosen.summary()


def _load_file(work: Workspace, folder: Path, record: Mapping[str, Any], columns: Iterable[str]) -> None:
    """Read one file, compare it with what the broker noted, and keep its rows."""
    from mqpg.archive.files import read_rows

    path, table = folder / record["location"], record["table_name"]
    require_within(folder, record["location"])
    if not path.is_file():
        raise ConfigurationError(f"--archive: {path} is missing")
    require_known_columns(path, record, columns)
    named = ", ".join(f'q."{name}"' for name in record["columns"])
    work.query("drop table if exists arriving")
    work.query(f"create temp table arriving as select {named} from archived_{table} as q with no data")
    try:
        work.insert("arriving", read_rows(path, record["columns"]))
    except (OSError, ValueError, DatabaseError) as error:
        raise damaged(path, error) from error
    found = work.query(f"select count(*) as n, coalesce({row_digest(named)}, 0) as digest from arriving as q")[0]
    require_noted(path, record, found["n"], found["digest"])
    listed = ", ".join(f'"{name}"' for name in record["columns"])
    work.query(f"insert into archived_{table} ({listed}) select {named} from arriving as q")


def _stand_in(work: Workspace, table: str, ranges: list[Bounds]) -> None:
    """Make the view of a table: archived rows of some ranges, and live rows of the others."""
    condition = within(table, ranges)
    work.query(
        f"create temp view all_{table} as select q.* from mqpg.audit_{table} as q where not {condition} "
        f"union all select q.* from archived_{table} as q where {condition}"
    )


def _stand_in_for_segments(work: Workspace, chosen: Chosen) -> None:
    """Make the view of the segments in which those that were read are there."""
    work.query("create temp table read_segment (family text, segment_no bigint, lower_bound text, upper_bound text)")
    names = ("family", "segment_no", "lower_bound", "upper_bound")
    work.insert("read_segment", [tuple(one[name] for name in names) for one in chosen.segments])
    columns = columns_of(work.query, "segment")
    work.query(f"create temp view all_segment as {segments_with(list(columns), 'read_segment as r')}")
