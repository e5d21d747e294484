"""The engine `spark` of `mqpg audit`."""

from __future__ import annotations

from dataclasses import replace

from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.values.errors import ConfigurationError

from .jobs.audit import run_audit
from .read.session import JavaMissing, default_threads

__all__ = ["run"]


def run(options: AuditOptions, threads: int | None, memory: str | None) -> Report:
    """Run one audit, as `mqpg.spark.jobs.audit.run_audit` does, with one partition for each thread."""
    threads = threads or default_threads()
    try:
        return run_audit(replace(options, partitions=threads), threads=threads, memory=memory)
    except JavaMissing as error:
        raise ConfigurationError(f"{error}, or use --engine sql, which needs neither Spark nor Java") from error
