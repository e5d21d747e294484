"""`mqpg consume MODULE`: all consumers of a module in one process."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.in_process import Run
from tests.support.processes import Process, Processes, workers
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

MODULE = """
import asyncio, threading
import mqpg
from sqlalchemy import text

# Both wait for each other: they need one event loop, and neither blocks the other.
seen = {name: asyncio.Event() for name in ("one", "two")}

def effect(conn, group, message):
    conn.execute("insert into effect values (%s, %s)", [group, message.message_id])

@mqpg.consumer("t", group="sync")
def first(message, conn):
    effect(conn, "sync", message)

again = first

@mqpg.consumer("t", group="one")
async def one(message, conn):
    seen["one"].set()
    await seen["two"].wait()
    await conn.execute("insert into effect values ('one', %s)", [message.message_id])

@mqpg.consumer("t", group="two")
async def two(message, conn):
    seen["two"].set()
    await seen["one"].wait()
    await conn.execute("insert into effect values ('two', %s)", [message.message_id])

@mqpg.consumer("t", group="own", database="sqlite:///own.db", consumer="own-1")
def own(message, conn):
    conn.execute(text("insert into effect values (:id)"), {"id": message.message_id})
"""
ENDING = """
import sys, time
import mqpg

@mqpg.consumer("t", group="ends", effect="external")
def ends(message):
    sys.exit(7)

@mqpg.consumer("t", group="slow", effect="external")
def slow(message):
    open("begun", "w").close()
    time.sleep(1)
    open("done", "w").close()

async def ends_async(message):
    while not __import__("os").path.exists("begun"):
        time.sleep(0.05)
    sys.exit(7)
"""

LIFESPAN = """
import asyncio, contextlib, pathlib
import mqpg

shared = {}

@contextlib.contextmanager
def blocking():
    shared["client"] = "blocking"
    yield
    pathlib.Path("closed").write_text("blocking")

@contextlib.asynccontextmanager
async def asynchronous():
    shared["client"], shared["loop"] = "asynchronous", asyncio.get_running_loop()
    yield
    assert asyncio.get_running_loop() is shared["loop"]
    pathlib.Path("closed").write_text("asynchronous")

@mqpg.consumer("t", group="g")
async def handler(message, conn):
    assert shared.get("loop") in (None, asyncio.get_running_loop())
    await conn.execute("insert into effect values (%s, %s)", [shared["client"], message.message_id])
