"""Members of one group that keep offsets in databases of their own (C2): retries follow the owner of the queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

import mqpg
from mqpg import errors
from mqpg.values.choices import TopicKind
from tests.support.forking import run_mqpg
from tests.support.member import GROUP, TOPIC, die_as_member, due, effects, member, send, subscribe, work

pytestmark = pytest.mark.shared_database

NAMES = ("one", "two", "three", "four")
IDS = range(40)


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, new_database: Callable[..., str], tmp_path: Path) -> dict[str, str]:
    """A database for each member."""
    if request.param == "sqlite":
        return {name: f"sqlite:///{tmp_path / name}.db" for name in NAMES}
    return {name: new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1) for name in NAMES}


@pytest.fixture
def engines(urls: dict[str, str]) -> Iterator[dict[str, Engine]]:
    found = {name: create_engine(url) for name, url in urls.items()}
    for engine in found.values():
        with engine.begin() as conn:
            conn.execute(text("create table effect (id int)"))
    yield found
    for engine in found.values():
        engine.dispose()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    """Two SQLite databases, for what does not depend on the kind."""
    made = [create_engine(f"sqlite:///{tmp_path / name}.db") for name in ("a", "b")]
    for engine in made:
        with engine.begin() as conn:
            conn.execute(text("create table effect (id int)"))
    yield made[0], made[1]
    for engine in made:
        engine.dispose()


def all_effects(engines: dict[str, Engine]) -> list[int]:
    return sorted(number for engine in engines.values() for number in effects(engine))


def owners(mq: mqpg.Client) -> dict[int, str]:
    with mq.transaction() as conn:
        query = "select queue_id, owner from mqpg.subscription_lag where consumer_group = %s and queue_id >= 0"
        return dict(conn.execute(query.encode(), [GROUP]).fetchall())


def audit(dsn: str) -> None:
    done = run_mqpg("audit", "--engine", "sql", "--dsn", dsn, "--topic", TOPIC)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["normal", "relay"])
@pytest.mark.parametrize("count", [2, 4])
def test_a_message_that_fails_for_a_while_is_applied_once(
    mq: mqpg.Client, dsn: str, engines: dict[str, Engine], count: int, kind: TopicKind
) -> None:
    subscribe(mq, kind=kind)
    members = [member(engines[name], name) for name in NAMES[:count]]
    send(mq, IDS, kind=kind)
    work(mq, members, lambda: all_effects(engines) == list(IDS))
    assert all(effects(engines[name]) for name in NAMES[:count])
    assert not list(mq.dead_letters(GROUP, TOPIC))
    assert set(owners(mq).values()) == set(NAMES[:count])
    audit(dsn)


@pytest.mark.parametrize("on_failure", ["skip", "block_queue"])
def test_dead_letters_are_redriven_to_the_database_that_has_them(
    mq: mqpg.Client, dsn: str, engines: dict[str, Engine], on_failure: str
) -> None:
    subscribe(mq, max_attempts=2, on_failure=on_failure)
    members = [member(engines[name], name, fails=9) for name in NAMES[:2]]
    send(mq, IDS)
    fifths = [number for number in IDS if number % 5 == 0]
    work(mq, members, lambda: len(list(mq.dead_letters(GROUP, TOPIC))) == len(fifths))
    assert all_effects(engines) == sorted(set(IDS) - set(fifths))
    assert mq.discard_dead_letters(GROUP, TOPIC, filter="$.id == 5") == 1
    assert mq.redrive(GROUP, TOPIC) == len(fifths) - 1
    work(mq, [member(engines[name], name, fails=1) for name in NAMES[:2]],
         lambda: len(all_effects(engines)) == len(IDS) - 1)  # fmt: skip
    assert all_effects(engines) == [number for number in IDS if number != 5]
    assert not list(mq.dead_letters(GROUP, TOPIC))
    audit(dsn)


STEPS = [
    ("Client.receive", "after"),
    ("Offsets.begin", "after"),
    ("Offsets.defer", "after"),
    ("Offsets.move", "after"),
    ("OwnDatabase._commit", "after"),
    ("Client.nack_delivery", "before"),
    ("Client.nack_delivery", "after"),
    ("Client.ack_delivery", "before"),
    ("Client.ack_delivery", "after"),
    ("Offsets.mark_applied", "before"),
    ("Offsets.mark_applied", "after"),
    ("OwnDatabase._apply_retries", "after"),
]


@pytest.mark.parametrize(("kind", "step", "when"), [
    *(("normal", step, when) for step, when in STEPS),
    *(("relay", step, when) for step, when in (*STEPS[2:5], *STEPS[-2:])),
    ("relay", "PreparedMessages.store", "after"), ("relay", "PreparedMessages.take", "after"),
])  # fmt: skip
def test_a_member_that_dies_at_a_step_comes_back_and_finishes(
    mq: mqpg.Client, dsn: str, tmp_path: Path, two: tuple[Engine, Engine], kind: TopicKind, step: str, when: str
) -> None:
    subscribe(mq, kind=kind, max_attempts=6)
    one = member(two[0], "one")
    send(mq, IDS, kind=kind)
    one.step(mq)
    die_as_member(dsn, f"sqlite:///{tmp_path / 'b'}.db", "two", when, step)
    for _ in range(20):  # the one that is alive gets nothing that is the other's
        mq.append()
        one.step(mq)
    work(mq, [one, member(two[1], "two")], lambda: sorted(effects(two[0]) + effects(two[1])) == list(IDS))
    assert effects(two[1])
    assert not list(mq.dead_letters(GROUP, TOPIC))
    audit(dsn)


def half_done(mq: mqpg.Client, two: tuple[Engine, Engine], **options: Any) -> list[mqpg.Consumer]:
    """Queue 0 of two is b's, which has deferred message 0 and applied 1 and 2."""
    given: dict[str, Any] = {"retry_delay": "20 ms"} | options
    subscribe(mq, queues=1, **given)
    send(mq, range(3))
    a, b = member(two[0], "a", fails=1), member(two[1], "b", fails=1)
    assert b.step(mq) == 3
    assert effects(two[1]) == [1, 2]
    return [a, b]


