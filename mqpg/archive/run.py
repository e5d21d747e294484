"""One run of `mqpg archive`: every closed range that is missing, one file after the other."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from mqpg.embedded.locate import resolve
from mqpg.schema import migrate
from mqpg.values.errors import ConfigurationError, DatabaseError, WrongState

from .broker import Broker, Range, TooSlow, open_broker
from .files import read_rows, write_rows
from .folder import clear_away, locked, manifest_of, publish, remove, slug, temporary

__all__ = ["Archived", "archive"]

_log = logging.getLogger(__name__)

FORMAT = 1
"""The version of files and manifests."""
_FEWEST_ROWS = 100
_MOST_ATTEMPTS = 3


@dataclass
class Archived:
    """What a run did: files and rows by table.

    Attributes:
        waiting: The tables that it left, because an open transaction may still write into them.
    """

    files: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    waiting: list[str] = field(default_factory=list)


def archive(to: Path, dsn: str | None = None, *, rows: int = 100_000, longest: float = 30) -> Archived:
    """Write every closed segment that is not archived yet, verify it, and note it at the broker.

    Args:
        to: The folder of the archive. It is made if it is missing.
        dsn: The broker's DSN or URL. None means the one that the environment names.
        rows: The most rows in a file, as far as their keys allow.
        longest: How long a snapshot or a comparison may hold up `keep()`, in seconds. If a file takes longer,
            smaller ones are written.

    Raises:
        ConfigurationError: The folder cannot be written, or another run writes there.
        WrongState: Another run writes at this broker.
        DatabaseError: The rows of a range cannot be archived.
    """
    resolved = resolve(dsn)
    migrate.check(resolved)
    with locked(to), open_broker(resolved) as broker:
        try:
            clear_away(to / broker.broker_id)
            return _Run(to, broker, rows, longest).run()
        except OSError as error:
            raise ConfigurationError(f"--to: {to} cannot be written: {error}") from error


@dataclass
class _Run:
    to: Path
    broker: Broker
    most: int
    longest: float
    done: Archived = field(default_factory=Archived)
    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def run(self) -> Archived:
        """Write range by range. What could not be written is listed again."""
        while todo := [one for one in self.broker.missing() if not self._waits(one)]:
            for part in todo:
                self._write_range(part)
        return self.done

    def _waits(self, part: Range) -> bool:
        name = f"{part.table}_{part.segment_no}"
        if name not in self.done.waiting and not self.broker.seal(part):
            self.done.waiting.append(name)
        return name in self.done.waiting

    def _write_range(self, part: Range) -> None:
        """Write the files of a range, up to one that has to be tried again."""
        rest: Range | None = part
        while rest is not None:
            first = replace(rest, upper=self.broker.cut(rest, self.most))
            if not self._write_first(first):
                return
            rest = replace(rest, lower=first.upper) if first.upper != rest.upper else None

    def _write_first(self, first: Range) -> bool:
        """Write one file. False: the range has to be listed again."""
        try:
            n = self._write(first)
        except TooSlow:
            if first.upper == self.broker.cut(first, 1) or self.most <= _FEWEST_ROWS:
                raise DatabaseError(
                    f"{first.table} from {first.lower} to {first.upper} takes longer than {self.longest:g} s to read: "
                    "use a greater --longest"
                ) from None
            self.most //= 4
            _log.info("a file took longer than %g s: the next ones have at most %d rows", self.longest, self.most)
            return False
        except WrongState as error:
            # A merge or a drop came in between. Then the range is listed in another way, or not.
            self.attempts[first.table, first.lower] += 1
            if self.attempts[first.table, first.lower] >= _MOST_ATTEMPTS:
                raise
            _log.info("tried again: %s", error)
            return False
        self.done.files[first.table] += 1
        self.done.rows[first.table] += n
        return True

    def _write(self, part: Range) -> int:
        """Write one file, read it back, and note it. Returns how many rows it has."""
        columns = self.broker.columns(part.table)
        names = [column.name for column in columns]
        for path in self._paths(part):
            if manifest_of(path).exists():  # An earlier run was killed before it noted the file.
                try:
                    found = self.broker.digest(part.table, columns, read_rows(path, names))
                    self.broker.note(part, self._location(path), *found, self.longest)
                    return found[0]
                except (WrongState, DatabaseError, ValueError, OSError) as error:
                    _log.info("%s is left as it is: %s", path, error)
                    continue
            break
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_rows(temporary(path), columns, self.broker.rows(part, columns, self.longest))
            n, digest = self.broker.digest(part.table, columns, read_rows(temporary(path), names))
            publish(path, self._manifest(part, names, n, digest))
            self.broker.note(part, self._location(path), n, digest, self.longest)
        except (TooSlow, WrongState, DatabaseError):
            remove(path)  # It is surely not noted. If the connection was lost, it may be.
            raise
        return n

    def _paths(self, part: Range) -> Iterator[Path]:
        """Names for a file, the first of which is usually free."""
        folder = self.to / self.broker.broker_id / f"{part.family}-{part.segment_no}"
        name = f"{part.table}-{slug(part.lower)}"
        yield folder / f"{name}.parquet"
        number = 2
        while True:
            yield folder / f"{name}-{number}.parquet"
            number += 1

    def _location(self, path: Path) -> str:
        return path.relative_to(self.to).as_posix()

    def _manifest(self, part: Range, columns: list[str], n: int, digest: int) -> dict[str, object]:
        return {
            "format": FORMAT,
            "broker_id": self.broker.broker_id,
            "incarnation": self.broker.incarnation,
            "table": part.table,
            "key": part.key,
            "family": part.family,
            "segment_no": part.segment_no,
            "lower_bound": part.lower,
            "upper_bound": part.upper,
            "columns": columns,
            "rows": n,
            "digest": str(digest),
        }
