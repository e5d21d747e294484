"""A place for derived frames, as Parquet files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ..read.session import INTERPRETED, settings

__all__ = ["Stage", "stage"]

# Up to so many rows one task that interprets is done sooner than shuffles, broadcasts and the compilation of
# some hundred generated classes are set up.
_SMALL = 400_000
_ONE_TASK = INTERPRETED | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True)
class Stage:
    """A place for frames, as Parquet: read back, a frame has its true size and a plan of one node.

    (Cached frames keep their lineage: planning a union of twenty audits over it took longer than the audit.)
    small: frames are single partitions, so that their joins need no shuffle.
    """

    folder: Path
    small: bool

    def narrow(self, frame: DataFrame) -> DataFrame:
        """The frame in as many partitions as suit the stage."""
        return frame.coalesce(1) if self.small else frame

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """The frame, put down and read back."""
        path = str(self.folder / name)
        self.narrow(frame).write.parquet(path)
        return self.narrow(frame.sparkSession.read.schema(frame.schema).parquet(path))


@contextlib.contextmanager
def stage(spark: SparkSession, rows: int) -> Iterator[Stage]:
    """A stage for an audit of so many rows, and the settings that suit it, until the block ends."""
    small = rows <= _SMALL
    with tempfile.TemporaryDirectory(prefix="mqpg-audit-") as folder, settings(spark, _ONE_TASK if small else {}):
        yield Stage(Path(folder), small)
