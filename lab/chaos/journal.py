"""The producer-side journal: every id that was tried, and what its producer was told about it.

A line is written to a file before and after each transaction, so a SIGKILL loses none. Ids are
never used twice, whatever died in between.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = ["Journal", "Note", "read_notes"]

Word = Literal["tried", "done", "undone"]
_LIVES, _IDS = 10**4, 10**10  # an id fits into a double of JSON


class Note(NamedTuple):
    """A range of ids, both ends included, and what is known of it.

    `tried` comes first. `done` says that its producer learnt of the commit, and `undone` that it
    rolled back itself. Where neither follows, both ends are possible.
    """

    word: str
    protocol: str
    topic: str
    first: int
    last: int


class Journal:
    """Gives out ids and notes them. Threads may share it."""

    def __init__(self, folder: Path, producer: int) -> None:
        for life in itertools.count(1):
            with suppress(FileExistsError):
                self._file = (folder / f"notes-{producer}-{life}").open("xb", buffering=0)
                break
        self.life = life
        self._next = (producer * _LIVES + life) * _IDS
        self._lock = threading.Lock()

    def tried(self, protocol: str, topic: str, count: int) -> list[int]:
        """Take new ids, and note that they are tried."""
        with self._lock:
            first, self._next = self._next, self._next + count
        ids = list(range(first, first + count))
        self._write("tried", protocol, topic, ids)
        return ids

    def done(self, protocol: str, topic: str, ids: list[int]) -> None:
        """Note that the transaction of these ids is known to have committed."""
        self._write("done", protocol, topic, ids)

    def undone(self, protocol: str, topic: str, ids: list[int]) -> None:
        """Note that the transaction of these ids was rolled back on purpose."""
        self._write("undone", protocol, topic, ids)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, word: Word, protocol: str, topic: str, ids: list[int]) -> None:
        self._file.write(f"{word} {protocol} {topic} {ids[0]} {ids[-1]}\n".encode())


def read_notes(folder: Path) -> Iterator[Note]:
    """Read the notes of all producers.
    Yields:
        The notes. A line that a kill cut short is left out.
    """
    for path in sorted(folder.glob("notes-*")):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            parts = line.split()
            if line.endswith("\n") and len(parts) == 5:
                yield Note(parts[0], parts[1], parts[2], int(parts[3]), int(parts[4]))