def test_a_new_name_with_the_same_database_goes_on(mq: mqpg.Client, two: tuple[Engine, Engine]) -> None:
    a, _ = half_done(mq, two)
    due(mq)
    assert a.step(mq) == 0
    mq.unpin(GROUP, TOPIC, consumer="b")
    renamed = member(two[1], "b2", fails=1)
    work(mq, [renamed], lambda: effects(two[1]) == [0, 1, 2])
    send(mq, [6, 7])
    work(mq, [a, renamed], lambda: effects(two[1]) == [0, 1, 2, 6, 7])
    assert effects(two[0]) == []


def test_another_database_does_not_guess_and_the_letter_goes_back(mq: mqpg.Client, two: tuple[Engine, Engine]) -> None:
    a, b = half_done(mq, two)
    mq.unpin(GROUP, TOPIC)
    send(mq, [6])
    assert a.step(mq) == 1
    due(mq)
    work(mq, [a, b], lambda: bool(list(mq.dead_letters(GROUP, TOPIC))))
    assert "never deferred by this database" in str(mq.dead_letters(GROUP, TOPIC)[0].reason)
    assert (effects(two[0]), effects(two[1])) == ([6], [1, 2])
    mq.unpin(GROUP, TOPIC, consumer="a")
    assert mq.redrive(GROUP, TOPIC) == 1
    work(mq, [member(two[1], "b", fails=0), a], lambda: effects(two[1]) == [0, 1, 2])
    assert effects(two[0]) == [6]


def test_a_database_that_gets_its_queue_back_does_not_repeat_the_other_one(
    mq: mqpg.Client, two: tuple[Engine, Engine]
) -> None:
    subscribe(mq, queues=1)
    a, b = (member(engine, name, fails=0) for engine, name in zip(two, "ab", strict=True))
    for consumer, numbers in ((a, [1, 2]), (b, [3, 4])):
        send(mq, numbers)
        assert consumer.step(mq) == 2
        mq.unpin(GROUP, TOPIC)
    send(mq, [6])
    for _ in range(3):
        with pytest.raises(errors.WrongState, match=r"offsets 2 to 3 of queue 0 .* finished by consumer b"):
            a.step(mq)
    assert (effects(two[0]), effects(two[1])) == ([1, 2], [3, 4])
    with two[0].begin() as conn:
        conn.execute(text("update mqpg_offsets set next_offset = 4, last_message_id = null"))
    work(mq, [a, b], lambda: effects(two[0]) == [1, 2, 6])
    assert effects(two[1]) == [3, 4]


