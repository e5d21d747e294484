"""Parquet files with the rows of one table, written and read in small parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet

__all__ = ["Column", "read_rows", "write_rows"]

_PART_ROWS = 5_000
_PART_BYTES = 8 * 1024 * 1024
_INTEGERS = ("smallint", "integer", "bigint")


@dataclass(frozen=True)
class Column:
    """A column of a table, with PostgreSQL's name of its type."""

    name: str
    type: str

    @property
    def stored(self) -> pyarrow.DataType:
        """Its type in a file. All but numbers and booleans is stored as PostgreSQL prints it."""
        if self.type in _INTEGERS:
            return pyarrow.int64()
        return pyarrow.bool_() if self.type == "boolean" else pyarrow.string()

    def parse(self, text: str | None) -> object:
        """What is stored for a value in PostgreSQL's text format."""
        if text is None:
            return None
        if self.type in _INTEGERS:
            return int(text)
        return text == "t" if self.type == "boolean" else text


def write_rows(path: Path, columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> int:
    """Write rows in PostgreSQL's text format to a file, and return how many there were."""
    schema = pyarrow.schema([(column.name, column.stored) for column in columns])
    count = 0
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in _parts(rows):
            values = [
                pyarrow.array([column.parse(row[place]) for row in part], column.stored)
                for place, column in enumerate(columns)
            ]
            writer.write_batch(pyarrow.RecordBatch.from_arrays(values, schema=schema))
            count += len(part)
    return count


def _parts(rows: Iterable[Sequence[str | None]]) -> Iterator[list[Sequence[str | None]]]:
    part: list[Sequence[str | None]] = []
    size = 0
    for row in rows:
        part.append(row)
        size += sum(len(value) for value in row if value is not None)
        if len(part) == _PART_ROWS or size >= _PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Sequence[object]]:
    """Read a file.

    Raises ValueError if it is damaged, or has other columns than these in this order.
    """
    with pyarrow.parquet.ParquetFile(path) as file:
        if file.schema_arrow.names != list(columns):
            raise ValueError(f"its columns are {', '.join(file.schema_arrow.names)}")
        for part in file.iter_batches(batch_size=1_000):
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)
