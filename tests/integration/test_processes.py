"""What was used before fork() is used by parent and children at the same time (docs/processes.md)."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text

import mqpg
from mqpg import errors
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.connection.statements import statement
from tests.support.consuming import running, sent, sent_batch
from tests.support.forked import Child
from tests.support.processes import Processes
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")


_BACKEND = statement("select pg_backend_pid()")
_STORED = """
    select l.batch_id * 1024 + i - 1, p #>> '{}'
    from mqpg.commit_log l, unnest(l.payloads) with ordinality x (p, i)
    where l.kind <> 'h'
"""


def backend(mq: mqpg.Client) -> int:
    """The server's process of its only connection."""
    return int(mq._rows(_BACKEND, {})[0][0])


def work(mq: mqpg.Client, name: str, count: int = 25) -> list[tuple[int, str]]:
    """Messages and half messages; for each id what it was given."""
    done = [(mq.send("orders", f"{name}-{number}"), f"{name}-{number}") for number in range(count)]
    for number in range(count):
        handle = mq.prepare("orders", f"{name}-half-{number}", "shop")
        assert mq.commit(handle) == "committed"
    return done


def require_own_answers(dsn: str, done: list[tuple[int, str]]) -> None:
    """Each id is that of the payload that was sent."""
    with psycopg.connect(dsn) as conn:
        stored: dict[int, str] = dict(conn.execute(_STORED).fetchall())
    assert {message_id: stored.get(message_id) for message_id, _ in done} == dict(done)


@pytest.mark.parametrize("before", ["only connected", "used", "in use by a thread"])
def test_a_client(mq: mqpg.Client, dsn: str, orders: str, before: str) -> None:
    stop = threading.Event()
    done: list[tuple[int, str]] = []

    def send() -> None:
        while not stop.is_set():
            done.append((mq.send("orders", "thread"), "thread"))

    with mqpg.connect(dsn) as shared:
        mq, threads = shared, list[threading.Thread]()
        if before != "only connected":
            mq.send(orders, "before")
        if before == "in use by a thread":
            threads = [threading.Thread(target=send) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.1)
        children = [Child(lambda name=name: work(mq, name)) for name in ("one", "two")]  # type: ignore[misc]
        done += work(mq, "parent")
        for child in children:
            done += child.result()
        stop.set()
        for thread in threads:
            thread.join()
        mq.send(orders, "after")
    require_own_answers(dsn, done)


def test_multiprocessing(dsn: str, orders: str) -> None:
    with mqpg.connect(dsn) as mq:
        mq.send(orders, 0)
        _shared.append(mq)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            ids = pool.map(_send, range(20))
        ids.append(mq.send(orders, 1))
    assert len(set(ids)) == 21


_shared: list[mqpg.Client] = []


def _send(number: int) -> int:
    return _shared[-1].send("orders", number)


def test_the_childs_end_leaves_the_parents_session(dsn: str, orders: str) -> None:
    with mqpg.connect(dsn, pool_max_size=1) as mq:
        before = backend(mq)

        def end() -> None:
            mq.send(orders, 1)
            mq.close()
            gc.collect()

        Child(end).result()
        assert backend(mq) == before


def test_an_interpreter_that_ends_leaves_it_too(dsn: str, orders: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys, mqpg\n"
        "mq = mqpg.connect(sys.argv[1], pool_max_size=1)\n"
        "pid = lambda: mq._rows(mqpg.connection.statements.statement('select pg_backend_pid()'), {})[0][0]\n"
        "before = pid()\n"
        "if os.fork() == 0:\n"
        "    if sys.argv[2] == 'used': mq.send('orders', 1)\n"
        "    sys.exit()\n"
        "assert os.wait()[1] == 0\n"
        "assert pid() == before, 'another session'\n"
    )
    for use in ("used", "unused"):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", str(script), dsn, use], capture_output=True, text=True, timeout=60
        )
        assert (run.returncode, run.stderr) == (0, "")


def test_fork_in_a_transaction(dsn: str, orders: str) -> None:
    with mqpg.connect(dsn, pool_max_size=1) as mq:

        def child() -> list[str]:
            found = []
            for call in (lambda: conn.execute("select 1"), lambda: mq.send(orders, 2, conn=conn), conn.close):
                try:
                    call()
                    found.append("fine")
                except errors.ConfigurationError as error:
                    found.append(str(error))
            mq.send(orders, "child")
            return found

        with mq.transaction() as conn:
            mq.send(orders, 1, conn=conn)
            refused, also, closed = Child(child).result()
            assert "made before fork()" in refused
            assert also == refused
            assert closed == "fine"
            mq.send(orders, 3, conn=conn)
        assert mq.append() == 3


