"""The archive of Spark's classes: when it is written, when it is used, and what removes it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqpg.spark.read.class_archive import class_archive_options
from mqpg.spark.read.tuning import Tuning

MAGIC = bytes.fromhex("a8ab0bf0")
SESSION = """
from mqpg.spark.read.session import open_session
with open_session(1) as spark:
    print(spark.range(5).count())
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    return {"JAVA_HOME": str(tmp_path / "jdk"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def option(options: str, name: str) -> Path:
    found = re.search(rf"-XX:{name}=(\S+)", options)
    assert found is not None, options
    return Path(found[1])


def test_the_first_jvm_writes_the_archive_and_the_next_one_uses_it(environ: dict[str, str]) -> None:
    written = option(class_archive_options(None, environ), "ArchiveClassesAtExit")
    written.write_bytes(MAGIC + b"classes")
    used = option(class_archive_options(None, environ), "SharedArchiveFile")
    assert used.read_bytes() == MAGIC + b"classes"
    assert not written.exists()


def test_an_archive_that_was_not_finished_is_not_used(environ: dict[str, str]) -> None:
    option(class_archive_options(None, environ), "ArchiveClassesAtExit").write_bytes(bytes(4096))
    assert "SharedArchiveFile" not in class_archive_options(None, environ)


def test_another_release_of_java_or_another_driver_has_another_archive(environ: dict[str, str], tmp_path: Path) -> None:
    driver = tmp_path / "postgresql.jar"
    driver.touch()
    names = {option(class_archive_options(jar, environ), "ArchiveClassesAtExit") for jar in (None, driver)}
    Path(environ["JAVA_HOME"], "release").write_text('JAVA_VERSION="21.0.1"\n')
    names.add(option(class_archive_options(None, environ), "ArchiveClassesAtExit"))
    assert len(names) == 3


def test_only_the_newest_archives_are_kept(environ: dict[str, str]) -> None:
    folder = Path(environ["XDG_CACHE_HOME"], "mqpg")
    folder.mkdir(parents=True)
    for n in range(5):
        file = folder / f"spark-{n}.jsa"
        file.touch()
        os.utime(file, (n, n))
    class_archive_options(None, environ)
    assert sorted(file.name for file in folder.iterdir()) == ["spark-2.jsa", "spark-3.jsa", "spark-4.jsa"]


@pytest.mark.parametrize("missing", ["release", "switch", "folder", "blank"])
def test_without_an_archive_the_jvm_gets_no_option(environ: dict[str, str], tmp_path: Path, missing: str) -> None:
    if missing == "release":
        Path(environ["JAVA_HOME"], "release").unlink()
    elif missing == "switch":
        environ["MQPG_CLASS_ARCHIVE"] = "off"
    elif missing == "folder":
        (tmp_path / "cache").write_text("a file")
    else:
        environ["XDG_CACHE_HOME"] = str(tmp_path / "a folder")
    assert class_archive_options(None, environ) == ""


def test_expressions_are_compiled_where_interpreting_them_takes_longer() -> None:
    modes = [Tuning(n).settings().get("spark.sql.codegen.factoryMode") for n in (50_000, 50_001, 300_000, 300_001)]
    assert modes == ["NO_CODEGEN", "FALLBACK", "FALLBACK", None]


@pytest.mark.spark
def test_a_jvm_does_not_have_the_stdout_of_this_process(spark: SparkSession) -> None:
    """It lives on while it writes, and would hold a pipe open."""
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    assert os.path.samefile(f"/proc/{jvm}/fd/1", f"/proc/{jvm}/fd/2")


@pytest.mark.spark
@pytest.mark.audits
def test_a_real_jvm_writes_and_uses_an_archive_and_keeps_stdout_clean(tmp_path: Path) -> None:
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    for finished in (False, True):
        run = subprocess.run(
            [sys.executable, "-c", SESSION], env=environ, stdout=subprocess.PIPE, text=True, check=True
        )
        assert run.stdout == "5\n"
        # The JVM outlives the process that started it for as long as it writes.
        for _ in range(600):
            files = list((tmp_path / "mqpg").iterdir())
            if files and files[0].read_bytes()[: len(MAGIC)] == MAGIC:
                break
            time.sleep(0.2)
        assert [file.suffix == ".jsa" for file in files] == [finished]
