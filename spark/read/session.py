"""The Spark session of an audit.

It is small, writes few log lines and computes in UTC. It runs locally unless MQPG_SPARK_MASTER
names a cluster.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mqpg.errors import ConfigurationError

from .jar import JdbcJar, find_jdbc_jar

__all__ = ["NO_CODEGEN", "default_threads", "open_session", "run_concurrently", "session_settings", "without_codegen"]

_log = logging.getLogger(__name__)

NO_CODEGEN = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
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


def default_threads() -> int:
    """Return how many threads a local session has by default: one for each core, two to four."""
    return max(2, min(4, os.cpu_count() or 2))


def run_concurrently(*jobs: Callable[[], Any]) -> list[Any]:
    """Run some jobs, two at a time, so that one is planned while the other runs.

    Args:
        *jobs: The jobs.

    Returns:
        Their results, in their order.
    """
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def without_codegen(spark: SparkSession) -> contextlib.AbstractContextManager[None]:
    """Interpret plans until the block ends, instead of compiling generated code.

    Plain reads are not faster with generated code, and compiling it takes a visible part of a short
    job.

    Args:
        spark: The session.

    Returns:
        The block.
    """
    return session_settings(spark, NO_CODEGEN)


@contextlib.contextmanager
def session_settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Change settings of a session until the block ends.

    Args:
        spark: The session.
        wanted: The settings by name.
    """
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


@contextlib.contextmanager
def open_session(
    threads: int | None = None, *, jar: JdbcJar | None = None, memory: str = "1g"
) -> Iterator[SparkSession]:
    """Open a Spark session with the JDBC driver on its class path, until the block ends.

    Args:
        threads: Threads of a local session. None means `default_threads()`.
        jar: The JDBC driver. None means what `find_jdbc_jar()` finds.
        memory: The driver's heap, in Spark's notation.

    Yields:
        The session.

    Raises:
        ConfigurationError: There is no Java to run it, or no usable driver.
    """
    _require_java()
    jar = jar or find_jdbc_jar()
    threads = threads or default_threads()
    _log.info("JDBC driver: %s", jar)
    scratch = Path(tempfile.mkdtemp(prefix="mqpg-audit-"))
    session: SparkSession | None = None
    try:
        session = _build(threads, jar, memory, scratch)
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        if session is not None:
            session.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if (home and Path(home, "bin", "java").is_file()) or shutil.which("java"):
        return
    raise ConfigurationError(
        "the audit needs Java 17 or newer: install a headless JRE "
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )


def _build(threads: int, jar: JdbcJar, memory: str, scratch: Path) -> SparkSession:
    # Workers with another interpreter than the driver's would lack its packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Spark stops where the host name does not resolve. Only this process connects to it anyway.
    if not os.environ.get("MQPG_SPARK_MASTER"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log_config = scratch / "log4j2.properties"
    log_config.write_text(_QUIET)
    # Only the first JIT compiler, and the serial collector, because the job ends before the second
    # compiler would save time.
    java = f"-Dlog4j2.configurationFile={log_config} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
    options = {
        "spark.driver.extraJavaOptions": java,
        "spark.driver.memory": memory,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * threads),
        "spark.sql.autoBroadcastJoinThreshold": str(32 << 20),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.port.maxRetries": "64",
        **jar.spark_options(),
    }
    master = os.environ.get("MQPG_SPARK_MASTER")
    if not master:
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master(master or f"local[{threads}]").appName("mqpg audit")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