def test_a_restored_database_applies_again_what_it_had_finished(mq: mqpg.Client, two: tuple[Engine, Engine]) -> None:
    subscribe(mq, queues=1)
    a = member(two[0], "a", fails=0)
    for number in (1, 2, 3):
        send(mq, [number])
        a.step(mq)
    with two[0].begin() as conn:
        conn.execute(text("delete from effect where id > 1"))
        conn.execute(text("delete from mqpg_applied where queue_offset > 0"))
        conn.execute(text("update mqpg_offsets set next_offset = 1, last_message_id = null"))
    mq.unpin(GROUP, TOPIC)
    send(mq, [4])
    work(mq, [member(two[0], "a", fails=0)], lambda: effects(two[0]) == [1, 2, 3, 4])


def test_a_restored_database_leaves_out_what_was_discarded(mq: mqpg.Client, two: tuple[Engine, Engine]) -> None:
    subscribe(mq, queues=1, max_attempts=1)
    a = member(two[0], "a", fails=9)
    for number in (1, 5, 3):  # 5 fails
        send(mq, [number])
        a.step(mq)
    assert mq.discard_dead_letters(GROUP, TOPIC) == 1
    with two[0].begin() as conn:
        conn.execute(text("delete from effect where id > 1"))
        conn.execute(text("delete from mqpg_applied where queue_offset > 0"))
        conn.execute(text("delete from mqpg_inbox"))
        conn.execute(text("update mqpg_offsets set next_offset = 1, last_message_id = null"))
    mq.unpin(GROUP, TOPIC)
    send(mq, [4])
    member(two[0], "a", fails=9).step(mq)
    assert effects(two[0]) == [1, 3, 4]


def test_two_processes_of_one_name_with_two_databases_repeat_nothing(
    mq: mqpg.Client, two: tuple[Engine, Engine]
) -> None:
    subscribe(mq, queues=1)
    a, b = (member(engine, "same", fails=0) for engine in two)
    for number, consumer in ((1, a), (2, b)):
        send(mq, [number])
        assert consumer.step(mq) == 1
    send(mq, [3])
    with pytest.raises(errors.WrongState, match=r"offsets 1 to 1 of queue 0 .* another process of the name same"):
        a.step(mq)
    assert b.step(mq) == 1
    assert (effects(two[0]), effects(two[1])) == ([1], [2, 3])
    with two[0].begin() as conn:
        conn.execute(text("update mqpg_offsets set next_offset = 3, last_message_id = null"))
    send(mq, [4])
    assert a.step(mq) == 1
    assert (effects(two[0]), effects(two[1])) == ([1, 4], [2, 3])


@pytest.mark.parametrize("on_failure", ["skip", "block_queue"])
@pytest.mark.parametrize(("step", "applied"), [("Client.receive", False), ("OwnDatabase._commit", True)])
def test_what_is_in_doubt_is_not_applied_by_another_database(
    mq: mqpg.Client, dsn: str, tmp_path: Path, two: tuple[Engine, Engine], step: str, applied: bool, on_failure: str
) -> None:
    """Its owner died with it, and the queue was given away."""
    subscribe(mq, queues=1, max_attempts=3, on_failure=on_failure)
    send(mq, [1])
    die_as_member(dsn, f"sqlite:///{tmp_path / 'b'}.db", "b", "after", step)
    mq.unpin(GROUP, TOPIC)
    send(mq, [2])
    a = member(two[0], "a", fails=0)
    work(mq, [a], lambda: bool(list(mq.dead_letters(GROUP, TOPIC))))
    assert (effects(two[0]), effects(two[1])) == ([2], [1] if applied else [])
    assert "delivered before to b" in str(mq.dead_letters(GROUP, TOPIC)[0].reason)
    mq.unpin(GROUP, TOPIC)
    assert mq.redrive(GROUP, TOPIC) == 1
    due(mq)
    # The journal of b has it, or nobody knows.
    work(mq, [member(two[1], "b", fails=0)], lambda: applied or bool(list(mq.dead_letters(GROUP, TOPIC))))
    assert (effects(two[0]), effects(two[1])) == ([2], [1] if applied else [])
    assert len(list(mq.dead_letters(GROUP, TOPIC))) == (not applied)


