"""The folder of an archive: names, the lock, and files that are either complete or not there."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mqpg.archive.file_lock import file_lock
from mqpg.values.errors import ConfigurationError

__all__ = ["clear_away", "locked", "manifest_of", "publish", "remove", "slug", "temporary"]

_TEMPORARY = ".writing-"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder, and keep every other run away from it until the block ends.

    A killed run holds no lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--to: {folder} cannot be written: {error}") from error
    with file_lock(folder / ".lock", "--to", f"another mqpg archive is writing to {folder}"):
        yield


def clear_away(folder: Path) -> None:
    """Remove the unfinished files of runs that were killed. The folder may be missing."""
    for path in folder.glob(f"*/{_TEMPORARY}*"):
        path.unlink()


def temporary(path: Path) -> Path:
    """The name under which a file is written."""
    return path.with_name(f"{_TEMPORARY}{path.name}")


def manifest_of(path: Path) -> Path:
    """The manifest of a Parquet file."""
    return path.with_suffix(".json")


def publish(path: Path, manifest: Mapping[str, Any]) -> None:
    """Give a file and its manifest their names, and flush both to disk.

    The manifest comes last, so a file that has one is complete.
    """
    described = manifest_of(path)
    with temporary(described).open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    _flush(temporary(path))
    for one in (path, described):
        os.replace(temporary(one), one)
        for folder in one.parents[:3]:
            _flush(folder)


def remove(path: Path) -> None:
    """Remove a file and its manifest, whether they are finished or not."""
    for one in (manifest_of(path), path):
        one.unlink(missing_ok=True)
        temporary(one).unlink(missing_ok=True)


def slug(bound: str) -> str:
    """A bound, a number or a time, as a part of a file's name."""
    return re.sub(r"[^0-9A-Za-z.]+", "-", bound).strip("-")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
