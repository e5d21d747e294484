"""A PostgreSQL database of users, read by COPY in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from mqpg.audit.state import Digests, Judged
from mqpg.connection.dsn import describe, to_libpq
from mqpg.connection.text_session import one_line, text_session
from mqpg.values.errors import ConnectionFailed, DatabaseError

from .fingerprint import USERS, grouped
from .statements import FINITE
from .user_tables import COLUMNS, IS_HANDLE, OF_BROKER, OF_ONE_BROKER
from .workspace import Workspace

__all__ = ["PostgresqlSource"]

# Label, table and broker.
_MINE: LiteralString = (
    "select {}::text as ledger, split_part(handle, '.', 3)::bigint as message_id, "
    "encode(sha256(decode(split_part(handle, '.', 4), 'hex')), 'hex') as handle_hash, entry, "
    + ", ".join(f"{FINITE.format(name)} as {name}" for name in ("created_at", "done_at"))
    + ", topic from {} where "
    + OF_BROKER.format("handle", "{}")
    + " offset 0"
)
_BROKERS: LiteralString = (
    f"select {{}}::text as ledger, message_id, handle_hash, entry, {FINITE.format('written_at')} as created_at, "
    "null as done_at, null as topic from {} where broker_id = {}"
)


@dataclass
class PostgresqlSource:
    """A PostgreSQL database, read by COPY in a transaction of REPEATABLE READ."""

    connection: psycopg.Connection[dict[str, Any]]
    name: str  # without a password
    snapshot: str  # as the report names it
    taken_at: datetime  # the clock just before or after the snapshot
    system_identifier: int | None  # of the server cluster
    is_broker: bool  # it has the tables of a broker
    digests: Digests = field(default_factory=dict)  # of judged rows that were not copied, by table and part

    @classmethod
    @contextlib.contextmanager
    def open(cls, url: str) -> Iterator[PostgresqlSource]:
        """Open it until the block ends."""
        name = describe(url)
        with text_session(to_libpq(url), "mqpg audit") as connection:
            try:
                clock = connection.execute("select clock_timestamp() as now").fetchone()
                connection.execute("begin isolation level repeatable read read only")
                row = connection.execute(
                    "select pg_current_snapshot()::text as snapshot, "
                    "(select system_identifier from pg_control_system()) as system_identifier, "
                    # to_regclass() needs the right to use the schema.
                    "exists (select from pg_class where relnamespace = to_regnamespace('mqpg') and relname = 'tick') "
                    "as is_broker"
                ).fetchone()
            except psycopg.Error as error:
                raise ConnectionFailed(f"no snapshot of {name}: {one_line(error)}") from error
            assert row is not None
            assert clock is not None
            yield cls(connection, name, taken_at=clock["now"], **row)

    def rows(self, query: LiteralString | sql.Composed, *parameters: object) -> list[dict[str, Any]]:
        """Run a small query in the transaction."""
        try:
            return self.connection.execute(query, parameters or None).fetchall()
        except psycopg.Error as error:
            raise DatabaseError(f"{self.name}: {one_line(error)}") from error

    def find_table(self, name: str) -> sql.Identifier | None:
        """Find a table as the connection's search_path does. None: there is no such table."""
        rows = self.rows(
            "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where c.oid = to_regclass(%s)",
            name,
        )
        return sql.Identifier(rows[0]["nspname"], rows[0]["relname"]) if rows else None

    def copy_consumers(
        self,
        work: Workspace,
        table: str,
        groups: list[str],
        topics: list[str] | None,
        broker_id: str,
        judged: Judged | None = None,
    ) -> int | None:
        """Copy rows of some consumer groups into the temporary table applied, stored_offset or deferred.

        Journals and inboxes of other brokers are left out. A row that names no broker was written by an
        earlier release, and belongs to this one. Judged rows of a journal are hashed and not copied.
        Returns how many rows there were; None: the database has no such table.
        """
        theirs, columns = COLUMNS[table]
        found = self.find_table(theirs)
        if found is None:
            return None
        present = self._columns(theirs)
        shown = {name: name if name in present else "null" for name in columns}
        listed = [f"{FINITE.format(one) if name.endswith('_at') else one} as {name}" for name, one in shown.items()]
        query = sql.SQL("select {} from {} where consumer_group = any({}::text[])").format(
            sql.SQL(", ".join(listed)), found, sql.Literal(groups)
        )
        query += self._scope(topics, broker_id if table in OF_ONE_BROKER and "broker" in present else None)
        if table == "deferred":
            query += sql.SQL(" and state = 'deferred'")
        return work.insert_copy(table, self.connection, self._open(table, query, judged))

    def _open(self, table: str, query: sql.Composed, judged: Judged | None) -> sql.Composed:
        """Hash the judged rows of a query, and return the query for the others."""
        if judged is None or table not in USERS:
            return query
        closed = sql.SQL("coalesce(q.message_id < {} and not q.message_id = any({}::bigint[]), false)").format(
            sql.Literal(judged.until_id), sql.Literal(judged.open)
        )
        rows = sql.SQL("({}) as q where {}").format(query, closed)
        hashed = self.rows(sql.SQL(grouped(USERS[table], "{}", {})).format(rows))
        found = {row["part"]: [row["n"], int(row["digest"])] for row in hashed}
        self.digests.setdefault(table, {}).update(found)
        return sql.SQL("select q.* from ({}) as q where not {}").format(query, closed)

    def journal_rows(self, topics: list[str] | None, broker_id: str) -> dict[str, int]:
        """Count the journal rows of every consumer group. Rows of other brokers do not count."""
        found = self.find_table("mqpg_applied")
        if found is None:
            return {}
        named = "broker" in self._columns("mqpg_applied")
        query = sql.SQL("select consumer_group, count(*) as n from {} where true").format(found)
        query += self._scope(topics, broker_id if named else None) + sql.SQL(" group by 1")
        return {row["consumer_group"]: row["n"] for row in self.rows(query)}

    def _columns(self, name: str) -> set[str]:
        rows = self.rows("select attname from pg_attribute where attrelid = to_regclass(%s) and attnum > 0", name)
        return {row["attname"] for row in rows}

    def _scope(self, topics: list[str] | None, broker_id: str | None) -> sql.Composed:
        scope = sql.Composed([])
        if topics is not None:
            scope += sql.SQL(" and topic = any({}::text[])").format(sql.Literal(topics))
        if broker_id is not None:
            scope += sql.SQL(" and coalesce(broker, {0}) = {0}").format(sql.Literal(broker_id))
        return scope

    def has_table(self, name: str) -> bool:
        """Whether the connection's search_path has a table."""
        return self.find_table(name) is not None

    def outbox_identities(self) -> list[str]:
        """The identities that producers gave the outbox. Half messages carry them."""
        found = self.find_table("mqpg_outbox_count")
        query = sql.SQL("select broker from {} where topic = ''")
        return [row["broker"] for row in self.rows(query.format(found))] if found else []

    def copy_outbox(self, work: Workspace, label: str, broker_id: str) -> int:
        """Copy the rows of an outbox that belong to one broker into the table outbox_row.

        `label` is the value of the column `ledger`. Returns how many rows there were.
        """
        found = self.find_table("mqpg_outbox")
        assert found is not None
        query = sql.SQL(
            "select {}, encode(sha256(convert_to(id, 'UTF8')), 'hex'), state, "
            "case when "
            + IS_HANDLE.format("handle")
            + " then split_part(handle, '.', 3)::bigint end, topic from {} where broker = {}"
        ).format(sql.Literal(label), found, sql.Literal(broker_id))
        return work.insert_copy("outbox_row", self.connection, query)

    def copy_ledger(
        self,
        work: Workspace,
        label: str,
        broker_id: str,
        *,
        also_the_brokers: bool,
        judged: Judged | None = None,
    ) -> tuple[int, bool] | None:
        """Copy the rows of a ledger that belong to one broker into the table ledger_row.

        With `also_the_brokers` the ledger that every broker has counts too, but the user's own table comes
        first. Judged rows as in `copy_consumers`. Returns how many rows there were, and whether it is the
        broker's own ledger. None: there is no ledger.
        """
        mine = self.find_table("mqpg_ledger")
        found = mine or (self.find_table("mqpg_audit.ledger") if also_the_brokers else None)
        if found is None:
            return None
        named, broker = sql.Literal(label), sql.Literal(broker_id)
        query = sql.SQL(_MINE if mine else _BROKERS).format(named, found, broker)
        return work.insert_copy("ledger_row", self.connection, self._open("ledger_row", query, judged)), mine is None
