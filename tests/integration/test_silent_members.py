"""A member of a group that falls silent while it handles loses its queue to another one, and does nothing twice."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.processes import Process, Processes
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]
LEASE = 3
ENDED = "select w.detail -> 'ended_silent' from mqpg.worker_status w where w.detail ? 'ended_silent'"
_APP = """
import time
from pathlib import Path
import mqpg
from sqlalchemy import Connection, text

def work():
    if not Path("hurry").exists():
        time.sleep(0.05)

@mqpg.consumer("orders", group="psycopg", lease=3, max_messages=10)
def by_psycopg(message, conn):
    conn.execute("insert into effect values (%s)", [message.payload])
    work()

@mqpg.consumer("orders", group="sqlalchemy", lease=3, max_messages=10)
def by_sqlalchemy(message, conn: Connection):
    conn.execute(text("insert into effect values (:id)"), {"id": message.payload})
    work()

@mqpg.consumer("orders", group="async", lease=3, max_messages=10)
async def by_async(message, conn):
    await conn.execute("insert into effect values (%s)", [message.payload])
    work()

# Two programs of one name are one member.
@mqpg.consumer("orders", group="broadcast", mode="broadcast", consumer="twin", lease=3, max_messages=10)
def by_broadcast(message, conn):
    conn.execute("insert into effect values (%s)", [message.payload])
    work()

@mqpg.consumer("orders", group="slow", lease=3, max_messages=10)
def slow(message, conn):
    conn.execute("insert into effect values (%s)", [message.payload])
    time.sleep(8)
"""


def effects(db: Connection) -> list[int]:
    return [row[0] for row in db.execute("select id from effect order by id")]


def holder(db: Connection, members: list[Process]) -> Process:
    """The member in whose transaction the queue is locked."""
    query = """
        select a.application_name from pg_stat_activity a join pg_locks k on k.pid = a.pid
        where k.locktype = 'advisory' and k.classid::bigint = 1836150833 and k.granted
            and a.datname = current_database()
    """
    name = eventually(lambda: db.execute(query).fetchone())[0]
    return members[int(name.removeprefix("member"))]


def freeze_the_holder(db: Connection, members: list[Process]) -> Process:
    """Stop the member that has the queue; one that has just given it away continues, and it is the other's turn."""
    while True:
        member = holder(db, members)
        os.kill(member.pid, signal.SIGSTOP)
        time.sleep(0.5)
        if holder(db, members) is member:
            return member
        os.kill(member.pid, signal.SIGCONT)


def start(processes: Processes, dsn: str, folder: Path, handler: str) -> list[Process]:
    (folder / "silent_app.py").write_text(_APP)
    return [
        processes.start("consume", f"silent_app:{handler}", dsn=make_conninfo(dsn, application_name=f"member{number}"))
        for number in range(2)
    ]


@pytest.mark.chaos
@pytest.mark.parametrize("handler", ["by_psycopg", "by_sqlalchemy", "by_async", "by_broadcast"])
def test_a_frozen_member_loses_its_queue(
    processes: Processes, db: Connection, dsn: str, tmp_path: Path, handler: str
) -> None:
    db.execute("create table effect (id int)")
    mode = "broadcast" if handler == "by_broadcast" else "exclusive"
    db.execute("select mqpg.create_topic('orders', 1), mqpg.subscribe(%s, 'orders', mode => %s)", [handler[3:], mode])
    members = start(processes, dsn, tmp_path, handler)
    payloads = [str(number) for number in range(200)]
    db.execute("select mqpg.send_batch('orders', %s::text[])", [payloads])
    processes.worker("appender")
    eventually(lambda: len(effects(db)) >= 20, why=processes.logs)
    frozen = freeze_the_holder(db, members)
    before = len(effects(db))
    eventually(lambda: len(effects(db)) > before, why=processes.logs)
    ended = eventually(lambda: db.execute(ENDED).fetchone())[0]
    assert ended["seconds"] >= LEASE
    assert ended["application"].startswith("member")
    os.kill(frozen.pid, signal.SIGCONT)
    (tmp_path / "hurry").touch()
    eventually(lambda: len(effects(db)) >= 200, why=processes.logs)
    assert effects(db) == list(range(200))


@pytest.mark.chaos
def test_a_slow_member_keeps_its_queue(processes: Processes, db: Connection, dsn: str, tmp_path: Path) -> None:
    db.execute("create table effect (id int)")
    db.execute("select mqpg.create_topic('orders', 1), mqpg.subscribe('slow', 'orders')")
    processes.worker("appender")
    start(processes, dsn, tmp_path, "slow")
    db.execute("select mqpg.send_batch('orders', array['0'])")
    eventually(lambda: effects(db) == [0], timeout=90, why=processes.logs)
    assert "fell silent" not in processes.logs()
