"""Members whose database is a copy of another member's (C2) do not repeat what that one has done since."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, make_url, text

import mqpg
from mqpg import errors
from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.support.member import GROUP, TOPIC, die_as_member, due, effects, member, send, subscribe, work

pytestmark = pytest.mark.shared_database

Copy = Callable[[], Engine]


@pytest.fixture(params=["sqlite", "postgresql"])
def original(
    request: pytest.FixtureRequest, server: Server, databases: Databases, tmp_path: Path
) -> Iterator[tuple[Engine, Copy]]:
    """The database of member a, and how to copy it."""
    opened: list[Engine] = []

    def open_postgresql(name: str) -> Engine:
        opened.append(create_engine(server.dsn(name).replace("postgresql://", "postgresql+psycopg://", 1)))
        return opened[-1]

    def open_sqlite(path: Path) -> Engine:
        opened.append(create_engine(f"sqlite:///{path}"))
        return opened[-1]

    def copy() -> Engine:
        opened[0].dispose()
        if request.param == "postgresql":
            return open_postgresql(databases.copy(str(opened[0].url.database)))
        shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
        return open_sqlite(tmp_path / "copy.db")

    first = open_postgresql(databases.create()) if request.param == "postgresql" else open_sqlite(tmp_path / "a.db")
    with first.begin() as conn:
        conn.execute(text("create table effect (id int)"))
    yield first, copy
    for engine in opened:
        engine.dispose()
        if request.param == "postgresql":
            databases.drop(str(make_url(engine.url).database))


def set_offset(engine: Engine, next_offset: int) -> None:
    with engine.begin() as conn:
        conn.execute(text(f"update mqpg_offsets set next_offset = {next_offset}, last_message_id = null"))


def refused(mq: mqpg.Client, consumer: mqpg.Consumer, first: int, end: int) -> None:
    """It raises each time, and names both ways out."""
    for _ in range(2):
        with pytest.raises(errors.WrongState) as raised:
            consumer.step(mq)
        said = str(raised.value)
        assert f"offsets {first} to {end - 1} of queue 0 of topic {TOPIC} were finished by consumer a" in said
        assert f"set next_offset and first_offset of mqpg_offsets to {end}" in said
        assert "let a consumer named a" in said


def begun(mq: mqpg.Client, engine: Engine, fails: int = 0, **subscription: Any) -> mqpg.Consumer:
    """Member a of a subscription, with message 1 applied."""
    subscribe(mq, queues=1, **subscription)
    a = member(engine, "a", fails=fails)
    send(mq, [1])
    assert a.step(mq) == 1
    return a


@pytest.mark.parametrize("last", ["a", "b"])
def test_a_copy_does_not_repeat_what_the_original_did(
    mq: mqpg.Client, original: tuple[Engine, Copy], last: str
) -> None:
    engine, copy = original
    a = begun(mq, engine)
    copied = copy()
    for number in (2, 3):
        send(mq, [number])
        assert a.step(mq) == 1
    mq.unpin(GROUP, TOPIC)
    send(mq, [4])
    b = member(copied, "b", fails=0)
    refused(mq, b, 1, 3)
    assert (effects(engine), effects(copied)) == ([1, 2, 3], [1])
    if last == "b":
        set_offset(copied, 3)
    else:
        mq.unpin(GROUP, TOPIC)
    work(mq, [a if last == "a" else b], lambda: 4 in effects(engine) + effects(copied))
    assert (effects(engine), effects(copied)) == (([1, 2, 3, 4], [1]) if last == "a" else ([1, 2, 3], [1, 4]))


def test_a_database_restored_under_a_new_name_goes_on_under_the_old_one(
    mq: mqpg.Client, original: tuple[Engine, Copy]
) -> None:
    """It looks like a copy that is used beside the original."""
    engine, copy = original
    a = begun(mq, engine)
    restored = copy()
    send(mq, [2, 3])
    assert a.step(mq) == 2
    mq.unpin(GROUP, TOPIC)
    send(mq, [4])
    refused(mq, member(restored, "a2", fails=0), 1, 3)
    mq.unpin(GROUP, TOPIC)
    work(mq, [member(restored, "a", fails=0)], lambda: effects(restored) == [1, 2, 3, 4])
    send(mq, [5])
    mq.unpin(GROUP, TOPIC)
    work(mq, [member(restored, "a2", fails=0)], lambda: effects(restored) == [1, 2, 3, 4, 5])


def test_a_copy_does_not_repeat_a_letter_that_the_original_applied(
    mq: mqpg.Client, original: tuple[Engine, Copy]
) -> None:
    engine, copy = original
    a = begun(mq, engine, fails=2, max_attempts=2)
    copied = copy()
    send(mq, [5])
    work(mq, [a], lambda: bool(list(mq.dead_letters(GROUP, TOPIC))))
    assert mq.redrive(GROUP, TOPIC) == 1
    work(mq, [member(engine, "a", fails=0)], lambda: effects(engine) == [1, 5])
    mq.unpin(GROUP, TOPIC)
    send(mq, [6])
    refused(mq, member(copied, "b", fails=0), 1, 2)
    assert effects(copied) == [1]


def test_a_copy_that_was_made_behind_a_deferred_message(mq: mqpg.Client, original: tuple[Engine, Copy]) -> None:
    """Both have its row, and the original has applied it since."""
    subscribe(mq, queues=1)
    engine, copy = original
    send(mq, [5, 6])
    a = member(engine, "a", fails=1)
    assert a.step(mq) == 2
    copied = copy()
    due(mq)
    assert a.step(mq) == 1
    mq.unpin(GROUP, TOPIC)
    send(mq, [7])
    work(mq, [member(copied, "b", fails=0)], lambda: 7 in effects(copied))
    assert (effects(engine), effects(copied)) == ([5, 6], [6, 7])


def test_a_message_that_killed_the_former_name_is_a_dead_letter(mq: mqpg.Client, original: tuple[Engine, Copy]) -> None:
    """The broker passed it while the queue was the former name's, and nobody has applied it."""
    engine, _ = original
    begun(mq, engine, max_attempts=2)
    send(mq, [2])
    for _ in range(2):
        assert mq.receive(GROUP, TOPIC, 1, consumer="a")  # dies with it
    assert mq.receive(GROUP, TOPIC, 1, consumer="a") == []
    mq.unpin(GROUP, TOPIC)
    send(mq, [3])
    renamed = member(engine, "a2", fails=0)
    work(mq, [renamed], lambda: effects(engine) == [1, 3])
    assert mq.redrive(GROUP, TOPIC) == 1
    work(mq, [renamed], lambda: effects(engine) == [1, 2, 3])


