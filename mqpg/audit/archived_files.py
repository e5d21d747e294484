"""What a file of an archive has to be, for both engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mqpg.values.errors import ConfigurationError

__all__ = ["damaged", "local_folder", "require_known_columns", "require_noted", "require_within"]


def local_folder(archive: str | Path) -> Path | None:
    """The folder of an archive on this machine. None: its URI names another file system."""
    text = str(archive)
    if text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    return None if "://" in text else Path(archive)


def require_within(folder: str | Path, location: str) -> None:
    """Raise ConfigurationError for a file outside of the folder of an archive."""
    local, inner = local_folder(folder), PurePosixPath(location)
    outside = inner.is_absolute() or ".." in inner.parts
    if outside or (local is not None and not (local / location).resolve().is_relative_to(local.resolve())):
        raise ConfigurationError(f"--archive: {location} is noted, which is not in {folder}")


def require_known_columns(path: str | Path, record: Mapping[str, Any], columns: Iterable[str]) -> None:
    """Raise ConfigurationError for a file with columns that this release does not know.

    `record` is what the broker noted, and `columns` are those of the audit view of its table.
    """
    unknown = set(record["columns"]) - set(columns)
    if unknown:
        raise ConfigurationError(f"--archive: {path} is from another release: it has {', '.join(sorted(unknown))}")


def damaged(path: str | Path, error: BaseException) -> ConfigurationError:
    """The error for a file that cannot be read."""
    return ConfigurationError(f"--archive: {path} is damaged: {' '.join(str(error).split())}")


def require_noted(path: str | Path, record: Mapping[str, Any], n: int, digest: int) -> None:
    """Raise ConfigurationError for a file whose rows are not those that the broker noted."""
    if (n, digest) != (record["n"], record["digest"]):
        raise ConfigurationError(
            f"--archive: {path} is not what the broker noted: it has {n} rows with digest {digest}, and "
            f"{record['n']} with {record['digest']} were noted"
        )
