"""The Spark session of an audit: local unless MQPG_SPARK_MASTER names a cluster, small, quiet, UTC."""

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

__all__ = ["INTERPRETED", "default_threads", "interpreted", "open_session", "settings", "together"]

_log = logging.getLogger(__name__)

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
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
    """Local threads of a session where nobody says: the cores of this machine, two to four."""
    return max(2, min(4, os.cpu_count() or 2))


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Results of some jobs that run two at a time: one plans while the other works."""
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def interpreted(spark: SparkSession) -> contextlib.AbstractContextManager[None]:
    """Plain reads gain nothing from generated code, whose compilation a short job feels."""
    return settings(spark, INTERPRETED)


@contextlib.contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Settings of the session until the block ends."""
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
    """A Spark session with the JDBC driver on its class path, stopped at the end: local, or on MQPG_SPARK_MASTER.

    Raises ConfigurationError where there is no Java to run it.
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
    # Workers of another interpreter than the driver's would lack its packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # A host name that does not resolve stops Spark; nothing but this process is to reach it anyway.
    if not os.environ.get("MQPG_SPARK_MASTER"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log_config = scratch / "log4j2.properties"
    log_config.write_text(_QUIET)
    # Client JIT only and the serial collector: the job ends before the second compiler would pay.
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