def test_a_copy_does_not_repeat_a_commit_whose_prepare_both_have(
    mq: mqpg.Client, original: tuple[Engine, Copy]
) -> None:
    subscribe(mq, kind="relay", queues=1)
    engine, copy = original
    a = member(engine, "a", fails=0)
    handle = mq.prepare(TOPIC, {"id": 1}, "shop")
    mq.append()
    assert a.step(mq) == 1
    copied = copy()
    mq.commit(handle)
    work(mq, [a], lambda: effects(engine) == [1])
    mq.unpin(GROUP, TOPIC)
    mq.commit(mq.prepare(TOPIC, {"id": 2}, "shop"))
    mq.append()
    refused(mq, member(copied, "b", fails=0), 1, 2)
    assert (effects(engine), effects(copied)) == ([1], [])


def test_the_original_does_not_repeat_what_a_copy_did(mq: mqpg.Client, original: tuple[Engine, Copy]) -> None:
    subscribe(mq, kind="relay", queues=1)
    engine, copy = original
    a = member(engine, "a", fails=0)
    handle = mq.prepare(TOPIC, {"id": 1}, "shop")
    mq.append()
    assert a.step(mq) == 1
    b = member(copy(), "b", fails=0)
    mq.unpin(GROUP, TOPIC)
    mq.commit(handle)
    mq.append()
    assert b.step(mq) == 1
    mq.unpin(GROUP, TOPIC)
    mq.commit(mq.prepare(TOPIC, {"id": 2}, "shop"))
    mq.append()
    with pytest.raises(errors.WrongState, match="finished by consumer b"):
        a.step(mq)
    assert effects(engine) == []


@pytest.mark.parametrize("step", ["Client.receive", "OwnDatabase._commit"])
def test_another_database_does_not_apply_a_retry_that_its_owner_may_have_applied(
    mq: mqpg.Client, dsn: str, tmp_path: Path, step: str
) -> None:
    subscribe(mq, queues=1)
    engines = [create_engine(f"sqlite:///{tmp_path / name}.db") for name in "ab"]
    for engine in engines:
        with engine.begin() as conn:
            conn.execute(text("create table effect (id int)"))
    a, b = (member(engine, name, fails=1) for engine, name in zip(engines, "ab", strict=True))
    send(mq, [1])
    assert a.step(mq) == 1
    mq.unpin(GROUP, TOPIC)
    send(mq, [5])
    assert b.step(mq) == 1
    due(mq)
    die_as_member(dsn, str(engines[1].url), "b", "after", step)
    mq.unpin(GROUP, TOPIC)
    send(mq, [6])
    with pytest.raises(errors.WrongState, match="finished by consumer b"):
        work(mq, [member(engines[0], "a", fails=0)], lambda: False)
    assert 5 not in effects(engines[0])
    for engine in engines:
        engine.dispose()
