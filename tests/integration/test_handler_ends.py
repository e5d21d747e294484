"""All ways in which a handler can end: a message that did not come back has used up an attempt.

The transaction that comes back from a handler is the one that was given, in every mode.
"""

from __future__ import annotations

import asyncio
import os
import select
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

import mqpg
from mqpg import errors
from tests.support.consuming import sent, sent_batch
from tests.support.killing import killed
from tests.support.proven import prove
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

MODES: dict[str, dict[str, Any]] = {
    "exclusive": {},
    "shared": {"mode": "shared"},
    "block_queue": {"on_failure": "block_queue"},
}


@pytest.fixture
def effects(mq: mqpg.Client, db: psycopg.Connection[Any]) -> Callable[[], list[int]]:
    mq.create_topic("orders", queues=1)
    db.execute("create table effect (id int)")
    db.execute("grant all on effect to public")
    return lambda: [row[0] for row in db.execute("select id from effect order by 1")]


def run(mq: mqpg.Client, consumer: mqpg.Consumer, done: Callable[[], bool]) -> None:
    """Run it until `done`, started again by a supervisor when it ends."""
    stop = threading.Event()

    def supervise() -> None:
        while not stop.is_set():
            try:
                consumer.run(mq, stop)
            except BaseException:
                stop.wait(0.05)

    thread = threading.Thread(target=supervise, daemon=True)
    thread.start()
    try:
        eventually(lambda: (mq.append(), done())[1], timeout=60)
    finally:
        stop.set()
        thread.join(30)


# The payloads of the cases that follow one another in a test begin at these.
FIRSTS = range(1, 10_000, 10)


def letters(mq: mqpg.Client) -> list[Any]:
    return sorted(letter.payload for letter in mq.dead_letters("g", "orders"))


def insert(message: mqpg.Message, conn: Any) -> None:
    if isinstance(conn, psycopg.Connection):
        conn.execute("insert into effect values (%s)", [message.payload])
    else:
        conn.execute(text("insert into effect values (:id)"), {"id": message.payload})


def executes(sql: str) -> Callable[[Any], object]:
    return lambda conn: conn.execute(sql)


ENDS = {
    sql: executes(sql)
    for sql in (
        "commit",
        "COMMIT WORK",
        "commit and chain",
        "end",
        "rollback",
        "rollback and chain",
        "abort",
        "prepare transaction 'of a handler'",
        "-- done\n commit",
        "/* done */ rollback",
        "select 1; commit",
        "select 1; commit; begin",
        "select 1; commit and chain",
        "select 1; rollback",
        "select 1; rollback and chain",
        "begin; select 1; end",
    )
}
ENDS |= {
    "conn.commit()": lambda conn: conn.commit(),
    "conn.rollback()": lambda conn: conn.rollback(),
    "cursor": lambda conn: conn.cursor().execute("commit"),
    "bytes": lambda conn: conn.execute(b"rollback"),
    "composed": lambda conn: conn.execute(psycopg.sql.SQL("commit")),
}


@pytest.mark.parametrize("proven", [False, True], ids=["first delivery", "later one"])
def test_a_handler_that_ends_its_transaction_fails_alone(
    mq: mqpg.Client, effects: Callable[[], list[int]], proven: bool
) -> None:
    _end_alone(mq, effects, ENDS, {}, proven)


@pytest.mark.parametrize("mode", ["shared", "block_queue"])
def test_the_same_in_other_modes(mq: mqpg.Client, effects: Callable[[], list[int]], mode: str) -> None:
    ways = ("commit", "rollback", "select 1; commit", "select 1; rollback and chain")
    _end_alone(mq, effects, {way: ENDS[way] for way in ways}, MODES[mode], True)


WITH_SQLALCHEMY: dict[str, Callable[[Any], object]] = {
    "commit": lambda conn: conn.execute(text("commit")),
    "rollback": lambda conn: conn.execute(text("rollback")),
    "conn.commit()": lambda conn: conn.commit(),
    "conn.rollback()": lambda conn: conn.rollback(),
    "the driver's commit": lambda conn: conn.connection.commit(),
    "the driver's rollback": lambda conn: conn.connection.rollback(),
    "several": lambda conn: conn.exec_driver_sql("select 1; commit"),
    "several, again": lambda conn: conn.exec_driver_sql("select 1; commit and chain"),
    "several, undone": lambda conn: conn.exec_driver_sql("select 1; rollback"),
    "several, undone, again": lambda conn: conn.exec_driver_sql("select 1; rollback and chain"),
    "its savepoint": lambda conn: conn.get_nested_transaction().commit(),
    "its savepoint, undone": lambda conn: conn.get_nested_transaction().rollback(),
    # What SQLAlchemy takes for the end, although its driver does not end it.
    "its transaction": lambda conn: conn.get_transaction().commit(),
    "its transaction, undone": lambda conn: conn.get_transaction().rollback(),
    "its transaction, closed": lambda conn: conn.get_transaction().close(),
    "the driver's close": lambda conn: conn.connection.close(),
    "the driver's end": lambda conn: conn.connection.invalidate(),
    "error": lambda conn: sys.exit("not now"),
}


