"""A leader that falls silent without dying loses its session to a standby, and does nothing twice."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from mqpg.status import findings, read_overview
from tests.support.appending import Sender, appended, check_dense_and_once
from tests.support.processes import Processes, workers
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]


def leader_and_standby(processes: Processes, db: Connection, role: str) -> tuple[int, int]:
    (leader,) = eventually(lambda: workers(db, role, "active"), why=processes.logs)
    (standby,) = eventually(lambda: workers(db, role, "standby"), why=processes.logs)
    return leader, standby


def said(db: Connection) -> list[str]:
    with db.cursor(row_factory=dict_row) as cursor:
        return [one.found for one in findings(read_overview(lambda query: cursor.execute(query.encode()).fetchall()))]


@pytest.mark.chaos
def test_i12_standby_takes_over_from_a_frozen_appender(
    processes: Processes, db: Connection, connect: Callable[..., Connection]
) -> None:
    db.execute("select mqpg.create_topic('t', 4)")
    for _ in range(2):
        processes.worker("appender")
    sender = Sender(connect(), "t")
    sender.start()
    frozen, other = leader_and_standby(processes, db, "appender")
    for _ in range(2):
        eventually(lambda: appended(db) > 0, why=processes.logs)
        os.kill(frozen, signal.SIGSTOP)
        time.sleep(0.1)  # what was under way when it froze
        before = appended(db)
        eventually(lambda: appended(db) > before, why=processes.logs)  # noqa: B023 (called at once)
        os.kill(frozen, signal.SIGCONT)
        detail = eventually(lambda: workers(db, "appender", "active").get(other), why=processes.logs)  # noqa: B023
        assert detail["ended_silent"]["seconds"] > 3
        assert any("ended the session of mqpg appender, pid" in one for one in said(db))
        eventually(lambda: frozen in workers(db, "appender", "standby"), why=processes.logs)  # noqa: B023
        frozen, other = other, frozen
    sent = sender.finish()
    eventually(lambda: appended(db) == len(sent), why=processes.logs)
    check_dense_and_once(db, sent)


@pytest.mark.chaos
@pytest.mark.parametrize("role", ["compensator", "keeper"])
def test_standby_takes_over_from_a_frozen_leader(processes: Processes, db: Connection, role: str) -> None:
    for _ in range(2):
        processes.worker(role, "--interval", "60")
    frozen, other = leader_and_standby(processes, db, role)
    time.sleep(5)  # longer than a leader may be silent: one that rests is not
    assert frozen in workers(db, role, "active")
    os.kill(frozen, signal.SIGSTOP)
    eventually(lambda: other in workers(db, role, "active"), why=processes.logs)
    os.kill(frozen, signal.SIGCONT)
    eventually(lambda: frozen in workers(db, role, "standby"), why=processes.logs)


def test_a_leader_whose_statement_takes_long_is_not_silent(
    processes: Processes, db: Connection, connect: Callable[..., Connection]
) -> None:
    db.execute("select mqpg.create_topic('t')")
    for _ in range(2):
        processes.worker("appender")
    leader, _ = leader_and_standby(processes, db, "appender")
    with connect(autocommit=False) as holder:  # append() waits for this lock
        holder.execute("lock table mqpg.append_lock in exclusive mode")
        time.sleep(6)
    db.execute("select mqpg.send('t', '{}'::text)")
    eventually(lambda: appended(db) == 1, why=processes.logs)
    assert list(workers(db, "appender", "active")) == [leader]
    assert "fell silent" not in processes.logs()
