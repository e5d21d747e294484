"""T4 over another queue: protocols.Inbox, whose PREPARE, COMMIT and ROLLBACK come again in any order."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row, scalar_row
from sqlalchemy import Engine, create_engine, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from mqpg import Json, errors
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.protocols import AsyncInbox, Inbox
from mqpg.user_tables.tables import prepared
from tests.support.business import business, rows

Begin = Callable[[], AbstractContextManager[Any]]


def rows_of(engine: Engine) -> list[tuple[str, str]]:
    with engine.connect() as conn:
        found = conn.execute(text("select handle, payload from mqpg_prepared order by handle"))
        return [(row[0], row[1]) for row in found]


@pytest.fixture
def inbox(engine: Engine) -> Iterator[Inbox]:
    with Inbox(engine, name="billing") as inbox:
        inbox.create_inbox()
        yield inbox


@pytest.fixture(params=["connection", "session", "psycopg"])
def begin(request: pytest.FixtureRequest, local_url: str, engine: Engine) -> Begin:
    """A transaction of the consumer, on each kind of connection."""
    if request.param == "connection":
        return engine.begin
    if request.param == "session":

        @contextmanager
        def session() -> Iterator[Session]:
            with Session(engine) as one, one.begin():
                yield one

        return session
    if engine.dialect.name == "sqlite":
        return engine.begin  # psycopg has no SQLite
    return lambda: psycopg.connect(local_url.replace("+psycopg", ""))


def deliver(inbox: Inbox, begin: Begin, phase: str, id: str = "a", body: Any = 1) -> Any:
    """What a consumer does with one message; it returns the body that took effect, or None."""
    with begin() as conn:
        if phase == "prepare":
            inbox.prepare(conn, id, body)
        elif phase == "rollback":
            inbox.rollback(conn, id)
        elif (found := inbox.commit(conn, id)) is not None:
            statement = f"insert into business (id) values ({int(found)})"
            conn.execute(statement if isinstance(conn, psycopg.Connection) else text(statement))
            return found
    return None


def test_one_effect(inbox: Inbox, begin: Begin, engine: Engine) -> None:
    deliver(inbox, begin, "prepare", "a", 1)
    deliver(inbox, begin, "prepare", "b", 2)
    assert business(engine) == []
    assert deliver(inbox, begin, "commit", "a") == 1
    deliver(inbox, begin, "rollback", "b")
    assert deliver(inbox, begin, "commit", "b") is None
    assert business(engine) == [1]


def test_the_last_prepare_counts(inbox: Inbox, begin: Begin, engine: Engine) -> None:
    deliver(inbox, begin, "prepare", body=1)
    deliver(inbox, begin, "prepare", body=2)
    assert deliver(inbox, begin, "commit") == 2
    assert deliver(inbox, begin, "commit") is None
    assert business(engine) == [2]


def test_a_commit_without_a_prepare_is_ignored(inbox: Inbox, begin: Begin, engine: Engine) -> None:
    """It leaves nothing, so the phases may come again in their order."""
    assert deliver(inbox, begin, "commit") is None
    assert rows(engine, "mqpg_prepared") == 0
    deliver(inbox, begin, "prepare")
    assert deliver(inbox, begin, "commit") == 1


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_a_decided_message_that_comes_again_is_dropped(
    inbox: Inbox, begin: Begin, engine: Engine, decision: str
) -> None:
    """Both phases were handled, and the queue lost both acknowledgements."""
    for _ in range(3):
        deliver(inbox, begin, "prepare")
        deliver(inbox, begin, decision)
        deliver(inbox, begin, "commit")
    assert business(engine) == ([1] if decision == "commit" else [])
    assert rows_of(engine) == [("a", "")]


def test_a_prepare_behind_its_rollback_is_dropped(inbox: Inbox, begin: Begin, engine: Engine) -> None:
    deliver(inbox, begin, "rollback")
    deliver(inbox, begin, "prepare")
    assert deliver(inbox, begin, "commit") is None
    assert rows_of(engine) == [("a", "")]


def test_every_order_of_redeliveries(sqlite: Engine) -> None:
    """At most one effect in any order; exactly one if a COMMIT is behind a PREPARE and no ROLLBACK is before it."""
    _every_order(sqlite)


@pytest.mark.mariadb
def test_every_order_of_redeliveries_in_mariadb(mariadb_url: str) -> None:
    engine = create_engine(mariadb_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id int primary key)"))
    _every_order(engine)
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn,
        pytest.raises(errors.InvalidArgument, match="autocommit"),
    ):
        Inbox(engine, name="billing").commit(conn, "id-0")
    engine.dispose()


def _every_order(engine: Engine) -> None:
    phases = ("prepare", "commit", "rollback")
    with Inbox(engine, name="billing") as inbox:
        inbox.create_inbox()
        for number, story in enumerate(itertools.product(phases, repeat=4)):
            effects = [deliver(inbox, engine.begin, phase, f"id-{number}", number) for phase in story]
            assert effects.count(number) == _expected(story), story
        assert business(engine) == [
            n for n, story in enumerate(itertools.product(phases, repeat=4)) if _expected(story)
        ]
        with engine.begin() as conn:
            assert inbox.forget(conn) == 0


def _expected(story: tuple[str, ...]) -> int:
    prepared = False
    for phase in story:
        if phase == "rollback":
            return 0
        if phase == "commit" and prepared:
            return 1
        prepared = prepared or phase == "prepare"
    return 0


def test_an_effect_that_fails_leaves_its_prepare(inbox: Inbox, begin: Begin, engine: Engine) -> None:
    deliver(inbox, begin, "prepare", "a", 1)
    deliver(inbox, begin, "prepare", "b", 1)
    deliver(inbox, begin, "commit", "a")
    with pytest.raises((IntegrityError, psycopg.IntegrityError)):
        deliver(inbox, begin, "commit", "b")
    with engine.begin() as conn:
        conn.execute(text("delete from business"))
    assert deliver(inbox, begin, "commit", "b") == 1


def test_two_inboxes_of_one_database_are_apart(engine: Engine) -> None:
    for name in ("billing", "shipping"):
        with Inbox(engine, name=name) as inbox:
            inbox.create_inbox()
            deliver(inbox, engine.begin, "prepare")
            with engine.begin() as conn:
                assert inbox.commit(conn, "a") == 1


def test_a_redelivery_while_the_first_delivery_is_still_open(inbox: Inbox, local_url: str, engine: Engine) -> None:
    """The queue's connection was lost, but not the transaction: another consumer gets the same COMMIT."""
    deliver(inbox, engine.begin, "prepare")
    found: list[Any] = []

    def second() -> None:
        other = create_engine(local_url)
        try:
            found.append(deliver(inbox, other.begin, "commit"))
        except Exception as error:
            found.append(error)  # SQLite: it waits for a while, and then its queue has the message again
        other.dispose()

    with engine.begin() as conn:
        assert inbox.commit(conn, "a") == 1
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.3)
    thread.join()
    assert found == [None] or "locked" in str(found)
    assert deliver(inbox, engine.begin, "commit") is None