@pytest.mark.parametrize("own", [False, True], ids=["the broker's", "its own"])
def test_the_same_with_sqlalchemy(mq: mqpg.Client, effects: Callable[[], list[int]], own: bool) -> None:
    options = {"database": mq.dsn, "consumer": "one"} if own else {"sqlalchemy": True}
    _end_alone(mq, effects, WITH_SQLALCHEMY, options, True)


def does(sql: str) -> Callable[[Any], object]:
    return lambda conn: conn.execute(sql if isinstance(conn, psycopg.Connection) else text(sql))


FOREIGN_SAVEPOINTS = (
    "rollback to s",
    "ROLLBACK WORK TO SAVEPOINT S",
    'rollback /* all */ to "s"',
    "select 1; rollback to s",
    "rollback to savepoint _pg3_1",
    "rollback to _pg3_2",
    "release _pg3_1",
    "rollback to sa_savepoint_1",
)
OWN_SAVEPOINTS = ("rollback to mine", 'ROLLBACK TO "mine"', "select 1; rollback to savepoint mine")


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy", "own"])
def test_a_handler_cannot_undo_the_effects_of_others_but_its_own(
    mq: mqpg.Client, effects: Callable[[], list[int]], kind: str
) -> None:
    """The first message leaves a savepoint behind, and the third one goes back to it, or to the consumer's."""
    refused: list[int] = []
    for first, sql in zip(FIRSTS, FOREIGN_SAVEPOINTS + OWN_SAVEPOINTS, strict=False):
        refused += [first + 2] * (sql in FOREIGN_SAVEPOINTS)
        _undoes_nothing(mq, effects, sql, kind, first)
        assert letters(mq) == refused, sql


def _undoes_nothing(mq: mqpg.Client, effects: Callable[[], list[int]], sql: str, kind: str, first: int) -> None:
    def act(message: mqpg.Message, conn: Any) -> None:
        insert(message, conn)
        does("savepoint s" if message.payload == first else "savepoint mine")(conn)
        if message.payload == first + 2:
            does(sql)(conn)

    handle: Any = act
    if kind == "sqlalchemy":
        import sqlalchemy

        def handle(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
            act(message, conn)
    elif kind == "psycopg":

        def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
            act(message, conn)

    own: dict[str, Any] = {"database": mq.dsn, "consumer": "one"} if kind == "own" else {}
    consumer = mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0.05, **own)(handle)
    consumer.step(mq)
    if not own:
        prove(consumer)
    four = list(range(first, first + 4))
    sent_batch(mq, "orders", four)
    run(mq, consumer, lambda: sorted(letters(mq) + effects())[-4:] == four)
    consumer.close()


@pytest.mark.mariadb
@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        ("create table if not exists other (id int)", True),
        ("truncate table other", True),
        ("/* now */ ALTER TABLE other add column if not exists x int", True),
        ("lock tables other read", True),
        ("start transaction", True),
        ("set session autocommit = 1", True),
        ("analyze table other", True),
        ("create temporary table if not exists mine (id int)", False),
        ("update other set id = 1", False),
        ("set @alter = 1", False),
    ],
)
def test_statements_that_commit_in_mariadb(mq: mqpg.Client, mariadb_engine: Engine, sql: str, refused: bool) -> None:
    """The message whose handler sends one becomes a dead letter, and no effect of others is doubled."""

    @mqpg.consumer("orders", group="g", database=mariadb_engine, consumer="one", max_attempts=2, retry_delay=0.05)
    def handle(message: mqpg.Message, conn: Any) -> None:
        insert(message, conn)
        if message.payload == 3:
            conn.execute(text(sql))

    handle_four(mq, handle, mariadb_engine)
    assert letters(mq) == [3] * refused


