"""The broker of an archive: which ranges are missing, their rows, and what is noted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from mqpg.connection.dsn import describe
from mqpg.connection.text_session import one_line, text_session
from mqpg.values.errors import ConnectionFailed, DatabaseError, NotGranted, WrongState

from .digest import row_digest
from .files import Column

__all__ = ["Broker", "Range", "TooSlow", "open_broker"]

# text_session() lets all of them print rows alike, mqpg.note_archived() too.
_SETTINGS = """
set search_path = pg_catalog, pg_temp;
set jit = off;
"""


class TooSlow(Exception):
    """A statement took longer than the limit."""


@dataclass(frozen=True)
class Range:
    """A range of a closed table.

    Attributes:
        key: Its partition key.
        family: The family of its segment.
        lower: The lower bound, inclusive.
        upper: The upper bound, exclusive.
    """

    table: str
    key: str
    family: str
    segment_no: int
    lower: str
    upper: str


@dataclass(frozen=True)
class Broker:
    """Two sessions at a broker: one lets no other run write, the other one works.

    Attributes:
        name: The database, without a password.
    """

    name: str
    broker_id: str
    incarnation: int
    _guard: psycopg.Connection[dict[str, Any]] = field(repr=False)
    _session: psycopg.Connection[dict[str, Any]] = field(repr=False)

    def missing(self) -> list[Range]:
        """The closed ranges that are not archived, the oldest first.

        Raises DatabaseError if the guarding session is gone, because another run may then write.
        """
        self._rows("select 1", session=self._guard)
        rows = self._rows("select * from mqpg._to_archive()")
        return [
            Range(
                row["table_name"],
                row["key_column"],
                row["family"],
                row["segment_no"],
                row["from_bound"],
                row["to_bound"],
            )
            for row in rows
        ]

    def columns(self, table: str) -> list[Column]:
        """The columns of the audit view of a table."""
        rows = self._rows(
            "select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type from pg_attribute a "
            "where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped order by a.attnum",
            f"mqpg.audit_{table}",
        )
        return [Column(row["name"], row["type"]) for row in rows]

    def seal(self, part: Range) -> bool:
        """Whether no transaction writes into a range's table any more.

        One that wrote there and is still open may do so.
        """
        rows = self._rows("select mqpg._seal_for_archive(%s, %s) as sealed", part.family, part.segment_no)
        return bool(rows[0]["sealed"])

    def cut(self, part: Range, most: int) -> str:
        """The end of the first part of a range, with `most` rows or, if they share one key, more."""
        query = sql.SQL(
            "select q.{0}::text as key from {1} as q where q.{0} {2} {3} and q.{0} < {4} "
            "order by q.{0} offset {5} limit 1"
        )
        for comparison, offset in ((sql.SQL(">="), most), (sql.SQL(">"), 0)):
            found = self._rows(
                query.format(
                    sql.Identifier(part.key),
                    sql.Identifier("mqpg", f"audit_{part.table}"),
                    comparison,
                    sql.Literal(part.lower),
                    sql.Literal(part.upper),
                    sql.Literal(offset),
                )
            )
            if not found:
                return part.upper
            if found[0]["key"] != part.lower:
                return str(found[0]["key"])
        return part.upper

    def rows(self, part: Range, columns: Sequence[Column], longest: float) -> Iterator[Sequence[str | None]]:
        """Read rows of a range in PostgreSQL's text format, at one snapshot.

        The snapshot ends with the last row. Raises TooSlow if that takes more than `longest` seconds.
        """
        query = sql.SQL("copy (select {0} from {1} as q where q.{2} >= {3} and q.{2} < {4}) to stdout").format(
            sql.SQL(", ").join(sql.Identifier("q", column.name) for column in columns),
            sql.Identifier("mqpg", f"audit_{part.table}"),
            sql.Identifier(part.key),
            sql.Literal(part.lower),
            sql.Literal(part.upper),
        )
        with self._errors(), self._session.transaction():
            self._session.execute("set transaction isolation level repeatable read, read only")
            self._limit(longest)
            with self._session.cursor().copy(query) as copy:
                yield from copy.rows()

    def digest(self, table: str, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> tuple[int, int]:
        """Let the server count and hash rows that were read from a file.

        Raises DatabaseError if a value does not fit its column.
        """
        listed = sql.SQL(", ").join(sql.Identifier("q", column.name) for column in columns)
        with self._errors(), self._session.transaction(), self._session.cursor() as cursor:
            cursor.execute(
                sql.SQL("create temp table read_back on commit drop as select {} from {} as q with no data").format(
                    listed, sql.Identifier("mqpg", f"audit_{table}")
                )
            )
            with cursor.copy("copy read_back from stdin") as copy:
                for row in rows:
                    copy.write_row(row)
            named = ", ".join(f'q."{column.name}"' for column in columns)
            query = f"select count(*) as n, coalesce({row_digest(named)}, 0) as digest from read_back as q"
            found = cursor.execute(query.encode()).fetchone()
        assert found is not None
        return found["n"], int(found["digest"])

    def note(self, part: Range, location: str, n: int, digest: int, longest: float) -> None:
        """Note that a range is in a file, which the server compares with its table.

        `location` is relative to the folder of the archive.

        Raises:
            WrongState: The table has other rows, or the range is not there any more.
            TooSlow: The comparison took more than `longest` seconds.
        """
        with self._errors(), self._session.transaction():
            self._limit(longest)
            self._session.execute(
                "select mqpg.note_archived(%s, %s, %s, %s, %s, %s)",
                (part.table, part.lower, part.upper, location, n, digest),
            )

    def _limit(self, longest: float) -> None:
        self._session.execute("select set_config('statement_timeout', %s, true)", (str(round(longest * 1000)),))

    def _rows(
        self, query: str | sql.Composed, *parameters: object, session: psycopg.Connection[dict[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        with self._errors():
            text = query.encode() if isinstance(query, str) else query
            return (session or self._session).execute(text, parameters or None).fetchall()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.QueryCanceled as error:
            raise TooSlow from error
        except psycopg.Error as error:
            raise _translated(error, self.name) from error


@contextlib.contextmanager
def open_broker(dsn: str) -> Iterator[Broker]:
    """Open the sessions, and let no other run write until the block ends.

    The guarding session waits in a transaction that has neither a snapshot nor a transaction id, so it holds
    back nothing. Raises WrongState if another run writes.
    """
    name = describe(dsn)
    with _connect(dsn) as guard, _connect(dsn) as session:
        try:
            guard.execute("begin")
            guard.execute("select mqpg._begin_archive()")
            row = session.execute("select broker_id::text, incarnation from mqpg.audit_broker").fetchone()
        except psycopg.Error as error:
            raise _translated(error, name) from error
        assert row is not None
        yield Broker(name, row["broker_id"], row["incarnation"], guard, session)


def _connect(dsn: str) -> psycopg.Connection[dict[str, Any]]:
    connection = text_session(dsn, "mqpg archive")
    connection.execute(_SETTINGS.encode())
    return connection


def _translated(error: psycopg.Error, name: str) -> Exception:
    text = f"{name}: {one_line(error)}"
    if error.sqlstate == "MQ018":
        return WrongState(text)
    if error.sqlstate in ("MQ025", "42501"):
        return NotGranted(f"{text} (mqpg archive needs the rights of a worker and of an auditor, and temporary tables)")
    return ConnectionFailed(text) if isinstance(error, psycopg.OperationalError) else DatabaseError(text)
