"""A folder with the pages of audits, from which the dashboard serves them and nothing else."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mqpg.values.errors import ConfigurationError, NotFound

__all__ = ["MOST_REPORTS", "ReportFile", "Reports"]

MOST_REPORTS = 50
_LARGEST = 50_000_000  # bytes of a page
_HEAD = 4096  # bytes in which the title is
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\.html")
_TITLE = re.compile(rb"<title>mqpg audit: (valid|invalid|unknown)</title>")
# A named pipe would be waited for, and a link may lead out of the folder.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class ReportFile:
    """One file of the folder."""

    name: str
    at: datetime  # when it was written
    size: int  # Its size in bytes. 0: an audit is about to write it, or has failed.
    verdict: str | None  # What it says. None: it is no page of an audit, or not written yet.


class Reports:
    """The files `*.html` that lie directly in a folder. Links and folders in it are left out."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).resolve()
        if not self._folder.is_dir():
            raise ConfigurationError(f"--reports: {folder} is no folder")

    def listing(self) -> list[ReportFile]:
        """The newest fifty, the newest first."""
        found: list[tuple[float, str]] = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        found.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
        except OSError as error:
            raise NotFound(f"the folder of reports cannot be read: {error.strerror}") from error
        found.sort(reverse=True)
        return [self._described(name) for _, name in found[:MOST_REPORTS]]

    def read(self, name: str) -> bytes:
        """Read a page. Raises NotFound if there is no such file in the folder."""
        text, facts = self._open(name, _LARGEST)
        if facts.st_size > _LARGEST:
            raise NotFound(f"the report {name} is larger than 50 MB")
        return text

    def _described(self, name: str) -> ReportFile:
        try:
            head, facts = self._open(name, _HEAD)
        except NotFound:  # removed meanwhile, or not readable for this process
            return ReportFile(name, datetime.fromtimestamp(0, UTC), 0, None)
        title = _TITLE.search(head)
        at = datetime.fromtimestamp(facts.st_mtime, UTC)
        return ReportFile(name, at, facts.st_size, title[1].decode() if title else None)

    def _open(self, name: str, most: int) -> tuple[bytes, os.stat_result]:
        """The beginning of a file, and what is known of it. The name has no separator."""
        if not _NAME.fullmatch(name):
            raise NotFound(f"no report {name[:60]}")
        try:
            opened = os.open(self._folder / name, _FLAGS)
            try:
                facts = os.fstat(opened)
                if not stat.S_ISREG(facts.st_mode):
                    raise NotFound(f"no report {name}")
                with open(opened, "rb", closefd=False) as file:
                    return file.read(most), facts
            finally:
                os.close(opened)
        except OSError as error:
            raise NotFound(f"no report {name}: {error.strerror}") from error