@pytest.mark.parametrize("step", ["Client.receive", "OwnDatabase._commit"])
def test_the_same_database_under_a_new_name_is_not_in_doubt(
    mq: mqpg.Client, dsn: str, tmp_path: Path, two: tuple[Engine, Engine], step: str
) -> None:
    subscribe(mq, queues=1)
    old = member(two[1], "b", fails=0)
    send(mq, [1])
    old.step(mq)
    send(mq, [2, 3])
    die_as_member(dsn, f"sqlite:///{tmp_path / 'b'}.db", "b", "after", step)
    mq.unpin(GROUP, TOPIC)
    send(mq, [4])
    work(mq, [member(two[1], "b2", fails=0)], lambda: effects(two[1]) == [1, 2, 3, 4])
    assert not list(mq.dead_letters(GROUP, TOPIC))


def test_letters_that_nobody_has_handled_are_applied_after_a_redrive(
    mq: mqpg.Client, two: tuple[Engine, Engine]
) -> None:
    """An expired message is in no inbox, and one that killed its process is not passed yet."""
    subscribe(mq, queues=1, max_attempts=2)
    mq.alter_topic(TOPIC, message_ttl="1 hour", on_expired="dead_letter")
    a = member(two[0], "a", fails=0)
    send(mq, [1])
    a.step(mq)
    send(mq, [2])
    with mq.transaction() as conn:
        conn.execute("update mqpg.tick set at = at - interval '2 hours'")
    send(mq, [3])
    work(mq, [a], lambda: effects(two[0]) == [1, 3])
    assert [letter.payload for letter in mq.dead_letters(GROUP, TOPIC)] == [{"id": 2}]
    assert mq.redrive(GROUP, TOPIC) == 1
    work(mq, [a], lambda: effects(two[0]) == [1, 2, 3])
    mq.alter_topic(TOPIC, message_ttl=None)
    send(mq, [4])
    for _ in range(2):
        mq.receive(GROUP, TOPIC, 1, consumer="a")  # dies with it
    assert mq.receive(GROUP, TOPIC, 1, consumer="a") == []
    assert mq.redrive(GROUP, TOPIC) == 1
    work(mq, [a], lambda: effects(two[0]) == [1, 2, 3, 4])
    send(mq, [6])
    work(mq, [a], lambda: effects(two[0]) == [1, 2, 3, 4, 6])
    assert not list(mq.dead_letters(GROUP, TOPIC))


# relay topics: the inbox follows the owner too


def relayed(mq: mqpg.Client, two: tuple[Engine, Engine]) -> tuple[str, mqpg.Consumer, mqpg.Consumer]:
    """a has the PREPARE of 1, and the queue has no owner."""
    subscribe(mq, kind="relay", queues=1, max_attempts=2)
    a, b = (member(engine, name, fails=0) for engine, name in zip(two, "ab", strict=True))
    handle = mq.prepare(TOPIC, {"id": 1}, "shop")
    mq.append()
    a.step(mq)
    mq.unpin(GROUP, TOPIC)
    return handle, a, b


def test_a_commit_without_its_prepare_is_no_repetition(mq: mqpg.Client, two: tuple[Engine, Engine]) -> None:
    handle, a, b = relayed(mq, two)
    mq.commit(handle)
    work(mq, [b, a], lambda: bool(list(mq.dead_letters(GROUP, TOPIC))))
    (letter,) = mq.dead_letters(GROUP, TOPIC)
    assert f"COMMIT of {handle} without its PREPARE" in str(letter.reason)
    assert effects(two[0]) == effects(two[1]) == []
    mq.unpin(GROUP, TOPIC)
    assert mq.redrive(GROUP, TOPIC) == 1
    work(mq, [a, b], lambda: effects(two[0]) == [1])
    other = mq.prepare(TOPIC, {"id": 2}, "shop")
    mq.commit(other)
    work(mq, [a, b], lambda: effects(two[0]) == [1, 2])
    assert effects(two[1]) == []
    assert not list(mq.dead_letters(GROUP, TOPIC))