"""


@pytest.fixture
def topic(db: Connection) -> None:
    db.execute("select mqpg.create_topic('t', 1)")
    db.execute("create table effect (name text, message_id bigint)")


def send(db: Connection, count: int = 1) -> list[int]:
    ids = [row[0] for row in db.execute("select mqpg.send_batch('t', array_fill('{}'::text, array[%s]))", [count])]
    db.execute("select mqpg.append()")
    return ids


def effects(db: Connection, name: str) -> list[int]:
    return [row[0] for row in db.execute("select message_id from effect where name = %s order by 1", [name])]


def own_effects(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "own.db")) as own:
        return [row[0] for row in own.execute("select message_id from effect order by 1")]


def start(processes: Processes, module: str) -> Process:
    return processes.start("consume", module, "--heartbeat", "0.2")


def at_work(processes: Processes, db: Connection, folder: Path) -> tuple[Process, list[int]]:
    """Start the module. Returns its process, and the messages that each of its consumers has handled."""
    (folder / "shop.py").write_text(MODULE)
    with closing(sqlite3.connect(folder / "own.db")) as own:
        own.execute("create table effect (message_id int)")
    sent = send(db, 5)
    process = start(processes, "shop")
    eventually(lambda: [effects(db, name) for name in ("sync", "one", "two")] == [sent] * 3, why=processes.logs)
    eventually(lambda: own_effects(folder) == sent, why=processes.logs)
    return process, sent


@pytest.mark.usefixtures("topic")
def test_all_consumers_of_a_module_in_one_process(processes: Processes, db: Connection, tmp_path: Path) -> None:
    process, _ = at_work(processes, db, tmp_path)
    rows = db.execute("select detail ->> 'handler', pid from mqpg.worker where role = 'consumer'").fetchall()
    assert sorted(rows) == [(f"shop:{name}", process.pid) for name in ("first", "one", "own", "two")]
    assert process.stop() == 0
    assert not workers(db, "consumer", "active")


@pytest.mark.usefixtures("topic")
def test_one_that_cannot_continue_does_not_stop_the_others(
    processes: Processes, db: Connection, tmp_path: Path, run: Run
) -> None:
    """It is said in the log and by `status`, and it continues by itself once the cause is gone."""
    (tmp_path / "shop.py").write_text(MODULE)
    db.execute("select mqpg.subscribe('own', 't', mode => 'exclusive')")  # and not pinned
    sent = send(db)
    process = start(processes, "shop")
    eventually(lambda: [effects(db, name) for name in ("sync", "one", "two")] == [sent] * 3, why=processes.logs)
    eventually(lambda: "mode exclusive" in run("status")[1] and "has failed" in run("status")[1], timeout=60)
    assert "shop:own cannot continue: again in" in process.log()
    with closing(sqlite3.connect(tmp_path / "own.db")) as own:
        own.execute("create table effect (message_id int)")
    db.execute("select mqpg.unsubscribe('own', 't')")
    eventually(lambda: own_effects(tmp_path) == sent, timeout=60, why=processes.logs)
    eventually(lambda: "has failed" not in run("status")[1], timeout=60)
    assert process.stop() == 0


@pytest.mark.usefixtures("topic")
def test_a_topic_that_is_dropped_and_made_again_needs_no_restart(
    processes: Processes, db: Connection, tmp_path: Path
) -> None:
    process, before = at_work(processes, db, tmp_path)
    db.execute("select mqpg.drop_topic('t', force => true)")
    eventually(lambda: process.log().count("cannot continue") >= 4, timeout=60, why=processes.logs)
    with closing(sqlite3.connect(tmp_path / "own.db")) as own, own:
        own.execute("delete from mqpg_offsets")
    db.execute("select mqpg.create_topic('t', queues => 1)")
    sent = sorted(before + send(db, 3))
    eventually(lambda: [effects(db, name) for name in ("sync", "one", "two")] == [sent] * 3, 60, why=processes.logs)
    eventually(lambda: own_effects(tmp_path) == sent, timeout=60, why=processes.logs)
    assert process.stop() == 0


STUCK = """
import threading, time
import mqpg

@mqpg.consumer("t", group="stuck", effect="external", timeout=0.05, max_messages=1, max_attempts=1)
def stuck(message):
    time.sleep(600)

@mqpg.consumer("t", group="other", effect="external")
def other(message): ...
"""


@pytest.mark.usefixtures("topic")
def test_what_only_a_restart_can_mend_ends_the_process(processes: Processes, db: Connection, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(STUCK)
    send(db, 10)
    process = start(processes, "shop")
    assert process.wait() == 1
    assert "shop:stuck ends this process: HandlerStuck" in process.log()


@pytest.mark.parametrize("decorated", ["ends", "ends_async"])
@pytest.mark.usefixtures("topic")
def test_a_handler_that_ends_the_process(processes: Processes, db: Connection, tmp_path: Path, decorated: str) -> None:
    """What the others have under way is finished."""
    text = ENDING
    if decorated == "ends_async":
        text = text.replace('\n@mqpg.consumer("t", group="ends", effect="external")', "").replace(
            "\nasync def", '\n@mqpg.consumer("t", group="ends", effect="external")\nasync def'
        )
    (tmp_path / "shop.py").write_text(text)
    send(db)
    process = start(processes, "shop")
    assert process.wait() == 7
    assert f"shop:{decorated} ends this process: SystemExit: 7" in process.log()
    assert (tmp_path / "begun").exists() == (tmp_path / "done").exists()


@pytest.mark.parametrize("kind", ["blocking", "asynchronous"])
@pytest.mark.parametrize("target", ["lived", "lived:handler"])
@pytest.mark.usefixtures("topic")
def test_what_handlers_share_lives_as_long_as_the_process(
    db: Connection, processes: Processes, tmp_path: Path, kind: str, target: str
) -> None:
    (tmp_path / "lived.py").write_text(LIFESPAN)
    (sent,) = send(db)
    process = processes.start("consume", target, "--lifespan", f"lived:{kind}")
    eventually(lambda: db.execute("select from effect").rowcount)
    assert not (tmp_path / "closed").exists()
    process.stop()
    assert (tmp_path / "closed").read_text() == kind
    assert db.execute("select name, message_id from effect").fetchall() == [(kind, sent)]
