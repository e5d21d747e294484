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
    """Run one audit in a Spark session of its own.

    Args:
        options: What is audited.
        threads: Threads of the local session. None: one for each core, two to four.
        memory: The heap of the JVM, such as "4g". None: it follows the size of the audit.

    Returns:
        The report.

    Raises:
        ConfigurationError: There is no Java, no usable JDBC driver, or a URL is wrong.
        Error: As in `mqpg.spark.jobs.audit.run_audit`.
    """
    threads = threads or default_threads()
    try:
        return run_audit(replace(options, partitions=threads), threads=threads, memory=memory)
    except JavaMissing as error:
        raise ConfigurationError(f"{error}, or use --engine sql, which needs neither Spark nor Java") from error