@pytest.mark.parametrize("ends", ["at its end", "with an error", "with sys.exit"])
def test_a_child_that_leaves_the_block_of_its_parent(dsn: str, orders: str, ends: str, tmp_path: Path) -> None:
    ways = {"at its end": "pass", "with an error": "raise ValueError('mine')", "with sys.exit": "sys.exit(7)"}
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys, mqpg\n"
        "mq = mqpg.connect(sys.argv[1], pool_max_size=1)\n"
        "with mq.transaction() as conn:\n"
        "    mq.send('orders', 1, conn=conn)\n"
        "    child = os.fork() == 0\n"
        f"    if child:\n        {ways[ends]}\n"
        "    else:\n        print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "assert not child, 'the child continues'\n"
        "assert mq.append() == 1\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", str(script), dsn], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    expected = {"at its end": "made before fork()", "with an error": "ValueError: mine", "with sys.exit": ""}[ends]
    assert expected in run.stderr
    assert run.stdout.strip() == ("7" if ends == "with sys.exit" else "1")


@pytest.mark.parametrize("ends", ["at its end", "with sys.exit"])
def test_a_child_that_leaves_a_block_of_the_producer(
    dsn: str, orders: str, local_url: str, ends: str, tmp_path: Path
) -> None:
    """Otherwise it ends the parent's transaction, and what follows there is committed without a message."""
    engine = create_engine(local_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id int)"))
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys, mqpg\n"
        "from sqlalchemy import text\n"
        "mq = mqpg.connect(sys.argv[1], pool_max_size=1)\n"
        "shop = mqpg.TransactionalProducer(mq, group='shop', ledger=sys.argv[2])\n"
        "shop.create_ledger()\n"
        "with shop.transaction('orders', 1) as tx:\n"
        "    tx.execute(text('insert into business values (1)'))\n"
        "    child = os.fork() == 0\n"
        f"    if child:\n        {'pass' if ends == 'at its end' else 'sys.exit(7)'}\n"
        "    else:\n        print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "        tx.execute(text('insert into business values (2)'))\n"
        "assert not child, 'the child continues'\n"
        "assert mq.append() == 1\n"
    )
    words = [sys.executable, "-W", "ignore", str(script), dsn, local_url]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == ("7" if ends == "with sys.exit" else "1"), run.stderr
    assert ("belongs to the parent process" in run.stderr) == (ends == "at its end")
    with engine.connect() as conn:
        assert conn.execute(text("select count(*) from business")).scalar_one() == 2
    engine.dispose()


_FORKING = """
import asyncio, os, sys, mqpg
import sqlalchemy.ext.asyncio
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

mq = mqpg.connect(sys.argv[1])
INSERT = "insert into effect values (%d)"


def fork(message):
    if (child := os.fork()) == 0:
        if message.payload == 1:
            raise ValueError("mine")
        if message.payload == 2:
            sys.exit(7)
        return True
    print(message.payload, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), message.attempt)


def by_driver(message, conn):
    if fork(message):
        return
    conn.execute(INSERT % message.payload)


def in_session(message, session: Session):
    if fork(message):
        return
    session.execute(text(INSERT % message.payload))


def outside(message):
    if fork(message):
        return
    with mq.transaction() as conn:
        conn.execute(INSERT % message.payload)


def by_sqlalchemy(message, conn: Connection):
    if fork(message):
        return
    conn.execute(text(INSERT % message.payload))


async def as_task(message, conn):
    await asyncio.sleep(0)
    if fork(message):
        return
    await conn.execute(INSERT % message.payload)


kind, options = sys.argv[2], {}
if kind == "outside":
    options = {"effect": "external"}
if kind == "own database":
    options = {"database": sys.argv[1], "consumer": "one"}
if kind == "within a time":
    options = {"timeout": 20}
handler = {
    "session": in_session, "outside": outside, "own database": by_sqlalchemy, "within a time": by_driver,
    "driver": by_driver, "task": as_task,
}[kind]
consumer = mqpg.consumer("orders", group="g", **options)(handler)


async def steps():
    async with await mqpg.connect_async(sys.argv[1]) as amq:
        while await consumer.step(amq):
            pass


if kind == "task":
    asyncio.run(steps())
else:
    while consumer.step(mq):
        pass
"""


