"""A place where derived frames are stored as Parquet files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ..read.session import NO_CODEGEN, session_settings

__all__ = ["ParquetStore", "open_parquet_store"]

# Up to this many rows, one task that interprets its plan finishes before Spark has set up shuffles
# and broadcasts and has compiled some hundred generated classes.
_SMALL = 400_000
_ONE_TASK = NO_CODEGEN | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True)
class ParquetStore:
    """Writes each frame to Parquet once and reads it back, which cuts its lineage.

    A frame that is read back has its true size and a plan of one node. A cached frame would keep
    its lineage, and planning a union of twenty searches over it took longer than the audit itself.

    Attributes:
        folder: Where the files are.
        small: Whether each frame is a single partition, so that joins need no shuffle.
    """

    folder: Path
    small: bool

    def narrow(self, frame: DataFrame) -> DataFrame:
        """Reduce a frame to a single partition where the store is small.

        Args:
            frame: The frame.

        Returns:
            The frame in fewer partitions, or as it was.
        """
        return frame.coalesce(1) if self.small else frame

    def materialize(self, name: str, frame: DataFrame) -> DataFrame:
        """Compute a frame, write it and read it back.

        Args:
            name: The name of its folder.
            frame: The frame.

        Returns:
            The same rows without their lineage.
        """
        path = str(self.folder / name)
        self.narrow(frame).write.parquet(path)
        return self.narrow(frame.sparkSession.read.schema(frame.schema).parquet(path))


@contextlib.contextmanager
def open_parquet_store(spark: SparkSession, rows: int) -> Iterator[ParquetStore]:
    """Make a store in a temporary folder, with Spark's settings to match, until the block ends.

    Args:
        spark: The session.
        rows: How many rows were read. They decide whether the store is small.

    Yields:
        The store.
    """
    small = rows <= _SMALL
    with (
        tempfile.TemporaryDirectory(prefix="mqpg-audit-") as folder,
        session_settings(spark, _ONE_TASK if small else {}),
    ):
        yield ParquetStore(Path(folder), small)
