"""Spark's settings by the size of the audit, counted in messages.

A row of the log may hold 1024 messages, so rows say little about the work. A small audit is over
before generated code or a shuffle would save time. A large one needs them, and its memory must not
grow with the history: every join is one of sorted partitions, which Spark writes to disk if they
do not fit, and only frames with few rows are sent to every task.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Tuning", "default_memory"]

_INTERPRETED_ONLY = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

# Up to this many messages, interpreting expressions takes less time than compiling them.
_INTERPRETED = 50_000
# Up to this many, one task finishes before Spark has set up shuffles and broadcasts and has
# compiled some hundred classes for whole stages.
_SMALL = 300_000
# Up to this many, the second JIT compiler takes as long as it saves.
_SHORT = 2_000_000
# A partition of so many messages is sorted in memory, even if two tasks share a heap of 1 GiB.
_MESSAGES_PER_PARTITION = 250_000
# A hash table of so many rows in each task's memory is some 20 MiB.
_ROWS_TO_BROADCAST = 100_000
_GIB = 1 << 30
# Where Linux says how much memory the container of this process may use.
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

_ONE_TASK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.maxPlanStringLength": "0",
    # Interpreted projections would empty a cache for each row.
    "spark.sql.subexpressionElimination.enabled": "false",
    # A large partition would be shuffled, and the optimizer does not know how large one is.
    "spark.sql.defaultSizeInBytes": "1",
    "spark.sql.maxSinglePartitionBytes": "9223372036854775807b",
}
# Only the first JIT compiler, and the serial collector. Without the second compiler the JVM would
# reserve 48 MiB for compiled code, which the generated classes of a large audit fill.
_SHORT_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
_LONG_JVM = "-XX:+UseParallelGC"


@dataclass(frozen=True)
class Tuning:
    """What Spark's settings depend on: about how many messages are audited, and how many tasks run at once."""

    messages: int = 0
    threads: int = 2

    @property
    def small(self) -> bool:
        """Whether one task does all the work."""
        return self.messages <= _SMALL

    @property
    def short(self) -> bool:
        """Whether the JVM lives too briefly for its second JIT compiler."""
        return self.messages <= _SHORT

    @property
    def partitions(self) -> int:
        """In how many partitions a frame with one row for each message is kept."""
        wanted = self.messages // _MESSAGES_PER_PARTITION
        return 1 if self.small else max(2 * self.threads, min(wanted, 2000))

    def settings(self) -> dict[str, str]:
        """Return the settings of the session while it derives and judges."""
        if self.small and self.messages <= _INTERPRETED:
            return _ONE_TASK | _INTERPRETED_ONLY
        if self.small:
            # Projections and orderings are compiled, and the operators between them are not.
            return _ONE_TASK | {"spark.sql.codegen.factoryMode": "FALLBACK"}
        return {
            "spark.sql.shuffle.partitions": str(self.partitions),
            # Spark would rather have few partitions than ones that fit into memory.
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
            # Spark would choose by the size of compressed files. `broadcasts` chooses by rows.
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
            "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
            # Frames are partitioned by message id. That serves keys with more columns too.
            "spark.sql.requireAllClusterKeysForCoPartition": "false",
            "spark.sql.legacy.bucketedTableScan.outputOrdering": "true",
        }

    def java_options(self) -> str:
        """Return the options of a JVM that is started for this audit."""
        return _SHORT_JVM if self.short else _LONG_JVM

    def broadcasts(self, rows: int) -> bool:
        """Whether a frame of so many rows is sent to every task instead of being sorted and shuffled."""
        return rows <= _ROWS_TO_BROADCAST


def default_memory() -> int:
    """Return the driver's heap in bytes: a quarter of the memory, 1 GiB to 2.5 GiB.

    With 3 GiB the process of an audit of ten million messages had 4.0 GiB.

    The memory is that of the machine, or of the container if that is less.
    """
    quarter = min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_container_limits()]) // 4
    return max(_GIB, min(quarter, 5 * _GIB // 2))


def _container_limits() -> Iterator[int]:
    for path in _CGROUP_LIMITS:
        try:
            yield int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