def test_what_was_decided_is_forgotten_in_time(inbox: Inbox, engine: Engine) -> None:
    for id in ("old", "new", "open"):
        deliver(inbox, engine.begin, "prepare", id, 1)
    deliver(inbox, engine.begin, "rollback", "old")
    deliver(inbox, engine.begin, "rollback", "new")
    with engine.begin() as conn:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        conn.execute(update(prepared).where(prepared.c.handle != "new").values(prepared_at=long_ago))
    with engine.begin() as conn:
        assert inbox.forget(conn) == 1
        assert inbox.forget(conn) == 0
    assert [row[0] for row in rows_of(engine)] == ["new", "open"]
    inbox._forget_at = 0.0
    inbox._remember = timedelta(0)
    deliver(inbox, engine.begin, "rollback", "open")
    assert rows_of(engine) == []


def test_a_connection_in_autocommit_mode_is_refused(inbox: Inbox, local_url: str, engine: Engine) -> None:
    """There the id would be taken out although the effect may fail."""
    deliver(inbox, engine.begin, "prepare")
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn,
        pytest.raises(errors.InvalidArgument, match="autocommit"),
    ):
        inbox.commit(conn, "a")
    if engine.dialect.name == "postgresql":
        with psycopg.connect(local_url.replace("+psycopg", ""), autocommit=True) as plain:
            with pytest.raises(errors.InvalidArgument, match="autocommit"):
                inbox.commit(plain, "a")
            with plain.transaction():
                assert inbox.commit(plain, "a") == 1
    else:
        assert deliver(inbox, engine.begin, "commit") == 1