@pytest.fixture
def mariadb_engine(mq: mqpg.Client, mariadb_url: str) -> Iterator[Engine]:
    mq.create_topic("orders", queues=1)
    engine = create_engine(mariadb_url)
    with engine.begin() as conn:
        for table in ("effect", "other", "lockable"):
            conn.execute(text(f"create table {table} (id int primary key) engine=innodb"))
        conn.execute(text("insert into lockable values (1), (2)"))
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_engine(mq: mqpg.Client, tmp_path: Path) -> Iterator[Engine]:
    mq.create_topic("orders", queues=1)
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.begin() as conn:
        for table in ("effect", "other"):
            conn.execute(text(f"create table {table} (id int)"))
    yield engine
    engine.dispose()


def own_effects(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return list(conn.execute(text("select id from effect order by id")).scalars())


def handle_four(mq: mqpg.Client, consumer: mqpg.Consumer, engine: Engine) -> None:
    """Let it handle the messages 1 to 4 until each has an effect or is a dead letter."""
    consumer.step(mq)
    sent_batch(mq, "orders", [1, 2, 3, 4])
    run(mq, consumer, lambda: {*letters(mq), *own_effects(engine)} == {1, 2, 3, 4})
    consumer.close()


@pytest.mark.mariadb
def test_a_handler_that_changes_to_another_database_of_mariadb(mq: mqpg.Client, mariadb_engine: Engine) -> None:
    """Neither a savepoint nor the end of the transaction undoes that."""

    @mqpg.consumer("orders", group="g", database=mariadb_engine, consumer="one", max_attempts=2, retry_delay=0.05)
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(text("insert into effect values (:id)"), {"id": message.payload})
        if message.payload == 2:
            conn.exec_driver_sql("use mysql")

    handle_four(mq, handle, mariadb_engine)
    assert (letters(mq), own_effects(mariadb_engine)) == ([2], [1, 3, 4])


def lose_a_deadlock(engine: Engine, conn: Any) -> None:
    """Raise the error of a deadlock, whose victim is the transaction on `conn`."""
    held = threading.Event()
    lock = text("select id from lockable where id = :id for update")

    def win() -> None:
        with engine.connect() as other:
            for number in range(100, 140):  # the larger transaction survives
                other.execute(text("insert into other values (:id)"), {"id": number})
            other.execute(lock, {"id": 2})
            held.set()
            other.execute(lock, {"id": 1})

    conn.execute(lock, {"id": 1})
    thread = threading.Thread(target=win)
    thread.start()
    try:
        assert held.wait(45)
        conn.execute(lock, {"id": 2})
    finally:
        thread.join(45)


@pytest.mark.mariadb
@pytest.mark.parametrize("way", ["deadlock", "wrapped", "swallowed", "procedure"])
def test_a_transaction_that_mariadb_ends_loses_no_effect(mq: mqpg.Client, mariadb_engine: Engine, way: str) -> None:
    """Its savepoints are gone, too, and what follows in the delivery would be another transaction."""
    engine = mariadb_engine
    with engine.begin() as conn:
        conn.exec_driver_sql("create procedure ends() begin truncate table other; end")
    calls: list[int] = []

    @mqpg.consumer("orders", group="g", database=engine, consumer="one", max_attempts=3, retry_delay=0.05, journal=True)
    def handle(message: mqpg.Message, conn: Any) -> None:
        calls.append(message.payload)
        if message.payload == 1:
            raise ValueError("never")
        if message.payload == 3 and 4 not in calls:
            end(conn)
        conn.execute(text("insert into effect values (:id)"), {"id": message.payload})

    def end(conn: Any) -> None:
        if way == "procedure":
            conn.exec_driver_sql("call ends()")
            return
        try:
            lose_a_deadlock(engine, conn)
        except DBAPIError as error:
            if way == "wrapped":
                raise ExceptionGroup("of a task", [KeyError(3), error]) from None
            if way == "deadlock":
                raise

    handle_four(mq, handle, engine)
    if way in ("deadlock", "wrapped"):
        assert (letters(mq), own_effects(engine)) == ([1], [2, 3, 4])
    else:  # it is not known whether the effects of 2 and 3 are committed
        assert {2, 3} <= set(letters(mq))
        assert own_effects(engine) == ([2, 4] if way == "procedure" else [4])


@pytest.mark.parametrize("way", ["rollback", "commit"])
def test_a_driver_of_sqlite_that_ends_the_transaction_and_begins_another(
    mq: mqpg.Client, sqlite_engine: Engine, way: str
) -> None:
    """No effect is doubled, no message is tried for ever, and one without an effect is a dead letter."""
    engine = sqlite_engine
    calls: list[int] = []

    @mqpg.consumer("orders", group="g", database=engine, consumer="one", max_attempts=2, retry_delay=0.05)
    def handle(message: mqpg.Message, conn: Any) -> None:
        calls.append(message.payload)
        insert(message, conn)
        if message.payload == 2:
            getattr(conn.connection.driver_connection, way)()
            conn.execute(text("insert into other values (2)"))

    handle_four(mq, handle, engine)
    assert own_effects(engine) == sorted({*own_effects(engine)})
    assert len(calls) < 12


def test_an_offset_that_cannot_be_written_is_not_passed_over(mq: mqpg.Client, sqlite_engine: Engine) -> None:
    """Its row is locked, so only the end of the transaction can take it away, or the handler."""

    @mqpg.consumer("orders", group="g", database=sqlite_engine, consumer="one")
    def handle(message: mqpg.Message, conn: Any) -> None:
        insert(message, conn)
        conn.execute(text("delete from mqpg_offsets"))

    handle.step(mq)
    sent(mq, "orders", 1)
    with pytest.raises(errors.DatabaseError, match="rolled back by the server"):
        handle.step(mq)
    assert own_effects(sqlite_engine) == []


def _end_alone(
    mq: mqpg.Client,
    effects: Callable[[], list[int]],
    ways: dict[str, Callable[[Any], object]],
    options: dict[str, Any],
    proven: bool,
) -> None:
    """Let a consumer handle four messages for each of the ways, in which its second one ends."""
    for first, (way, end) in zip(FIRSTS, ways.items(), strict=False):
        calls = _ends_alone(mq, first, end, dict(options), proven, effects)
        found = effects()
        assert [found.count(first + number) for number in (0, 2, 3)] == [1, 1, 1], way
        assert found.count(first + 1) <= 1, way
        assert len(calls) < 12, way
    assert letters(mq) == [first + 1 for first in FIRSTS[: len(ways)]]


def _ends_alone(
    mq: mqpg.Client,
    first: int,
    end: Callable[[Any], object],
    options: dict[str, Any],
    proven: bool,
    effects: Callable[[], list[int]],
) -> list[int]:
    calls: list[int] = []

    def act(message: mqpg.Message, conn: Any) -> None:
        calls.append(message.payload)
        insert(message, conn)
        if message.payload == first + 1:
            end(conn)

    if options.pop("sqlalchemy", False):
        import sqlalchemy

        def handle(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
            act(message, conn)
    else:

        def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:  # type: ignore[misc]
            act(message, conn)

    consumer = mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0.05, **options)(handle)
    consumer.step(mq)
    if proven and "database" not in options:
        prove(consumer)
    mq.send_batch("orders", list(range(first, first + 4)))
    run(mq, consumer, lambda: first + 1 in letters(mq) and {first, first + 2, first + 3} <= set(effects()))
    consumer.close()
    return calls


class Cancelled(asyncio.CancelledError):
    """What an inner task that was cancelled leaves."""


class Broken(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Unspeakable(Exception):
    """An exception that ends the process of whoever makes its text."""

    def __str__(self) -> str:
        raise SystemExit


class Opaque(Exception):
    """An exception whose attributes cannot be made."""

    @property
    def sqlstate(self) -> str:
        raise ValueError("no state")

    orig = sqlstate


def raises(error: type[BaseException]) -> Callable[[Any], object]:
    def act(conn: Any) -> None:
        raise error

    return act


def _have_used_up_an_attempt(
    mq: mqpg.Client,
    effects: Callable[[], list[int]],
    ways: dict[str, Callable[[Any], object]],
    mode: str,
    proven: bool,
) -> None:
    """Let a consumer handle three messages for each of the ways, in which its second one ends without an effect."""
    for first, act in zip(FIRSTS, ways.values(), strict=False):

        @mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0.05, lease=1, **MODES[mode])
        def handle(
            message: mqpg.Message, conn: psycopg.Connection[Any], second: int = first + 1, act: Any = act
        ) -> None:
            insert(message, conn)
            if message.payload == second:
                act(conn)

        handle.step(mq)
        if proven:
            prove(handle)
        mq.send_batch("orders", [first, first + 1, first + 2])
        buried = list(range(2, first + 2, FIRSTS.step))
        handled = [number for second in buried for number in (second - 1, second + 1)]
        run(mq, handle, lambda done=(buried, handled): (letters(mq), effects()) == done)  # type: ignore[misc]


@pytest.mark.parametrize("proven", [False, True], ids=["first delivery", "later one"])
@pytest.mark.parametrize("mode", MODES)
def test_whatever_a_handler_raises_counts(
    mq: mqpg.Client, effects: Callable[[], list[int]], mode: str, proven: bool
) -> None:
    errors = (SystemExit, Cancelled, GeneratorExit, KeyboardInterrupt, Broken, Unspeakable, Opaque)
    _have_used_up_an_attempt(mq, effects, {error.__name__: raises(error) for error in errors}, mode, proven)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.SerializationFailure("of another database"),
        psycopg.errors.DiskFull("of another database"),
        sqlite3.OperationalError("database is locked"),
        errors.SerializationFailure("of another database"),
        Opaque(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_another_database_are_the_handlers(mq: mqpg.Client, tmp_path: Path, error: Exception) -> None:
    mq.create_topic("orders", queues=1)
    url, done = f"sqlite:///{tmp_path / 'own.db'}", []

    @mqpg.consumer("orders", group="g", database=url, consumer="one", max_attempts=2, retry_delay=0.05)
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(text("select 1"))
        if message.payload == 2:
            raise error
        done.append(message.payload)

    handle.step(mq)
    mq.send_batch("orders", [2, 3])
    run(mq, handle, lambda: letters(mq) == [2] and done == [3])
    handle.close()


def test_a_savepoint_that_is_gone_in_another_database_is_the_handlers(
    mq: mqpg.Client, effects: Callable[[], list[int]], tmp_path: Path
) -> None:
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")

    @mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0.05)
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        insert(message, conn)
        if message.payload == 2 and message.attempt == 1:
            with other.connect() as of_other, of_other.begin_nested():
                of_other.connection.driver_connection.rollback()  # type: ignore[union-attr]

    handle.step(mq)
    mq.send_batch("orders", [1, 2, 3])
    run(mq, handle, lambda: {*letters(mq), *effects()} == {1, 2, 3})
    assert (letters(mq), effects()) == ([], [1, 2, 3])
    other.dispose()


@pytest.mark.parametrize("mode", MODES)
def test_a_handler_whose_session_is_gone_has_used_up_an_attempt(
    mq: mqpg.Client, effects: Callable[[], list[int]], mode: str
) -> None:
    ways: dict[str, Callable[[Any], object]] = {
        "closed": lambda conn: conn.close(),
        "ended": lambda conn: conn.execute("select pg_terminate_backend(pg_backend_pid())"),
        "role": lambda conn: conn.execute("set local role pg_monitor"),
        "idle": lambda conn: (
            conn.execute("set local idle_in_transaction_session_timeout = 100"),
            select.select([conn.fileno()], [], [], 45),  # until the server says that it ended the session
        ),
    }
    _have_used_up_an_attempt(mq, effects, ways, mode, True)


def main(dsn: str, calls: str, options: str) -> None:
    """A consumer process that message 2 kills."""
    given: dict[str, Any] = MODES[options]

    @mqpg.consumer("orders", group="g", max_attempts=3, retry_delay=0.05, lease=1, **given)
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        with Path(calls).open("a") as file:
            file.write(f"{message.payload} {message.attempt}\n")
        insert(message, conn)
        if message.payload == 2:
            os.kill(os.getpid(), 9)

    with mqpg.connect(dsn) as mq:
        while True:
            mq.append()
            handle.step(mq)


@pytest.mark.chaos
@pytest.mark.parametrize("mode", MODES)
def test_a_message_that_kills_its_process_is_buried(
    mq: mqpg.Client, dsn: str, effects: Callable[[], list[int]], tmp_path: Path, mode: str
) -> None:
    calls = tmp_path / "calls"
    calls.touch()
    subscription = {"on_failure": "skip"} | MODES[mode]
    mq.subscribe("g", "orders", subscription.pop("mode", "exclusive"), max_attempts=3, retry_delay=0.05, **subscription)
    sent_batch(mq, "orders", [1, 2, 3])
    for _ in range(3):
        killed("tests.integration.test_handler_ends", dsn, str(calls), mode)

    @mqpg.consumer("orders", group="g", lease=1, **MODES[mode])
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        insert(message, conn)

    run(mq, handle, lambda: letters(mq) == [2] and effects() == [1, 3])
    assert [line for line in calls.read_text().splitlines() if line.startswith("2")] == ["2 1", "2 2", "2 3"]
