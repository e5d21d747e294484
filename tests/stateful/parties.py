"""The parties of a history: connections of this process, and one of a process that gets kill -9."""

import pickle
import subprocess
import sys
from collections import Counter, namedtuple
from collections.abc import Callable
from typing import Any

import psycopg

from tests.stateful.model import Tx
from tests.support.broker import Broker, Session
from tests.support.waiting import eventually

__all__ = ["Party", "Refused", "serve"]


class Refused(Exception):
    """A call was answered with this SQLSTATE."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class _Rows:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetchall(self) -> list[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None


class _ChildSession(Session):
    """The same calls, made by a child process that holds the connection."""

    def __init__(self, dsn: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.stateful.parties", dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._pid: int = self._answer()

    @property
    def pid(self) -> int:
        return self._pid

    def _answer(self) -> Any:
        assert self.child.stdout is not None
        return pickle.load(self.child.stdout)

    def execute(self, sql: str, *params: object) -> Any:
        assert self.child.stdin is not None
        pickle.dump((sql, params), self.child.stdin)
        self.child.stdin.flush()
        kind, *answer = self._answer()
        if kind == "error":
            raise Refused(*answer)
        names, rows = answer
        make = namedtuple("Row", names, rename=True)  # type: ignore[misc]
        return _Rows([make(*row) for row in rows])

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                pipe.close()


def _short(row: Any) -> object:
    """Return a row as the journal shows it."""
    if "queue_offset" in row._fields:
        return f"{row.message_id} at {row.queue_id}/{row.queue_offset} attempt {row.attempt} {row.receipt}"
    return row[0] if len(row) == 1 else tuple(row)


class Party:
    """A connection that makes calls one by one or leaves a transaction open. It can be cut."""

    def __init__(self, broker: Broker, name: str, *, process: bool = False) -> None:
        self._broker, self.name, self._process = broker, name, process
        self.write: Callable[[str], None] = print
        self.made: Counter[str] = Counter()
        self.tx: Tx | None = None
        self.session: Session | None = None

    def connected(self) -> Session:
        """Return its session, which is opened at its first call."""
        if self.session is None:
            self.session = _ChildSession(self._broker.dsn) if self._process else self._broker.session()
            self.session.execute("set lock_timeout = '40ms'")
        return self.session

    def call(self, function: str, *args: object, **named: object) -> list[Any]:
        """Return the rows of a call. Raises Refused."""
        shown = ", ".join([*(f"{a}" for a in args), *(f"{name}={a}" for name, a in named.items())])
        try:
            rows: list[Any] = self.run(lambda session: session.call(function, *args, **named))
        except Refused as refusal:
            self.made[refusal.code] += 1
            self.write(f"{self.name}: {function}({shown}) -> {str(refusal).splitlines()[0]}")
            raise
        self.made[function] += bool(rows)
        self.write(f"{self.name}: {function}({shown}) -> {[_short(row) for row in rows]}")
        return rows

    def run(self, work: Any) -> Any:
        try:
            return work(self.connected())
        except psycopg.Error as error:
            raise Refused(str(error.sqlstate), str(error)) from error

    def execute(self, sql: str, *params: object) -> None:
        self.write(f"{self.name}: {sql}")
        self.run(lambda session: session.execute(sql, *params))

    def cut(self) -> None:
        """Kill the process, or let the server cut the connection.

        Returns when the server has rolled back.
        """
        if self.session is None:
            return
        self.made["killed" if self._process else "cut off"] += 1
        self.write(f"{self.name}: cut off")
        pid, watcher = self.session.pid, self._broker.session()
        if isinstance(self.session, _ChildSession):
            self.session.kill()
        else:
            watcher.execute("select pg_terminate_backend(%s)", pid)
            self.session.conn.close()
        self.session = None
        eventually(lambda: watcher.scalar("select count(*) = 0 from pg_stat_activity where pid = %s", pid))
        watcher.conn.close()

    def lost(self) -> None:
        """Note that the server is gone, and the connection with it."""
        if isinstance(self.session, _ChildSession):
            self.session.kill()
        elif self.session is not None:
            self.session.conn.close()
        self.session = None

    close = lost


def serve(dsn: str) -> None:
    """Serve as the child: statements come by stdin, rows or errors go to stdout."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        out = sys.stdout.buffer
        pickle.dump(conn.info.backend_pid, out)
        out.flush()
        while True:
            try:
                sql, params = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            answer: tuple[object, ...]
            try:
                cursor = conn.execute(sql, params or None)
                names = [column.name for column in cursor.description or []]
                answer = ("rows", names, cursor.fetchall() if names else [])
            except psycopg.Error as error:
                answer = ("error", str(error.sqlstate), str(error))
            pickle.dump(answer, out)
            out.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
