"""Pinned JDBC reads: what Spark got is compared with what the exporter of the snapshot sees, or nothing counts."""

from __future__ import annotations

import functools
import itertools
import logging
from dataclasses import dataclass, field
from typing import cast

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from mqpg.errors import DatabaseError, Error

from .queries import Source
from .schemas import conform
from .snapshot import Snapshot

__all__ = ["Reader", "UnpinnedRead"]

_log = logging.getLogger(__name__)

# A partition below this many rows costs more to open than to read.
_ROWS_WORTH_A_PARTITION = 25_000
_PROOF = "_snapshot"


class UnpinnedRead(Error):
    """Rows that are not those of the exported snapshot: no verdict may rest on them."""


@dataclass
class _Expected:
    frame: DataFrame
    snapshot: str
    rows: int


@dataclass
class Reader:
    """Reads sources at their snapshots; `seal` fetches them all and proves that they are what was pinned."""

    spark: SparkSession
    partitions: int
    _expected: dict[str, _Expected] = field(default_factory=dict)

    def read(self, snapshot: Snapshot, source: Source) -> DataFrame:
        """The source as a cached frame in its schema; not to be trusted before `seal`.

        Raises DatabaseError where the exporter cannot read it.
        """
        rows, cuts = _measure(snapshot, source, self.partitions)
        frame = self._load(snapshot, source, cuts).persist()
        self._expected[source.name] = _Expected(frame, snapshot.snapshot, rows)
        return conform(frame, source.schema)

    def empty(self, schema: StructType) -> DataFrame:
        """A frame without rows."""
        # A constant false is known to the optimiser, which then leaves out whatever is joined with it.
        return conform(self.spark.range(1).where("false").select(*(F.lit(None).alias(c.name) for c in schema)), schema)

    def union(self, frames: list[DataFrame], schema: StructType) -> DataFrame:
        """All rows of some frames of one schema."""
        return functools.reduce(DataFrame.unionByName, frames) if frames else self.empty(schema)

    def seal(self) -> dict[str, int]:
        """Fetches every source once and returns the rows of each.

        Raises UnpinnedRead unless each row carries the exporter's snapshot and none is missing or too many.
        """
        proofs = [
            expected.frame.agg(
                F.lit(name).alias("name"),
                F.count(F.lit(1)).alias("n"),
                F.min(_PROOF).alias("low"),
                F.max(_PROOF).alias("high"),
            )
            for name, expected in self._expected.items()
        ]
        found = {row["name"]: row for row in functools.reduce(DataFrame.union, proofs).collect()} if proofs else {}
        for name, expected in self._expected.items():
            check_pinned(
                name, expected.snapshot, expected.rows, found[name]["n"], {found[name]["low"], found[name]["high"]}
            )
        return {name: expected.rows for name, expected in self._expected.items()}

    def _load(self, snapshot: Snapshot, source: Source, cuts: list[int]) -> DataFrame:
        key = f", {source.key} as _key" if source.key else ", 0 as _key"
        table = f"(select {source.columns}{key}, pg_current_snapshot()::text as {_PROOF} from {source.origin}) q"
        return self.spark.read.jdbc(
            url=snapshot.jdbc()["url"], table=table, predicates=_ranges(cuts), properties=snapshot.jdbc()
        )


def check_pinned(name: str, snapshot: str, rows: int, rows_read: int, seen: set[str | None]) -> None:
    """Raises UnpinnedRead unless the rows read are the exporter's in number and snapshot."""
    strangers = seen - {None, snapshot}
    if strangers:
        raise UnpinnedRead(f"{name}: rows of snapshot {min(map(str, strangers))} instead of {snapshot}")
    if rows_read != rows:
        raise UnpinnedRead(f"{name}: {rows_read} rows read where the snapshot has {rows}")


def _ranges(cuts: list[int]) -> list[str]:
    """Disjoint conditions on _key that together hold for every row."""
    if not cuts:
        return ["true"]
    inner = [f"_key >= {low} and _key < {high}" for low, high in itertools.pairwise(cuts)]
    return [f"_key < {cuts[0]}", *inner, f"_key >= {cuts[-1]}"]


def _measure(snapshot: Snapshot, source: Source, partitions: int) -> tuple[int, list[int]]:
    """Rows of the source, and where to cut its key so that the parts are about equal."""
    try:
        rows = _scalar(snapshot, f"select count(*) from {source.origin}")
        parts = min(partitions, cast(int, rows) // _ROWS_WORTH_A_PARTITION + 1)
        if source.key is None or parts == 1:
            return cast(int, rows), []
        shares = ", ".join(str(part / parts) for part in range(1, parts))
        cuts = _scalar(
            snapshot,
            f"select percentile_disc(array[{shares}]) within group (order by {source.key}) from {source.origin}",
        )
    except psycopg.Error as error:
        raise DatabaseError(f"{source.name} of {snapshot.database.name}: {' '.join(str(error).split())}") from error
    return cast(int, rows), sorted(set(cast("list[int]", cuts)))


def _scalar(snapshot: Snapshot, query: str) -> object:
    # The text is composed here from literals quoted by psycopg; names of topics and groups are only ever such.
    row = snapshot.connection.execute(query.encode()).fetchone()
    return next(iter(row.values())) if row else None
