"""Kills in the middle of `keep()`, of an upgrade of the schema, of an audit, and of `adopt()`.

Each begins the work in a process of its own. A session of the server that has the work under way is
frozen by SIGSTOP, and looked at again, so the kill that follows hits that moment for certain. Then
the same work is done once more, to its end. `python -m lab.chaos.interruption WORK MARK` does the work.
"""

from __future__ import annotations

import importlib.resources
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, LiteralString, NamedTuple

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

import mqpg
from lab.audits import audit
from lab.processes import LabError, Process, environment, persist
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from mqpg.schema.source import Source

from .cluster import query
from .nodes import Node
from .schedule import Target

__all__ = ["Interruption", "MarkedSource", "Work", "adopt_twice", "frozen", "interrupt"]

Work = Literal["keep", "upgrade", "audit", "adopt"]

_PATIENCE = 60.0  # seconds until the work is seen under way
_PAUSE = 0.02  # seconds between two calls
_BLIND = 2.0  # seconds; a session may be frozen with a latch that the look itself needs
_APPLICATIONS: Mapping[Work, str] = {
    "keep": "chaos keep",
    "upgrade": "chaos upgrade",
    "audit": "mqpg audit",
    "adopt": "chaos adopt",
}
# adopt() is over too soon to be seen, so it is made to wait in its middle: it has written the new
# incarnation, and not yet moved the ids. Only the row that it updates first is locked before it has
# begun. A lock on half_tick would stop the appender and the keeper too, with the locks that they
# hold and that adopt() needs.
_BEFORE_THE_MIDDLE: LiteralString = "select from mqpg.broker for update"
_IN_THE_MIDDLE: LiteralString = "lock table only mqpg.half_tick in share mode"
_WAITS: LiteralString = "select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
# An audit only reads. The others count once they have written something.
_UNDER_WAY = """
select pid, query_start from pg_stat_activity
where application_name = %s and state = 'active' and (backend_xid is not null or %s) and pid <> pg_backend_pid()
"""
_INCARNATION = "select incarnation from mqpg.broker"


class MarkedSource(Source):
    """The SQL of this release under another checksum, so that all of its code is replaced."""

    def __init__(self, mark: str) -> None:
        super().__init__(importlib.resources.files("mqpg.sql"))
        self._mark = mark

    @property
    def checksum(self) -> str:
        """The checksum, which is that of no other mark."""
        return f"{super().checksum}-{self._mark}"


class Interruption(NamedTuple):
    """What is killed, and when.

    Attributes:
        target: What gets SIGKILL: the whole server with its workers, the one process of the server
            that does the work, or the client that asked for it.
        down: Seconds for which a server that was killed stays down.
    """

    work: Work
    target: Target
    down: float


def interrupt(broker: Node, dsn: str, folder: Path, interruption: Interruption) -> list[str]:
    """Kill in the middle of some work, and do the work again to its end.
    Returns:
        What was wrong afterwards, one line each.
    """
    work, target, down = interruption
    mark = f"{work}-{secrets.token_hex(4)}"
    client = _client(work, mark, dsn, folder)
    try:
        with _begun(work, client, dsn), frozen(dsn, _APPLICATIONS[work], writes=work != "audit") as pid:
            if target == "server":
                broker.kill()
            elif target == "backend":
                _send(pid, signal.SIGKILL)
            else:
                client.kill()
    finally:
        client.kill()
    if target == "server":
        time.sleep(down)
        broker.start()
    return _again(work, mark, dsn)


def adopt_twice(broker: Node, dsn: str, folder: Path, interruption: Interruption) -> list[str]:
    """Promote a broker's server, kill in the middle of `adopt()`, and adopt it to the end.

    The server breaks off, starts again as a standby without a primary, and is promoted. It is then
    on another timeline of the same data, as after a failover to a synchronous standby. Its appender
    refuses until `adopt()` has been called. The arguments and the result are those of `interrupt`.
    """
    ((before,),) = query(dsn, _INCARNATION)
    assert broker.server is not None
    _promote(broker.server, dsn)
    found = interrupt(broker, dsn, folder, interruption)
    # A session whose client is gone ends its statement first, and commits.
    expected = (before + 1,) if interruption.target != "client" else (before + 1, before + 2)
    ((after,),) = query(dsn, _INCARNATION)
    if after not in expected:
        found.append(f"incarnation {before} became {after} by an adopt() that was killed and one that was not")
    return found


def _promote(server: EmbeddedServer, dsn: str) -> None:
    server.stop("immediate")
    data = server.directory / "pgdata"
    standby = data / "standby.signal"
    standby.touch()
    os.chown(standby, data.stat().st_uid, data.stat().st_gid)
    server.start()
    persist(lambda: query(dsn, "select pg_promote() where pg_is_in_recovery()"))