@pytest.mark.parametrize("kind", ["driver", "session", "outside", "own database", "within a time", "task"])
def test_a_child_that_comes_back_from_a_handler(mq: mqpg.Client, db: psycopg.Connection, kind: str, dsn: str) -> None:
    """It would acknowledge, or undo, what its parent has under way."""
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", "pinned" if kind == "own database" else "exclusive")
    db.execute("create table effect (id int)")
    sent_batch(mq, "orders", [0, 1, 2])
    words = [sys.executable, "-W", "ignore", "-c", _FORKING, dsn, kind]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert run.stdout.splitlines() == ["0 0 1", "1 1 1", "2 7 1"], run.stderr
    assert run.returncode == 0
    assert db.execute("select id from effect order by 1").fetchall() == [(0,), (1,), (2,)]
    assert db.execute("select sum(lag)::int from mqpg.subscription_lag").fetchone() == (0,)


_ORPHAN = """
import asyncio, os, sys, time, mqpg
from sqlalchemy import create_engine, text


def leave():
    if (child := os.fork()) == 0:
        time.sleep(600)
    with open(sys.argv[3], "w") as file:
        file.write(str(child))
    os.kill(os.getpid(), 9)


async def by_asyncpg(message, conn):
    await conn.execute(text("insert into effect values (1)"))
    leave()


def by_psycopg(message, conn):
    conn.execute(text("insert into effect values (1)"))
    leave()


async def step():
    async with await mqpg.connect_async(sys.argv[1]) as amq:
        await consumer.step(amq)


is_async = "asyncpg" in sys.argv[2]
database = sys.argv[2]
if "own engine" in sys.argv:
    database = create_engine(database)
    with database.connect() as used:  # before there is a consumer
        used.execute(text("select 1"))
consumer = mqpg.consumer("orders", group="g", database=database, consumer="one")(
    by_asyncpg if is_async else by_psycopg
)
asyncio.run(step()) if is_async else consumer.step(mqpg.connect(sys.argv[1]))
"""


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg", "own engine"])
def test_a_child_that_outlives_its_parent_holds_no_transaction(
    mq: mqpg.Client, db: psycopg.Connection, dsn: str, driver: str, tmp_path: Path
) -> None:
    """A pool of processes does, if its parent is killed: the server does not see that the parent is gone."""
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", "pinned")
    db.execute("create table effect (id int)")
    message_id = sent(mq, "orders", 1)
    name = "psycopg" if driver == "own engine" else driver
    url = to_sqlalchemy(dsn).set(drivername=f"postgresql+{name}").render_as_string(hide_password=False)
    child = tmp_path / "child"
    words = [sys.executable, "-W", "ignore", "-c", _ORPHAN, dsn, url, str(child), driver]
    subprocess.run(words, timeout=60, check=False)

    @mqpg.consumer("orders", group="g", database=dsn, consumer="one")
    def handle(message: mqpg.Message, conn: Connection) -> None:
        conn.execute(text("insert into effect values (2)"))

    try:
        with running(handle, mq):
            mq.wait_done(message_id, "g", timeout=PATIENCE)
        assert db.execute("select id from effect").fetchall() == [(2,)]
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)
        handle.close()


def test_a_handler_with_a_pool_of_processes(mq: mqpg.Client, orders: str, processes: Processes, tmp_path: Path) -> None:
    """The pool ends its processes by SIGTERM, which must end them and not the consumer."""
    (tmp_path / "pooled.py").write_text(
        "import multiprocessing\n\n"
        "import mqpg\n\n\n"
        "@mqpg.consumer('orders', group='g')\n"
        "def add(message):\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        assert pool.map(abs, [-1, -2]) == [1, 2]\n"
    )
    mq.subscribe("g", orders)
    ids = sent_batch(mq, orders, [1, 2])
    consumer = processes.start("consume", "pooled:add")
    for message_id in ids:
        mq.wait_done(message_id, "g", timeout=PATIENCE)
    assert "stopping" not in consumer.log()
    assert consumer.stop() == 0


def test_a_client_that_is_closed_stays_closed(dsn: str, orders: str) -> None:
    mq = mqpg.connect(dsn)
    mq.close()

    def call() -> bool:
        with pytest.raises(errors.ConnectionFailed, match="closed"):
            mq.send(orders, 1)
        return mq.closed

    assert Child(call).result()