def test_bodies(inbox: Inbox, begin: Begin) -> None:
    bodies = [{"id": 1, "name": "Zoë"}, ["\0", None], "", 0, False, Json('{"a":1}')]
    for number, body in enumerate(bodies):
        with begin() as conn:
            inbox.prepare(conn, f"b{number}", body)
            assert inbox.commit(conn, f"b{number}") == ({"a": 1} if isinstance(body, Json) else body)


@pytest.mark.parametrize("factory", [dict_row, scalar_row, namedtuple_row])
def test_bodies_on_connections_with_a_row_factory(new_database: Callable[..., str], factory: Any) -> None:
    dsn = new_database(empty=True)
    with Inbox(to_sqlalchemy(dsn), name="billing") as inbox, psycopg.connect(dsn, row_factory=factory) as conn:
        inbox.create_inbox()
        inbox.prepare(conn, "a", 47)
        assert inbox.commit(conn, "a") == 47


def test_bad_arguments(inbox: Inbox, engine: Engine) -> None:
    with engine.begin() as conn:
        for id in ("", "x" * 201, "\u00e9", "\0", "a ", " ", None, 7):
            with pytest.raises(errors.InvalidArgument, match="id must"):
                inbox.commit(conn, id)  # type: ignore[arg-type]
        for body in (None, Json("null"), b"bytes", object()):
            with pytest.raises(errors.InvalidArgument, match="body must"):
                inbox.prepare(conn, "a", body)
    for wrong in (None, engine, "url"):
        with pytest.raises(errors.InvalidArgument, match="conn must"):
            inbox.commit(wrong, "a")  # type: ignore[arg-type]
    for name in ("", "billing "):
        with pytest.raises(errors.InvalidName):
            Inbox(engine, name=name)


async def test_async(sqlite: Engine) -> None:
    url = str(sqlite.url).replace("sqlite://", "sqlite+aiosqlite://")
    engine = create_async_engine(url)
    async with AsyncInbox(url, name="billing") as inbox:
        await inbox.create_inbox()
        for _ in range(2):
            async with engine.begin() as conn:
                await inbox.prepare(conn, "a", {"id": 1})
                await inbox.prepare(conn, "b", {"id": 2})
        for expected in ({"id": 1}, None):
            async with engine.begin() as conn:
                assert await inbox.commit(conn, "a") == expected
                await inbox.rollback(conn, "b")
                assert await inbox.commit(conn, "b") is None
                assert await inbox.forget(conn) == 0
    await engine.dispose()


async def test_async_psycopg(business_database: str) -> None:
    async with (
        AsyncInbox(business_database, name="asynchronous") as inbox,
        await psycopg.AsyncConnection.connect(business_database) as conn,
    ):
        await inbox.create_inbox()
        await inbox.prepare(conn, "a", 1)
        assert [await inbox.commit(conn, "a") for _ in range(2)] == [1, None]
