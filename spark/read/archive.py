"""Segments that retention has dropped, read from the files that `mqpg archive` wrote.

The driver chooses the files and compares each of them with what the broker noted. Spark then reads
them, and the live tables without these segments.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqpg.archive.digest import row_digest
from mqpg.archive.files import read_rows
from mqpg.audit.archived import (
    KEYS,
    Chosen,
    choose,
    columns_of,
    segments_with,
    within,
)
from mqpg.audit.archived_files import damaged, local_folder, require_known_columns, require_noted, require_within
from mqpg.connection.text_session import one_line, text_session
from mqpg.values.errors import ConfigurationError, DatabaseError

from .session import is_local, session_settings

__all__ = ["Archive", "open_archive", "require_visible"]

_VIEWS = re.compile(rf"mqpg\.audit_({'|'.join(KEYS)}|segment)\b")
_BYTES_AT_ONCE = 4 << 20


@dataclass
class Archive:
    """What is read from an archive. Its files are verified.

    Attributes:
        folder: The folder or its URI.
        columns: The columns of each table and of the view of the segments, with their types.
        ticks: The first and the last of the archived ticks. Empty if there is none.
        newest_subscription: The greatest id of a subscription in an archived cursor.
    """

    spark: SparkSession
    folder: str
    chosen: Chosen
    columns: dict[str, dict[str, str]]
    ticks: list[dict[str, Any]] = field(default_factory=list)
    newest_subscription: int = 0

    def adapt(self, text: str) -> str:
        """SQL that reads the live rows only, and shows the chosen segments as present.

        Each view of an archived table has an alias in it.
        """
        return _VIEWS.sub(lambda found: f"({self._live(found.group(1))})", text)

    def rows(self, table: str) -> DataFrame | None:
        """The rows of a table's files, as they are stored. None: there is no file."""
        files = self.chosen.of(table)
        if not files:
            return None
        stored = {"smallint": "bigint", "integer": "bigint", "bigint": "bigint", "boolean": "boolean"}
        schema = ", ".join(f"{name} {stored.get(kind, 'string')}" for name, kind in self.columns[table].items())
        return self.spark.read.schema(schema).parquet(*(_escaped(_uri(self.folder, one["location"])) for one in files))

    def verify(self) -> None:
        """Require that Spark finds as many rows as were verified. Raises ConfigurationError."""
        counts = [
            frame.agg(F.lit(table).alias("name"), F.count(F.lit(1)).alias("n"))
            for table in KEYS
            if (frame := self.rows(table)) is not None
        ]
        for number, frame in enumerate(counts):
            counts[0] = frame if number == 0 else counts[0].union(frame)
        for row in counts[0].collect() if counts else []:
            noted = sum(int(one["n"]) for one in self.chosen.of(row["name"]))
            if row["n"] != noted:
                raise ConfigurationError(
                    f"--archive: the files of {row['name']} in {self.folder} changed while they were read: "
                    f"{row['n']} rows instead of {noted}"
                )

    def _live(self, view: str) -> str:
        if view != "segment":
            return f"select q.* from mqpg.audit_{view} as q where not {within(view, self.chosen.ranges[view])}"
        names = ("family", "segment_no", "lower_bound", "upper_bound")
        chosen = json.dumps([{name: one[name] for name in names} for one in self.chosen.segments]).replace("'", "''")
        kinds = "family text, segment_no bigint, lower_bound text, upper_bound text"
        return segments_with(list(self.columns["segment"]), f"json_to_recordset('{chosen}') as r ({kinds})")


def require_visible(spark: SparkSession, folder: str) -> None:
    """Raise ConfigurationError for a folder of this machine that the executors of a cluster cannot see."""
    local = local_folder(folder)
    if local is None or is_local(spark):
        return
    smallest = min(local.rglob("*.parquet"), key=lambda path: path.stat().st_size, default=None)
    if smallest is None:
        return
    # So many tasks that every executor has one.
    tasks = [_escaped(f"file://{smallest.resolve()}")] * (2 * spark.sparkContext.defaultParallelism)
    alone = {"spark.sql.files.maxPartitionBytes": "1", "spark.sql.files.openCostInBytes": "1"}
    try:
        with session_settings(spark, alone):
            spark.read.format("binaryFile").load(tasks).agg(F.sum(F.octet_length("content"))).collect()
    except (PySparkException, Py4JError) as error:
        raise ConfigurationError(
            f"--archive: the executors cannot see {folder}: name a folder that they share, or its URI, such as hdfs://…"
        ) from error