def _client(work: Work, mark: str, dsn: str, folder: Path) -> Process:
    arguments = ["lab.chaos.interruption", work, mark]
    if work == "audit":
        arguments = ["mqpg", "audit", "--engine", "sql", "--json"]
    named = make_conninfo(dsn, application_name=_APPLICATIONS[work])
    env = environment(MQPG_DATABASE_URL=named)
    return Process(work, [sys.executable, "-m", *arguments], folder, env)


def _again(work: Work, mark: str, dsn: str) -> list[str]:
    """Do the work to its end, as an operator would, and say what was wrong."""
    if work == "keep":
        persist(lambda: _keep(dsn))
    elif work == "upgrade":
        source = MarkedSource(mark)
        if not persist(lambda: migrate.upgrade(dsn, source=source)).up_to_date:
            return ["an upgrade after one that was killed changed nothing"]
        persist(lambda: migrate.upgrade(dsn))
    elif work == "adopt":
        persist(lambda: migrate.adopt(dsn))
    else:
        done = audit(dsn, ledgers=[], applied=[], engine="sql", drained=False)
        if done.verdict == "invalid" or "anomalies" not in done.report:
            return [f"an audit after one that was killed: {done.verdict}, {done.report.get('reasons')}"]
    return []


def _keep(dsn: str) -> None:
    with mqpg.connect(dsn, call_timeout=30) as mq:
        for _ in range(20):
            if all(row[0] in ("pinned", "blocked") for row in mq.keep()):
                return


@contextmanager
def _begun(work: Work, client: Process, dsn: str) -> Iterator[None]:
    """Begin the work. An adopt() waits in its middle until the end of the block."""
    if work != "adopt":
        client.start()
        yield
        return
    # They may be killed with the server, so they are closed and nothing else.
    with closing(_session(dsn)) as before, closing(_session(dsn)) as middle:
        before.execute(_BEFORE_THE_MIDDLE)
        client.start()
        until = time.monotonic() + _PATIENCE
        while not before.execute(_WAITS).rowcount:
            if time.monotonic() > until:
                raise LabError(f"adopt() did not get the locks that it needs within {_PATIENCE:g} seconds")
            time.sleep(0.01)
        middle.execute(_IN_THE_MIDDLE)
        before.close()
        yield


def _session(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, connect_timeout=10, application_name="chaos")


@contextmanager
def frozen(dsn: str, application: str, *, writes: bool) -> Iterator[int]:
    """Freeze a session of the server in the middle of its work; it continues at the end, if alive.

    Args:
        writes: Whether the work counts only once it has written something.

    Yields:
        The process id of the session.
    """
    until = time.monotonic() + _PATIENCE
    with psycopg.connect(dsn, autocommit=True, application_name="chaos") as conn:
        while (pid := _catch(conn, application, writes)) is None:
            if time.monotonic() > until:
                raise LabError(f"no session of {application!r} was seen at work within {_PATIENCE:g} seconds")
        try:
            yield pid
        finally:
            _send(pid, signal.SIGCONT)


def _catch(conn: psycopg.Connection[Any], application: str, writes: bool) -> int | None:
    """Freeze a session that is at work, and look whether it still is."""
    for pid, since in conn.execute(_UNDER_WAY, [application, not writes]).fetchall():
        _send(pid, signal.SIGSTOP)
        if _still(conn, application, writes, (pid, since)):
            return int(pid)
        _send(pid, signal.SIGCONT)
    return None


def _still(conn: psycopg.Connection[Any], application: str, writes: bool, session: tuple[int, Any]) -> bool:
    """Whether a frozen session has the same statement under way, now that it cannot end."""
    timer = threading.Timer(_BLIND, _send, (session[0], signal.SIGCONT))
    timer.start()
    try:
        with suppress(psutil.NoSuchProcess):
            # On a busy machine SIGSTOP takes a while.
            while psutil.Process(session[0]).status() != psutil.STATUS_STOPPED and timer.is_alive():
                time.sleep(0.001)
        rows = conn.execute(_UNDER_WAY, [application, not writes]).fetchall()
        return session in rows and timer.is_alive()
    finally:
        timer.cancel()
        timer.join()


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def main(work: str, mark: str) -> None:
    """Do the work: keep and adopt again and again, an upgrade to a release that differs in its mark only."""
    dsn = os.environ["MQPG_DATABASE_URL"]
    if work == "upgrade":
        migrate.upgrade(dsn, source=MarkedSource(mark))
        return
    while work == "adopt":
        try:
            migrate.adopt(dsn)
            return
        except mqpg.Error:
            time.sleep(_PAUSE)
    with mqpg.connect(dsn, call_timeout=60) as mq:
        while True:
            mq.keep()
            time.sleep(_PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
