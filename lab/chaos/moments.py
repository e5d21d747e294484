"""Kills in the middle of `keep()`, of an upgrade of the schema, of an audit, and of `adopt()`.

Each begins the work in a process of its own. A session of the server that has the work under way is
frozen by SIGSTOP, and looked at again, so the kill that follows hits that moment for certain. Then
the same work is done once more, to its end.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, LiteralString, NamedTuple, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

import mqpg
from mqpg import migrate
from mqpg.audit.process import audit_in_process
from mqpg.errors import Error

from .caller import MarkedSource
from .nodes import BrokerNode, ProcessNode, is_stopped
from .schedule import Target

__all__ = ["Interruption", "MomentMissed", "Work", "frozen", "interrupt"]

T = TypeVar("T")
Work = Literal["keep", "upgrade", "audit", "adopt"]

_PATIENCE = 60.0  # seconds until the moment comes, and until the work succeeds afterwards
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


class Interruption(NamedTuple):
    """What is killed, and when.

    Attributes:
        work: The kill hits the middle of this work.
        target: What gets SIGKILL: the whole server with its workers, the one process of the server
            that does the work, or the client that asked for it.
        down: Seconds for which a server that was killed stays down.
    """

    work: Work
    target: Target
    down: float


class MomentMissed(Error):
    """The work was never seen under way."""


def interrupt(node: BrokerNode, dsn: str, folder: Path, interruption: Interruption) -> list[str]:
    """Kill in the middle of some work, and do the work again to its end.

    Args:
        node: The broker.
        dsn: The broker's DSN.
        folder: The folder of the log of the work.
        interruption: What to kill, and when.

    Returns:
        What was wrong afterwards, one line each.

    Raises:
        MomentMissed: The work was not seen under way within a minute.
    """
    work, target, down = interruption
    mark = f"{work}-{secrets.token_hex(4)}"
    client = _client(work, mark, dsn, folder)
    try:
        begun = _begun(work, client, dsn)
        with begun, frozen(dsn, _APPLICATIONS[work], writes=work != "audit") as pid:
            if target == "server":
                node.kill()
            elif target == "backend":
                _send(pid, signal.SIGKILL)
            else:
                client.kill()
    finally:
        client.kill()
    if target == "server":
        time.sleep(down)
        node.start()
    return _again(work, mark, dsn)


def _client(work: Work, mark: str, dsn: str, folder: Path) -> ProcessNode:
    argv = ["lab.chaos.caller", work, mark]
    if work == "audit":
        argv = ["mqpg", "audit", "--engine", "sql", "--json"]
    named = make_conninfo(dsn, application_name=_APPLICATIONS[work])
    return ProcessNode(work, argv, folder, os.environ | {"MQPG_DATABASE_URL": named})


def _again(work: Work, mark: str, dsn: str) -> list[str]:
    """Do the work to its end, as an operator would, and say what was wrong."""
    if work == "keep":
        _persistently(lambda: _keep(dsn))
    elif work == "upgrade":
        source = MarkedSource(mark)
        if not _persistently(lambda: migrate.upgrade(dsn, source=source)).up_to_date:
            return ["an upgrade after one that was killed changed nothing"]
        _persistently(lambda: migrate.upgrade(dsn))
    elif work == "adopt":
        _persistently(lambda: migrate.adopt(dsn))
    else:
        done = audit_in_process(dsn, ["--engine", "sql"])
        if done.report is None or done.report["verdict"] == "invalid":
            return [f"an audit after one that was killed: {'invalid' if done.report else done.words}"]
    return []


def _keep(dsn: str) -> None:
    with mqpg.connect(dsn, call_timeout=30) as mq:
        for _ in range(20):
            if all(row[0] in ("pinned", "blocked") for row in mq.keep()):
                return


def _persistently(work: Callable[[], T]) -> T:
    """Try again while the server recovers, or others hold locks."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return work()
        except (Error, psycopg.Error):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


@contextmanager
def _begun(work: Work, client: ProcessNode, dsn: str) -> Iterator[None]:
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
                raise MomentMissed(f"adopt() did not get the locks that it needs within {_PATIENCE:g} seconds")
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
        dsn: The database.
        application: The session's `application_name`.
        writes: Whether the work counts only once it has written something.

    Yields:
        The process id of the session.

    Raises:
        MomentMissed: No session was caught within a minute.
    """
    until = time.monotonic() + _PATIENCE
    with psycopg.connect(dsn, autocommit=True, application_name="chaos") as conn:
        while time.monotonic() < until:
            for pid, since in conn.execute(_UNDER_WAY, [application, not writes]).fetchall():
                _send(pid, signal.SIGSTOP)
                if _still(conn, application, writes, (pid, since)):
                    break
                _send(pid, signal.SIGCONT)
            else:
                continue
            break
        else:
            raise MomentMissed(f"no session of {application!r} was seen at work within {_PATIENCE:g} seconds")
        try:
            yield pid
        finally:
            _send(pid, signal.SIGCONT)


def _still(conn: psycopg.Connection[Any], application: str, writes: bool, session: tuple[int, Any]) -> bool:
    """Return whether a frozen session has the same statement under way, now that it cannot end."""
    timer = threading.Timer(_BLIND, _send, (session[0], signal.SIGCONT))
    timer.start()
    try:
        while not is_stopped(session[0]) and timer.is_alive():
            time.sleep(0.001)
        rows = conn.execute(_UNDER_WAY, [application, not writes]).fetchall()
        return session in rows and timer.is_alive()
    finally:
        timer.cancel()
        timer.join()


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
