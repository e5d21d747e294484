"""The Spark session of an audit.

It writes few log lines and computes in UTC. It runs in this process unless MQPG_SPARK_MASTER names
a cluster. If spark-submit started this process, its options decide instead: the master, the
memory and the folders are then the submitter's.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mqpg.values.errors import ConfigurationError

from .class_archive import class_archive_options
from .jdbc_jar import JdbcJar, find_jdbc_jar
from .tuning import Tuning, default_memory

__all__ = [
    "JavaMissing",
    "default_threads",
    "is_local",
    "name_calls",
    "named_calls",
    "open_session",
    "own_session",
    "session_settings",
]

_log = logging.getLogger(__name__)

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
# Spark names the line of code behind each part of a plan, and walks the stack for it, unless these say it.
_CALL = ("callSite.short", "callSite.long")
_SIZE = re.compile(r"[1-9][0-9]*[kmg]", re.IGNORECASE)
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.port.maxRetries": "64",
    # Spark keeps the plans of its last 1000 queries and the tasks of its last 1000 jobs for a page
    # that is never opened. They fill the heap of a session with many audits.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "100",
}


class JavaMissing(ConfigurationError):
    """There is no Java that could run Spark."""


def default_threads() -> int:
    """Return how many threads a local session has by default: one for each core, two to four."""
    return max(2, min(4, os.cpu_count() or 2))


def is_local(spark: SparkSession) -> bool:
    """Whether a session runs in one process, so that all its tasks share the driver's files."""
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


@contextlib.contextmanager
def session_settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Change settings of a session until the block ends."""
    before: dict[str, str | None] = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def name_calls(spark: SparkSession) -> None:
    """Give all that this thread asks of Spark from now on one name, which saves Spark a look at the stack."""
    for name in _CALL:
        spark.sparkContext.setLocalProperty(name, "mqpg audit")


@contextlib.contextmanager
def named_calls(spark: SparkSession) -> Iterator[None]:
    """Do what `name_calls` does until the block ends."""
    before = {name: spark.sparkContext.getLocalProperty(name) for name in _CALL}
    name_calls(spark)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.sparkContext.setLocalProperty(name, old)  # type: ignore[arg-type]  # None removes it


@contextlib.contextmanager
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Open a session beside the caller's, with views and settings of its own, in UTC, until the block ends.

    Spark makes the session whose `createDataFrame` is called last the active one of the thread. A data source that is
    registered in the caller's session could not be written to any more, so that one is made active again.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield own
    finally:
        spark.createDataFrame([], "n int")


@contextlib.contextmanager
def open_session(
    threads: int | None = None,
    *,
    jar: JdbcJar | None = None,
    memory: str | None = None,
    tuning: Tuning | None = None,
) -> Iterator[SparkSession]:
    """Open a Spark session with the JDBC driver on its class path, until the block ends.

    If this process has a session already, as in a notebook, the block works in that one, with
    its threads and its memory, and leaves it open.

    `memory` is the driver's heap in Spark's notation; None: 1 GiB for a small audit, and `default_memory()` for
    a large one. Raises JavaMissing, and ConfigurationError if there is no usable driver or `memory` is malformed.
    """
    if memory is not None and not _SIZE.fullmatch(memory):
        raise ConfigurationError(f"the memory must be a number with a unit, such as 4g or 1500m, not {memory!r}")
    _require_java()
    jar = jar or find_jdbc_jar()
    _log.info("JDBC driver: %s", jar)
    if SparkContext._active_spark_context is not None:
        with _own_settings(SparkSession.builder.getOrCreate(), jar) as session:
            yield session
        return
    scratch = Path(tempfile.mkdtemp(prefix="mqpg-audit-"))
    options = _SESSION | jar.spark_options()
    if not _submitted():
        # Workers with another interpreter than the driver's would lack its packages.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        options |= _jvm_options(threads or default_threads(), memory, tuning or Tuning(), scratch, jar)
    opened: SparkSession | None = None
    try:
        builder = SparkSession.builder.appName("mqpg audit")
        for name, value in options.items():
            builder = builder.config(name, value)
        with _stdout_kept():
            opened = builder.getOrCreate()
        opened.sparkContext.setLogLevel("ERROR")
        if _submitted():
            _add_jar(opened, jar)
        yield opened
    finally:
        if opened is not None:
            opened.stop()
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _stdout_kept() -> Iterator[None]:
    """Give a JVM that is started stderr in place of stdout.

    It lives on while it writes its archive of classes, and whoever reads the audit's output from a pipe would wait.
    """
    before = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


@contextlib.contextmanager
def _own_settings(session: SparkSession, jar: JdbcJar) -> Iterator[SparkSession]:
    """Let a session of somebody else read databases, and compute in UTC, until the block ends."""
    _add_jar(session, jar)
    with session_settings(session, {"spark.sql.session.timeZone": "UTC"}):
        yield session


def _add_jar(session: SparkSession, jar: JdbcJar) -> None:
    """Add the driver to the class path of a JVM that runs already, so that its own is fixed."""
    if jar.path is not None:
        session.sql(f"add jar '{jar.path}'")


def _submitted() -> bool:
    """Say whether spark-submit has started this process, and a JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if (home and Path(home, "bin", "java").is_file()) or shutil.which("java"):
        return
    raise JavaMissing(
        "the audit needs Java 17 or newer: install a headless JRE "
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )


def _jvm_options(threads: int, memory: str | None, tuning: Tuning, scratch: Path, jar: JdbcJar) -> dict[str, str]:
    """Return the options of a JVM that this process starts, local session or cluster's driver."""
    log_config = scratch / "log4j2.properties"
    log_config.write_text(_QUIET)
    heap = memory or ("1g" if tuning.small else f"{default_memory() >> 20}m")
    java_options = f"-Dlog4j2.configurationFile={log_config} {tuning.java_options()}"
    master = os.environ.get("MQPG_SPARK_MASTER")
    if tuning.short and not master:
        java_options += f" {class_archive_options(jar.path)}"
    options = {
        "spark.driver.extraJavaOptions": java_options,
        "spark.driver.memory": heap,
        "spark.sql.warehouse.dir": f"file://{scratch}/warehouse",
    }
    if master:
        return options | {"spark.master": master}
    # Spark stops if the host name does not resolve. Only this process connects to it anyway.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return options | {
        "spark.master": f"local[{threads}]",
        "spark.local.dir": str(scratch),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
