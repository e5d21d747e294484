"""Reading a pinned snapshot with Spark, and proving that Spark read exactly that snapshot."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqpg.connection.dsn import describe
from mqpg.connection.text_session import one_line
from mqpg.values.errors import ConfigurationError, DatabaseError, Error

from .chunks import frame_of_rows
from .portable import Column, portable, shaped, spark_schema
from .stores import FrameStore

__all__ = ["PinnedReader", "UnpinnedRead", "jdbc_options", "require_pinned"]

_log = logging.getLogger(__name__)

# So many rows come through this process sooner than by JDBC. A row with arrays may stand for a thousand.
_FEW, _FEW_WITH_ARRAYS = 20_000, 200
# A partition below this many rows costs more to open than to read.
_ROWS_WORTH_A_PARTITION = 25_000
_FETCHED = 1000
_PROOF = "_snapshot"
# libpq parameters that the JDBC driver knows, and their names there. The driver has a default for
# every other parameter, or the parameter exists in libpq only.
_JDBC_NAMES = {
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslrootcert": "sslrootcert",
    "options": "options",
    "connect_timeout": "connectTimeout",
}


class UnpinnedRead(Error):
    """Spark read rows that are not those of the exported snapshot, so no verdict is possible."""


@dataclass
class PinnedReader:
    """Reads result sets at the snapshot of an open transaction.

    A partitioned JDBC read is not a snapshot by itself: each partition is a transaction of its own, and
    under load the sums are wrong. So the session of each partition adopts the snapshot of the transaction,
    and each row that comes back names the snapshot at which it was read.
    """

    spark: SparkSession
    partitions: int  # the most in which a result is read
    store: FrameStore  # where results are kept
    few: int = _FEW  # results with up to so many rows come through this process

    def read(
        self,
        connection: psycopg.Connection[dict[str, Any]],
        name: str,
        query: str,
        columns: Sequence[Column],
        key: str | None = None,
    ) -> tuple[DataFrame, int]:
        """The rows of a query, a FROM item with the name `q`, and how many there are.

        The connection is in a transaction of REPEATABLE READ. `name` is what errors call the result, and `key` an
        integer column by which it may be cut into partitions. Raises UnpinnedRead and DatabaseError.
        """
        try:
            with connection.cursor("mqpg_rows", row_factory=tuple_row) as cursor:
                cursor.itersize = _FETCHED
                cursor.execute(f"select {portable(columns)} from {query}".encode())
                few = min(self.few, _FEW_WITH_ARRAYS) if _has_arrays(columns) else self.few
                first = cursor.fetchmany(few + 1)
                if len(first) <= few:
                    frame = frame_of_rows(self.spark, first, spark_schema(columns), self.store)
                    return shaped(frame, columns), len(first)
        except psycopg.Error as error:
            raise DatabaseError(f"{name} of {describe(connection.info.dsn)}: {one_line(error)}") from error
        return self._read_by_jdbc(connection, name, query, columns, key)

    def _read_by_jdbc(
        self,
        connection: psycopg.Connection[dict[str, Any]],
        name: str,
        query: str,
        columns: Sequence[Column],
        key: str | None,
    ) -> tuple[DataFrame, int]:
        row = connection.execute("select pg_export_snapshot() as id, pg_current_snapshot()::text as content").fetchone()
        assert row is not None
        options = _jdbc(connection) | {
            "sessionInitStatement": session_init(row["id"]),
            "fetchsize": str(_FEW_WITH_ARRAYS if _has_arrays(columns) else _FETCHED),
        }
        ranges = _ranges(_marks(connection, query, key, self.partitions) if key else [], f"q.{key}")
        table = f"(select {portable(columns)}, pg_current_snapshot()::text as {_PROOF} from {query}) q"
        frame = self.spark.read.jdbc(url=options["url"], table=table, predicates=ranges, properties=options)
        proved = [*columns, Column(_PROOF, "text")]
        kept = self.store.materialize(f"read {name}", shaped(frame, proved))
        found = kept.agg(F.count(F.lit(1)), F.min(_PROOF), F.max(_PROOF)).collect()[0]
        require_pinned(name, row["content"], {*found[1:]})
        return kept.drop(_PROOF), found[0]


def session_init(snapshot_id: str) -> str:
    """What each JDBC session runs first.

    BEGIN opens the transaction explicitly. With SET TRANSACTION alone and no fetch size the driver is in
    autocommit mode, and the statement would silently pin nothing.
    """
    return (
        f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{snapshot_id}'; "
        "SET LOCAL timezone = 'UTC'; SET LOCAL search_path = pg_catalog"
    )


def require_pinned(name: str, snapshot: str, seen: set[str | None]) -> None:
    """Raise UnpinnedRead unless all rows carry one snapshot. None in `seen` means that there were no rows."""
    others = seen - {None, snapshot}
    if others:
        raise UnpinnedRead(f"{name}: rows of snapshot {min(map(str, others))} instead of {snapshot}")


def jdbc_options(host: str, port: int, dbname: str, parameters: dict[str, str], password: str) -> dict[str, str]:
    """Translate a connection of psycopg into the options of a Spark JDBC read.

    The password is an option of its own, because URLs reach logs; an empty text means that there is none.
    Raises ConfigurationError for a Unix socket, which the JDBC driver cannot use.
    """
    if not host or host.startswith(("/", "@")):
        raise ConfigurationError(
            f"JDBC needs TCP, and this database was reached through a Unix socket ({host or 'default'}): "
            "name a host in its DSN"
        )
    shown = f"[{host}]" if ":" in host else host
    options = {
        "url": f"jdbc:postgresql://{shown}:{port}/{dbname}",
        "driver": "org.postgresql.Driver",
        "user": parameters.get("user", ""),
        "ApplicationName": "mqpg audit",
    }
    options |= {jdbc: parameters[libpq] for libpq, jdbc in _JDBC_NAMES.items() if parameters.get(libpq)}
    if password:
        options["password"] = password
    return options


def _jdbc(connection: psycopg.Connection[dict[str, Any]]) -> dict[str, str]:
    info = connection.info
    return jdbc_options(info.host, info.port, info.dbname, info.get_parameters(), info.password)


def _has_arrays(columns: Sequence[Column]) -> bool:
    return any(c.kind.endswith("[]") for c in columns)


def _marks(connection: psycopg.Connection[dict[str, Any]], query: str, key: str, parts: int) -> list[int]:
    """Cut the values of a key into parts of equal width."""
    ends = connection.execute(f"select min(q.{key}) as low, max(q.{key}) as high from {query}".encode()).fetchone()
    assert ends is not None
    low, high = ends["low"], ends["high"]
    return [] if low is None else sorted({low + (high - low) * part // parts for part in range(1, parts)} - {low})


def _ranges(marks: list[int], key: str) -> list[str]:
    """Return disjoint conditions on a key, one of which holds for every row."""
    if not marks:
        return ["true"]
    inner = [f"{key} >= {low} and {key} < {high}" for low, high in itertools.pairwise(marks)]
    return [f"{key} < {marks[0]} or {key} is null", *inner, f"{key} >= {marks[-1]}"]
