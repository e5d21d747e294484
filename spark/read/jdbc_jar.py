"""Finding the PostgreSQL JDBC driver for Spark. It needs neither Spark nor Java."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mqpg.values.errors import ConfigurationError

__all__ = ["MAVEN_COORDINATES", "WBJDBC_SHA256", "JdbcJar", "find_jdbc_jar"]

MAVEN_COORDINATES = "org.postgresql:postgresql:42.7.4"
# The wheel has one maintainer and does not come from the PostgreSQL project. For that reason only
# a jar with exactly these bytes, which were inspected, is run.
WBJDBC_SHA256 = "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"
_WBJDBC_PATH = Path("resources", "maven", "postgresql", "postgresql-42.7.4.jar")
_DEBIAN_FOLDER = Path("/usr/share/java")


@dataclass(frozen=True)
class JdbcJar:
    """A driver: a jar on disk, or Maven coordinates that Spark resolves. One of the two is None."""

    source: str  # where it was found, for the report
    path: Path | None = None
    coordinates: str | None = None

    @property
    def version(self) -> str:
        """The version in the file's name or in the coordinates, 'unknown' if there is none."""
        found = re.search(r"(\d+(?:\.\d+)+)", self.coordinates or (self.path.name if self.path else ""))
        return found.group(1) if found else "unknown"

    def __str__(self) -> str:
        return f"{self.path or self.coordinates} ({self.source})"

    def spark_options(self) -> dict[str, str]:
        """Return the settings that put the driver on Spark's class path."""
        if self.path is not None:
            return {"spark.jars": str(self.path), "spark.driver.extraClassPath": str(self.path)}
        return {"spark.jars.packages": self.coordinates or MAVEN_COORDINATES}


def find_jdbc_jar(environ: Mapping[str, str] = os.environ) -> JdbcJar:
    """Find a driver.

    The places are searched in this order: MQPG_JDBC_JAR, pyspark's jars, Debian's package, the package
    wbjdbc, Maven. Raises ConfigurationError if MQPG_JDBC_JAR names no file, or wbjdbc's jar is not the
    inspected one.
    """
    named = environ.get("MQPG_JDBC_JAR")
    if named:
        if not Path(named).is_file():
            raise ConfigurationError(f"MQPG_JDBC_JAR names no file: {named}")
        return JdbcJar("MQPG_JDBC_JAR", Path(named))
    finders: list[Callable[[], JdbcJar | None]] = [_in_pyspark, _in_debian, _in_wbjdbc]
    for finder in finders:
        if jar := finder():
            return jar
    return JdbcJar("Maven", coordinates=MAVEN_COORDINATES)


def _package_folder(name: str) -> Path | None:
    # find_spec does not import the package. Importing wbjdbc would make it look for a JVM.
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _newest(folder: Path, pattern: str) -> Path | None:
    jars = sorted(path for path in folder.glob(pattern) if path.is_file())
    return jars[-1] if jars else None


def _in_pyspark() -> JdbcJar | None:
    folder = _package_folder("pyspark")
    path = _newest(folder / "jars", "postgresql*.jar") if folder else None
    return JdbcJar("pyspark's jars folder", path) if path else None


def _in_debian() -> JdbcJar | None:
    path = _newest(_DEBIAN_FOLDER, "postgresql*.jar")
    return JdbcJar("Debian package libpostgresql-jdbc-java", path) if path else None


def _in_wbjdbc() -> JdbcJar | None:
    folder = _package_folder("wbjdbc")
    path = folder / _WBJDBC_PATH if folder else None
    if path is None or not path.is_file():
        return None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != WBJDBC_SHA256:
        raise ConfigurationError(
            f"{path} has sha256 {digest} instead of {WBJDBC_SHA256}: set MQPG_JDBC_JAR to a jar that you trust"
        )
    return JdbcJar("PyPI package wbjdbc", path)