def test_a_commit_is_no_repetition_in_a_database_that_was_moved_over_its_prepare(
    mq: mqpg.Client, two: tuple[Engine, Engine], caplog: pytest.LogCaptureFixture
) -> None:
    """The error says how it is moved, and then the database does not count as one that passed the PREPARE."""
    done, a, b = relayed(mq, two)
    mq.rollback(done)
    handle = mq.prepare(TOPIC, {"id": 2}, "shop")
    mq.append()
    b.step(mq)
    mq.unpin(GROUP, TOPIC)
    mq.commit(handle)
    mq.append()
    with pytest.raises(errors.WrongState, match="finished by consumer b") as raised:
        a.step(mq)
    remedy = re.search(r"set (\w+(?: and \w+)*) of mqpg_offsets to (\d+)", str(raised.value))
    assert remedy is not None
    values = ", ".join(f"{column} = {remedy[2]}" for column in remedy[1].split(" and "))
    with two[0].begin() as conn:
        conn.execute(text(f"update mqpg_offsets set {values}, last_message_id = null"))
    a.step(mq)
    assert f"COMMIT of {handle} without its PREPARE" in caplog.text
    work(mq, [a], lambda: bool(list(mq.dead_letters(GROUP, TOPIC))))
    assert f"COMMIT of {handle} without its PREPARE" in str(mq.dead_letters(GROUP, TOPIC)[0].reason)
    mq.unpin(GROUP, TOPIC)
    assert mq.redrive(GROUP, TOPIC) == 1
    work(mq, [b], lambda: effects(two[1]) == [2])


def test_a_rollback_without_its_prepare_does_nothing(mq: mqpg.Client, two: tuple[Engine, Engine]) -> None:
    handle, a, b = relayed(mq, two)
    mq.rollback(handle)
    mq.append()
    assert b.step(mq) == 1
    work(mq, [b, a], lambda: not list(mq.dead_letters(GROUP, TOPIC)))
    assert effects(two[0]) == effects(two[1]) == []


@pytest.mark.parametrize("own", [True, False])
def test_a_commit_that_a_later_database_repeats_is_ignored(
    mq: mqpg.Client, two: tuple[Engine, Engine], own: bool
) -> None:
    """Its PREPARE lies behind the place where that database began. Plain phases may be repeated at will."""
    handle, _, b = relayed(mq, two)
    mq.rollback(handle)
    theirs = mq.prepare(TOPIC, {"id": 2}, "shop") if own else "theirs"

    def plain(phase: str) -> None:
        mq.send(TOPIC, {"id": 2}, headers={"mqpg-phase": phase, "mqpg-handle": theirs})

    if own:
        mq.commit(theirs)
    else:
        plain("prepare")
        plain("commit")
    plain("commit")
    work(mq, [b], lambda: effects(two[1]) == [2])
    plain("commit")
    work(mq, [b], lambda: True)
    assert effects(two[1]) == [2]
    assert not list(mq.dead_letters(GROUP, TOPIC))


@pytest.mark.parametrize("attempts", [1, 2], ids=["in doubt", "dead letter"])
def test_a_commit_outlasts_the_trouble_of_its_prepare(
    mq: mqpg.Client, two: tuple[Engine, Engine], attempts: int
) -> None:
    subscribe(mq, kind="relay", queues=1, max_attempts=2)
    a = member(two[0], "a", fails=0)
    send(mq, [2], kind="relay")
    work(mq, [a], lambda: effects(two[0]) == [2])
    mq.unpin(GROUP, TOPIC)
    handle = mq.prepare(TOPIC, {"id": 1}, "shop")
    mq.append()
    for _ in range(attempts):
        assert mq.receive(GROUP, TOPIC, 1, consumer="b")  # dies with it
        mq.unpin(GROUP, TOPIC)
    a.step(mq)
    mq.commit(handle)
    work(mq, [a], lambda: True)
    if attempts == 1:
        assert not list(mq.dead_letters(GROUP, TOPIC))
    else:
        work(mq, [a], lambda: len(list(mq.dead_letters(GROUP, TOPIC))) == 2)
        assert mq.redrive(GROUP, TOPIC) == 2
    work(mq, [a], lambda: effects(two[0]) == [1, 2])


def test_plain_phases_whose_prepare_another_database_has(mq: mqpg.Client, two: tuple[Engine, Engine]) -> None:
    handle, _, b = relayed(mq, two)
    mq.rollback(handle)
    mq.append()
    b.step(mq)
    mq.send(TOPIC, {"id": 2}, headers={"mqpg-phase": "commit", "mqpg-handle": "before my time"})
    work(mq, [b], lambda: bool(list(mq.dead_letters(GROUP, TOPIC))))
    assert "before my time" in str(mq.dead_letters(GROUP, TOPIC)[0].reason)
