"""The databases and folders in which a crash test happens. They are dropped at its end."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mqpg.embedded import EmbeddedServer
from mqpg.schema import migrate
from mqpg.schema.copies import settle_in
from mqpg.values.errors import Error
from mqpg.values.translation import translate

__all__ = ["Copy", "Scratch"]

# Processes are killed here and the server is not, so nothing has to be flushed to disk.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
# Where nothing is flushed, files are copied three times as fast as they are logged.
_UNFLUSHED = "select not current_setting('fsync')::bool"
_DROPS = 5
_PATIENCE = 10.0  # seconds for the sessions of a killed process


@dataclass(frozen=True)
class Copy:
    """The databases and the folder (the working directory of the process) of one run."""

    broker: str
    second: str
    folder: Path


class Scratch:
    """A template, and its copies, on a server whose user may create databases.

    Args:
        dsn: The server. None means an embedded one.
        origin: A database there that has the schema, of which the template is a copy. None means that the
            schema is installed.

    Attributes:
        server: The DSN of the server.
        root: The folder of all folders.
        uses_second: Whether copies have a second database.
    """

    def __init__(self, dsn: str | None, origin: str | None = None) -> None:
        self._given, self._origin = dsn, origin
        self._mark = f"mqpg_crashtest_{secrets.token_hex(4)}"
        self._stack = ExitStack()
        self._made: list[str] = []
        self._count = 0
        self._made_role = False
        self.uses_second = True
        self._create = sql.SQL("create database {} template {}")
        self.server = ""
        self.root = Path()

    def __enter__(self) -> Self:
        try:
            self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mqpg-ct-")))
            self.server = self._given or self._stack.enter_context(EmbeddedServer(settings=_SETTINGS)).dsn()
            self._stack.callback(self._drop_all)
            with psycopg.connect(self.server) as connection:
                if connection.info.server_version >= 150000 and connection.execute(_UNFLUSHED).fetchone() == (True,):
                    self._create = sql.SQL("create database {} template {} strategy file_copy")
            self.template = self._new(f"{self._mark}_0", self._origin or "template1", "template1")
            if self._origin is None:
                migrate.upgrade(self.dsn(self.template.broker), owner=self._owner())
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def dsn(self, dbname: str) -> str:
        """The direct address of a database."""
        return make_conninfo(self.server, dbname=dbname)

    def copy(self) -> Copy:
        """Copy the template."""
        self._count += 1
        made = self._new(f"{self._mark}_{self._count}", self.template.broker, self.template.second)
        shutil.copytree(self.template.folder, made.folder, dirs_exist_ok=True, symlinks=True)
        return made

    def dsns(self, copy: Copy) -> list[str]:
        """The direct addresses of its databases, the broker's first."""
        return [self.dsn(name) for name in (copy.broker, copy.second) if name in self._made]

    def drop(self, copy: Copy) -> None:
        """Drop a copy, and cut the connections to it."""
        for name in (copy.broker, copy.second):
            if name not in self._made:
                continue
            self._drop_database(name)
            self._made.remove(name)
        shutil.rmtree(copy.folder, ignore_errors=True)

    def _drop_database(self, name: str) -> None:
        """Drop a database, and cut the connections to it.

        A role that is no superuser may not cut autovacuum off, so FORCE fails while it is there. A
        drop without FORCE ends autovacuum itself, and waits for others for five seconds.
        """
        statement = sql.SQL("drop database if exists {}").format(sql.Identifier(name))
        forced = statement + sql.SQL(" with (force)")
        try:
            with psycopg.connect(self.server, autocommit=True) as connection:
                for _ in range(_DROPS):
                    with suppress(psycopg.errors.InsufficientPrivilege):
                        connection.execute(forced)
                        return
                    with suppress(psycopg.errors.ObjectInUse):
                        connection.execute(statement)
                        return
                connection.execute(forced)
        except psycopg.Error as error:
            raise translate(error) from error

    def wait_until_alone(self, copy: Copy) -> None:
        """Wait for a while until the sessions of a killed process have ended."""
        query = "select count(*) from pg_stat_activity where datname in (%s, %s) and pid <> pg_backend_pid()"
        deadline = time.monotonic() + _PATIENCE
        with psycopg.connect(self.server, autocommit=True) as conn:
            while (conn.execute(query, [copy.broker, copy.second]).fetchone() or (0,))[0]:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)

    def execute(self, statement: Any) -> None:
        """Run one statement at the server. Raises Error."""
        try:
            with psycopg.connect(self.server, autocommit=True) as connection:
                connection.execute(statement)
        except psycopg.Error as error:
            raise translate(error) from error

    def _new(self, mark: str, broker: str, second: str) -> Copy:
        folder = self.root / mark.rpartition("_")[2]
        folder.mkdir()
        made = Copy(mark, f"{mark}_second", folder)
        for name, origin in ((made.broker, broker), (made.second, second)):
            if name == made.second and not self.uses_second:
                continue
            pair = sql.Identifier(name), sql.Identifier(origin)
            self.execute(self._create.format(*pair))
            self._made.append(name)
            with psycopg.connect(make_conninfo(self.server, dbname=name)) as connection:
                settle_in(connection)
        return made

    def _owner(self) -> str | None:
        """Who owns the schema: the role itself, unless it is a superuser.

        A superuser may not own it, so `mqpg_owner` is made. It is dropped at the end if it was not
        there before.
        """
        with psycopg.connect(self.server) as connection:
            query = "select rolsuper, to_regrole('mqpg_owner') is null from pg_roles where rolname = current_user"
            is_superuser, is_new = connection.execute(query).fetchone() or (False, False)
            if not is_superuser:
                return connection.info.user
        if is_new:
            self._made_role = True
        return None

    def _drop_all(self) -> None:
        for name in list(self._made):
            self._drop_database(name)
        if self._made_role:
            with suppress(Error):  # another database may have begun to use it
                self.execute("drop role mqpg_owner")