def open_archive(spark: SparkSession, archive: str | Path, dsn: str) -> Archive:
    """Choose what is read from an archive, and verify it.

    Raises ConfigurationError if a file is missing, damaged or another one than the broker noted.
    """
    folder = str(archive)
    with text_session(dsn, "mqpg audit") as connection:

        def ask(query: str) -> list[dict[str, Any]]:
            try:
                return connection.execute(query.encode()).fetchall()
            except psycopg.Error as error:
                raise DatabaseError(f"the archive: {one_line(error)}") from error

        chosen = choose(ask)
        opened = Archive(spark, folder, chosen, {table: columns_of(ask, table) for table in (*KEYS, "segment")})
        for record in chosen.files:
            _verify(connection, opened, record)
    return opened


def _verify(connection: psycopg.Connection[dict[str, Any]], archive: Archive, record: Mapping[str, Any]) -> None:
    """Compare one file with what the broker noted, which hashes its rows."""
    table, names = record["table_name"], list(record["columns"])
    path = _shown(archive.folder, record["location"])
    require_within(archive.folder, record["location"])
    n, digest = 0, 0
    with _local_copy(archive, record["location"]) as copy:
        require_known_columns(path, record, archive.columns[table])
        named = ", ".join(f'q."{name}"' for name in names)
        query = (
            f"select count(*) as n, coalesce({row_digest(named)}, 0) as digest "
            f"from json_populate_recordset(null::mqpg.audit_{table}, %s::json) as q"
        )
        try:
            for text in _as_json(read_rows(copy, names), names, _notice(archive, table)):
                row = connection.execute(query.encode(), [text]).fetchone()
                assert row is not None
                n, digest = n + row["n"], digest + int(row["digest"])
        except psycopg.OperationalError as error:
            raise DatabaseError(f"the archive: {one_line(error)}") from error
        except (OSError, ValueError, psycopg.Error) as error:
            raise damaged(path, error) from error
    require_noted(path, record, n, digest)


def _notice(archive: Archive, table: str) -> Callable[[dict[str, Any]], None]:
    """Return what looks at each row of a table while it is verified."""

    def tick(row: dict[str, Any]) -> None:
        inside = any(int(low) <= row["tick_id"] < int(high) for low, high in archive.chosen.ranges["tick"])
        if inside:
            both = sorted([*archive.ticks, row], key=lambda one: int(one["tick_id"]))
            archive.ticks = [both[0], both[-1]]

    def cursor(row: dict[str, Any]) -> None:
        archive.newest_subscription = max(archive.newest_subscription, row["subscription_id"])

    return {"tick": tick, "cursor": cursor}.get(table, lambda _: None)


def _as_json(
    rows: Iterable[Sequence[object]], names: list[str], notice: Callable[[dict[str, Any]], None]
) -> Iterator[str]:
    """Return lists of rows as JSON, each of a few MiB."""
    texts, size = list[str](), 0
    for values in rows:
        row = dict(zip(names, values, strict=True))
        notice(row)
        texts.append(json.dumps(row))
        size += len(texts[-1])
        if size >= _BYTES_AT_ONCE:
            yield f"[{','.join(texts)}]"
            texts, size = [], 0
    if texts:
        yield f"[{','.join(texts)}]"


@contextlib.contextmanager
def _local_copy(archive: Archive, location: str) -> Iterator[Path]:
    """Return a file on this machine, and remove it at the end if it is a copy."""
    shown = _shown(archive.folder, location)
    folder = local_folder(archive.folder)
    if folder is not None:
        if not (folder / location).is_file():
            raise ConfigurationError(f"--archive: {shown} is missing")
        yield folder / location
        return
    jvm, context = archive.spark.sparkContext._jvm, archive.spark.sparkContext._jsc
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(shown)
    files = path.getFileSystem(context.hadoopConfiguration())
    if not files.exists(path):
        raise ConfigurationError(f"--archive: {shown} is missing")
    with tempfile.TemporaryDirectory(prefix="mqpg-audit-") as own:
        copy = Path(own, "file.parquet")
        files.copyToLocalFile(False, path, jvm.org.apache.hadoop.fs.Path(f"file://{copy}"), True)
        yield copy


def _shown(folder: str, location: str) -> str:
    local = local_folder(folder)
    return f"{folder.rstrip('/')}/{location}" if local is None else str(local / location)


def _uri(folder: str, location: str) -> str:
    local = local_folder(folder)
    # Hadoop takes the path as it is. It would not understand the %20 of a proper URI.
    return _shown(folder, location) if local is None else f"file://{(local / location).resolve()}"


def _escaped(path: str) -> str:
    """Return a path in which nothing is a pattern."""
    return re.sub(r"([][{}*?\\])", r"\\\1", path)
