"""An archive of Spark's classes, with which a JVM of a short audit starts faster.

A JVM otherwise parses and verifies some 25,000 classes from 280 jars. The first JVM writes them
into an archive when it ends (class data sharing), and later ones map that file. A JVM refuses an
archive of other jars or of another release of Java, and then starts as without one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

__all__ = ["class_archive_options"]

# The first bytes of a finished archive. The JVM writes them last.
_MAGIC = bytes.fromhex("a8ab0bf0")
# Archives of other releases, and what killed JVMs left, are removed beyond so many files.
_KEPT = 3
# The JVM would write its warnings about classes that cannot be archived to stdout.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def class_archive_options(driver: Path | None, environ: Mapping[str, str] = os.environ) -> str:
    """The options of a JVM that uses the archive, or writes it when there is none yet.

    The driver None means that it is not known before the JVM runs. The options are empty if
    MQPG_CLASS_ARCHIVE is `off`, Java's release is unknown, or no file can be written.
    """
    release = _release(environ)
    if release is None or environ.get("MQPG_CLASS_ARCHIVE") == "off":
        return ""
    folder = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mqpg")
    archive = folder / f"spark-{_key(release, driver, environ)}.jsa"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _publish(archive)
    except OSError:
        return ""
    if " " in str(archive) or not os.access(folder, os.W_OK):
        return ""
    if archive.is_file():
        return f"{_QUIET} -XX:SharedArchiveFile={archive}"
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}.{os.getpid()}"


def _publish(archive: Path) -> None:
    """Give the archive of a JVM that has ended its name, and remove old ones.

    Each JVM writes a file of its own, so two of them cannot spoil each other's.
    """
    for written in archive.parent.glob(f"{archive.name}.*"):
        with written.open("rb") as opened:
            finished = opened.read(len(_MAGIC)) == _MAGIC
        if finished:
            written.replace(archive)
    newest_first = sorted(archive.parent.glob("spark-*.jsa*"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for old in newest_first[_KEPT:]:
        if old != archive:
            old.unlink()


def _release(environ: Mapping[str, str]) -> Path | None:
    """Return the file that names the release of the Java that Spark will start."""
    home = environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java", path=environ.get("PATH")) or "java")
    release = java.resolve().parents[1] / "release" if java.is_file() else None
    return release if release is not None and release.is_file() else None


def _key(release: Path, driver: Path | None, environ: Mapping[str, str]) -> str:
    home = Path(environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    names = "\n".join(_marks([release, *sorted((home / "jars").glob("*.jar")), *([driver] if driver else [])]))
    return hashlib.sha256(f"{names}\n{release.read_text(encoding='utf-8')}".encode()).hexdigest()[:16]


def _marks(files: list[Path]) -> Iterator[str]:
    for file in files:
        facts = file.stat()
        yield f"{file} {facts.st_size} {facts.st_mtime_ns}"
