"""The files of an archive that is not on this machine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from mqpg.audit.archived import choose
from mqpg.audit.archived_files import local_folder, require_within
from mqpg.audit.sql.workspace import Workspace
from mqpg.values.errors import ConfigurationError

__all__ = ["local_archive"]


@contextlib.contextmanager
def local_archive(spark: SparkSession, work: Workspace, archive: str | Path | None) -> Iterator[Path | None]:
    """Name a folder of this machine with the files of an archive that an audit reads, until the block ends.

    None means that there is no archive. Raises ConfigurationError if a file is missing.
    """
    folder = None if archive is None else local_folder(archive)
    if archive is None or folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="mqpg-audit-") as own:
        for record in choose(work.query).files:
            require_within(str(archive), record["location"])
            _copy(spark, f"{str(archive).rstrip('/')}/{record['location']}", Path(own, record["location"]))
        yield Path(own)


def _copy(spark: SparkSession, source: str, target: Path) -> None:
    """Copy a file out of a file system that Hadoop knows."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(source)
    files = path.getFileSystem(context.hadoopConfiguration())
    if not files.exists(path):
        raise ConfigurationError(f"--archive: {source} is missing")
    target.parent.mkdir(parents=True, exist_ok=True)
    files.copyToLocalFile(False, path, jvm.org.apache.hadoop.fs.Path(f"file://{target}"), True)