def test_an_asynchronous_client(dsn: str, orders: str) -> None:
    async def before() -> mqpg.AsyncClient:
        mq = await mqpg.connect_async(dsn)
        await asyncio.gather(*(mq.send(orders, "before") for _ in range(5)))
        return mq

    loop = asyncio.new_event_loop()
    mq = loop.run_until_complete(before())

    async def use(name: str) -> list[tuple[int, str]]:
        sent = await asyncio.gather(*(mq.send(orders, f"{name}-{number}") for number in range(20)))
        async with mq.transaction() as conn:
            await conn.execute("select 1")
        return [(message_id, f"{name}-{number}") for number, message_id in enumerate(sent)]

    children = [Child(lambda name=name: asyncio.run(use(name))) for name in ("one", "two")]  # type: ignore[misc]
    done = loop.run_until_complete(use("parent"))
    for child in children:
        done += child.result()
    loop.run_until_complete(mq.close())
    loop.close()
    require_own_answers(dsn, done)


def test_waiting_wakes_in_a_child_of_a_parent_that_has_waited(dsn: str, orders: str) -> None:
    with mqpg.connect(dsn) as mq, mqpg.connect(dsn) as other:
        mq.subscribe("g", orders)
        assert not mq.receive("g", orders, wait=0.3)

        def wait() -> float:
            began = time.monotonic()
            with mqpg.connect(dsn) as fresh:  # the listener is shared by clients of a process
                assert fresh.info() == mq.info()
            messages = mq.receive("g", orders, wait=20)
            messages.ack()
            return time.monotonic() - began

        child = Child(wait)
        time.sleep(2)
        sent(other, orders, 1)
        assert child.result() < 10


@pytest.mark.parametrize("owner", ["library", "caller"])
def test_ledger_and_producer(dsn: str, orders: str, local_url: str, owner: str) -> None:
    engine = create_engine(local_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id varchar(20) primary key)"))
    given = engine if owner == "caller" else engine.url
    with mqpg.connect(dsn) as mq, mqpg.TransactionalProducer(mq, group="shop", ledger=given) as shop:
        shop.create_ledger()

        def orders_of(name: str) -> int:
            for number in range(10):
                with shop.transaction(orders, {"id": f"{name}{number}"}) as tx:
                    tx.execute(text("insert into business values (:id)"), {"id": f"{name}{number}"})
                assert tx.outcome == "committed"
            shop.recover()
            return 10

        orders_of("before")
        children = [Child(lambda name=name: orders_of(name)) for name in ("one", "two")]  # type: ignore[misc]
        orders_of("parent")
        assert [child.result() for child in children] == [10, 10]
        with engine.connect() as conn:
            assert conn.execute(text("select count(*) from business")).scalar() == 40
        assert mq.append() == 40
    engine.dispose()


@pytest.mark.parametrize("kind", ["driver", "sqlalchemy", "database"])
def test_a_consumer(dsn: str, orders: str, kind: str, new_database: Callable[..., str]) -> None:
    place = new_database(empty=True) if kind == "database" else dsn
    with psycopg.connect(place) as conn:
        conn.execute("create table effect (id text primary key)")
    options: dict[str, Any] = {"database": to_sqlalchemy(place)} if kind == "database" else {}

    @mqpg.consumer(orders, group="g", max_messages=1, **options)
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into effect values (%s)", [message.payload])

    @mqpg.consumer(orders, group="g", max_messages=1, **options)
    def handle_sqlalchemy(message: mqpg.Message, conn: Connection) -> None:
        conn.execute(text("insert into effect values (:id)"), {"id": message.payload})

    consumer = handle if kind == "driver" else handle_sqlalchemy
    with mqpg.connect(dsn) as mq:
        consumer.step(mq)
        sent_batch(mq, orders, [str(number) for number in range(30)])
        consumer.step(mq)

        def consume() -> int:
            count, misses = 0, 0
            while misses < 5:
                found = consumer.step(mq)
                count, misses = count + found, 0 if found else misses + 1
                time.sleep(0 if found else 0.1)
            return count

        children = [Child(consume) for _ in range(2)]
        total = 1 + consume() + sum(child.result() for child in children)
        consumer.close()
    with psycopg.connect(place) as conn:
        found = conn.execute("select count(*) from effect").fetchone()
    assert found == (30,)
    assert total >= 30
