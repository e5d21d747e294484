"""T4: topics that relay PREPARE, COMMIT and ROLLBACK, and the inbox of their consumers (FastMiniMQ, P1-P7 and S1-S8)."""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, text

import mqpg
from mqpg import errors
from tests.support.broker import make_due
from tests.support.business import INSERT, business, business_at, rows
from tests.support.roles import Roles
from tests.support.waiting import eventually

PHASES = "select headers ->> 'mqpg-phase', payload from mqpg.fetch('relayed', 0, 0, 1000)"


@pytest.fixture
def relayed(mq: mqpg.Client) -> str:
    """A relay topic of one queue, so that all phases are in one order, with a producer group `shop`."""
    mq.create_topic("relayed", queues=1, kind="relay")
    mq.create_producer_group("shop")
    return "relayed"


def phases(db: psycopg.Connection, mq: mqpg.Client) -> list[tuple[str, Any]]:
    mq.append()
    return db.execute(PHASES.encode()).fetchall()


def reader(engine: Engine | None, *, fail: list[int] | None = None, **options: Any) -> mqpg.Consumer:
    """A consumer whose effect is a row of `business`: in its own database, or (None) in the broker's."""
    left = fail if fail is not None else []

    def handle(message: mqpg.Message, conn: Any) -> None:
        if message.payload in left:
            left.remove(message.payload)
            raise ValueError("not now")
        if engine is None:
            conn.execute("insert into business (id) values (%s)", (message.payload,))
        else:
            conn.execute(INSERT, {"id": message.payload})

    options = {"group": "readers", "database": engine, "journal": True, "consumer": "one"} | options
    if engine is None:
        options["consumer"] = None
    found: mqpg.Consumer = mqpg.consumer("relayed", **options)(handle)
    return found


def drain(consumer: mqpg.Consumer, mq: mqpg.Client) -> None:
    mq.append()
    while consumer.step(mq):
        mq.append()


def test_each_phase_is_one_message_in_the_queue_of_its_prepare(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str
) -> None:
    mq.create_topic("wide", queues=16, kind="relay")
    handles = [mq.prepare("wide", n, "shop", key=None if n % 2 else f"k{n}") for n in range(12)]
    assert all(outcome == "committed" for _, outcome in mq.commit_batch(handles[:6]))
    for handle in handles[6:9]:
        assert mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert all(outcome == "rolled_back" for _, outcome in mq.rollback_batch(handles[9:]))
    mq.append()
    spots: dict[str, list[tuple[str, int]]] = {}
    for queue in range(16):
        found = db.execute("select headers, queue_id from mqpg.fetch('wide', %s, 0, 100)", (queue,)).fetchall()
        for headers, queue_id in found:
            spots.setdefault(headers["mqpg-handle"], []).append((headers["mqpg-phase"], queue_id))
    assert set(spots) == set(handles)
    for number, handle in enumerate(handles):
        assert [phase for phase, _ in spots[handle]] == ["prepare", "commit" if number < 9 else "rollback"]
        assert len({queue_id for _, queue_id in spots[handle]}) == 1


def test_the_first_decision_travels_and_no_other(mq: mqpg.Client, db: psycopg.Connection, relayed: str) -> None:
    handle = mq.prepare(relayed, {"id": 1}, "shop", headers={"mine": True})
    assert mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert mq.commit(handle) is mqpg.Outcome.ALREADY_COMMITTED
    assert mq.rollback(handle) is mqpg.Outcome.ALREADY_COMMITTED
    assert phases(db, mq) == [("prepare", {"id": 1}), ("commit", {"id": 1})]
    headers = db.execute("select headers from mqpg.fetch('relayed', 0, 0, 10)").fetchall()
    assert [h[0]["mine"] for h in headers] == [True, True]


def test_a_repeated_prepare_is_one_half(mq: mqpg.Client, db: psycopg.Connection, relayed: str) -> None:
    """The answer to PREPARE was lost: its dedup id finds the first, even after the COMMIT."""
    first = mq.prepare(relayed, 1, "shop", dedup_id="id-1")
    assert mq.prepare(relayed, 1, "shop", dedup_id="id-1") == first
    mq.commit(first)
    assert mq.prepare(relayed, 1, "shop", dedup_id="id-1") == first
    assert mq.commit(first) is mqpg.Outcome.ALREADY_COMMITTED
    assert phases(db, mq) == [("prepare", 1), ("commit", 1)]


def test_final_payload_delay_and_batches(mq: mqpg.Client, db: psycopg.Connection, relayed: str) -> None:
    handles = mq.prepare_batch(relayed, ["a", "b", "c"], "shop")
    mq.create_topic("normal", queues=1)
    other = mq.prepare("normal", "n", "shop")
    outcomes = mq.commit_batch([*handles, other], [None, "B", None, "N"])
    assert [outcome for _, outcome in outcomes] == ["committed"] * 4
    late = mq.prepare(relayed, "late", "shop", delay=600)
    mq.commit(late, "LATE")
    expected = [("prepare", "a"), ("prepare", "b"), ("prepare", "c"), ("commit", "a"), ("commit", "B"), ("commit", "c")]
    assert phases(db, mq) == [*expected, ("prepare", "late")]
    assert db.execute("select payload from mqpg.fetch('normal', 0, 0, 10)").fetchall() == [("N",)]
    make_due(db)
    eventually(lambda: len(phases(db, mq)) == 8)
    assert phases(db, mq)[-1] == ("commit", "LATE")


def test_check_back_decides_relayed_halves_too(mq: mqpg.Client, dsn: str, db: psycopg.Connection, relayed: str) -> None:
    mq.create_producer_group("here", check_after="10 ms", checker="ledger")
    done = mq.prepare(relayed, "done", "here")
    mq.prepare(relayed, "never", "here")
    with psycopg.connect(dsn) as conn:
        mq.local_begin(done, conn=conn)
    time.sleep(0.05)
    eventually(lambda: mq.compensate() == 0 and db.execute("select from mqpg.half_pending").fetchone() is None)
    assert sorted(phases(db, mq), key=str) == [
        ("commit", "done"), ("prepare", "done"), ("prepare", "never"), ("rollback", None),
    ]  # fmt: skip


@pytest.mark.parametrize("place", ["there", "here"])
def test_only_committed_messages_take_effect(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, engine: Engine, place: str
) -> None:
    if place == "here":
        db.execute("create table business (id int primary key)")
    consumer = reader(engine if place == "there" else None)
    good, bad, undecided = (mq.prepare(relayed, number, "shop") for number in (1, 2, 3))
    drain(consumer, mq)
    assert _effects(db, engine, place) == []
    assert _inbox(db, engine, place) == 3
    mq.commit(good)
    mq.rollback(bad)
    mq.send(relayed, 4)  # a plain message takes effect as anywhere
    drain(consumer, mq)
    assert _effects(db, engine, place) == [1, 4]
    assert _inbox(db, engine, place) == 1
    mq.commit(undecided)
    drain(consumer, mq)
    assert _effects(db, engine, place) == [1, 3, 4]
    assert _inbox(db, engine, place) == 0
    consumer.close()


def _effects(db: psycopg.Connection, engine: Engine, place: str) -> list[int]:
    if place == "there":
        return business(engine)
    return [row[0] for row in db.execute("select id from business order by id").fetchall()]


def _inbox(db: psycopg.Connection, engine: Engine, place: str) -> int:
    if place == "there":
        return rows(engine, "mqpg_prepared")
    return int(db.execute("select count(*) from mqpg_prepared").fetchall()[0][0])


def test_a_producer_of_its_own_ids_may_repeat_both_phases(mq: mqpg.Client, relayed: str, engine: Engine) -> None:
    """Mode B needs no more of a broker than a log: phases are plain messages, repeated at will."""
    consumer = reader(engine)

    def send(phase: str, payload: Any) -> None:
        mq.send(relayed, payload, headers={"mqpg-phase": phase, "mqpg-handle": "my-id"})

    send("commit", 9)  # without a PREPARE: ignored
    send("prepare", 1)
    send("prepare", 2)  # the last one counts
    send("commit", mqpg.Json("null"))  # and need not be said again
    send("commit", 2)
    send("rollback", mqpg.Json("null"))
    drain(consumer, mq)
    assert business(engine) == [2]
    assert rows(engine, "mqpg_prepared") == 0
    consumer.close()


def test_a_commit_whose_effect_fails_comes_again(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, engine: Engine
) -> None:
    """Its PREPARE stays in the inbox until the effect is there."""
    mq.subscribe("readers", relayed, "pinned", retry_delay="600 s")
    consumer = reader(engine, fail=[1, 1])  # with the others, then alone
    for number in (1, 2):
        mq.commit(mq.prepare(relayed, number, "shop"))
    drain(consumer, mq)
    assert business(engine) == [2]
    assert rows(engine, "mqpg_prepared") == 1
    make_due(db)

    def applied() -> bool:
        drain(consumer, mq)
        return business(engine) == [1, 2]

    eventually(applied)
    assert rows(engine, "mqpg_prepared") == 0
    consumer.close()


def test_a_commit_whose_prepare_is_a_dead_letter_becomes_one(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str
) -> None:
    mq.subscribe("readers", relayed, max_attempts=1)
    db.execute("create table business (id int)")
    handle = mq.prepare(relayed, 1, "shop")
    mq.append()
    (prepare,) = mq.receive("readers", relayed)
    mq.nack(prepare)
    mq.commit(handle)
    consumer = reader(None)
    drain(consumer, mq)
    commit, _ = mq.dead_letters("readers", relayed)
    assert "without its PREPARE, which waits for a retry, is a dead letter" in str(commit.reason)
    assert mq.redrive("readers", relayed) == 2
    drain(consumer, mq)
    assert db.execute("select id from business").fetchall() == [(1,)]


@pytest.mark.parametrize("own", [False, True], ids=["half message", "phases of a producer's own"])
@pytest.mark.parametrize("wait", ["retry", "claimed after redrive", "at its place"])
def test_a_commit_does_not_pass_a_prepare_that_waits_for_its_next_attempt(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, wait: str, own: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def send(phase: str) -> None:
        mq.send(relayed, 1, headers={"mqpg-phase": phase, "mqpg-handle": handle})

    mq.subscribe("readers", relayed, retry_delay="600 s", on_failure="block_key" if "place" in wait else "skip")
    db.execute("create table business (id int)")
    handle = "mine" if own else mq.prepare(relayed, 1, "shop")
    if own:
        send("prepare")
    mq.append()
    (prepare,) = mq.receive("readers", relayed)
    if wait == "claimed after redrive":
        mq.nack(prepare, final=True)
        mq.redrive("readers", relayed)
        mq.append()
        claimed = mq.receive("readers", relayed, lease=600)
    else:
        mq.nack(prepare)
    send("commit") if own else mq.commit(handle)
    consumer = reader(None)
    drain(consumer, mq)
    assert f"COMMIT of {handle} without its PREPARE, which waits for a retry" in caplog.text
    if wait == "at its place":
        return
    if wait == "claimed after redrive":
        claimed.release()
    make_due(db)

    def applied() -> bool:
        drain(consumer, mq)
        return db.execute("select id from business").fetchall() == [(1,)]

    eventually(applied)


@pytest.mark.parametrize("place", ["here", "there"])
@pytest.mark.parametrize("lost", ["began behind", "purged", "skipped", "expired", "deleted"])
def test_a_commit_whose_prepare_the_group_does_not_have_becomes_a_dead_letter(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, sqlite: Engine, place: str, lost: str
) -> None:
    """The broker sends one COMMIT, so it is no repetition."""
    options: dict[str, Any] = {"max_attempts": 1, "mode": "exclusive" if place == "here" else "pinned"}
    if place == "here":
        db.execute("create table business (id int primary key)")
    if lost != "began behind":
        mq.subscribe("readers", relayed, **options)
    consumer = reader(sqlite if place == "there" else None)
    handle = mq.prepare(relayed, 1, "shop")
    mq.append()
    if lost == "began behind":
        mq.subscribe("readers", relayed, start="latest", **options)
    elif lost == "purged":
        mq.purge_topic(relayed)
    elif lost == "skipped":
        mq.seek("readers", relayed, "latest")
    elif lost == "expired":
        mq.alter_topic(relayed, message_ttl=0.01)
        time.sleep(0.02)
        drain(consumer, mq)
        mq.alter_topic(relayed, message_ttl="1 day")
    else:
        drain(consumer, mq)
        if place == "here":
            db.execute("truncate mqpg_prepared")
        else:
            with sqlite.begin() as conn:
                conn.execute(text("delete from mqpg_prepared"))
    mq.commit(handle)
    mq.send(relayed, 2)
    drain(consumer, mq)
    assert _effects(db, sqlite, place) == [2]
    (letter,) = mq.dead_letters("readers", relayed)
    assert f"COMMIT of {handle} without its PREPARE" in str(letter.reason)
    consumer.close()


def test_a_commit_that_a_seek_repeats_is_ignored(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute("create table business (id int primary key)")
    mq.subscribe("readers", relayed, max_attempts=1)
    consumer = reader(None)
    mq.commit(mq.prepare(relayed, 1, "shop"))
    drain(consumer, mq)
    mq.seek("readers", relayed, "1", queue_id=0)
    with caplog.at_level("INFO"):
        drain(consumer, mq)
    assert "without a PREPARE is ignored" in caplog.text
    assert not list(mq.dead_letters("readers", relayed))
    assert db.execute("select id from business").fetchall() == [(1,)]


def test_a_commit_whose_prepare_does_not_come_by_itself_holds_nothing_up(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str
) -> None:
    """It would hold a queue up that its failures block, for as long as its attempts take."""
    db.execute("create table business (id int)")
    handle = mq.prepare(relayed, 1, "shop")
    mq.append()
    mq.subscribe("readers", relayed, start="latest", on_failure="block_queue", retry_delay="600 s")
    mq.commit(handle)
    mq.send(relayed, 2)
    drain(reader(None), mq)
    assert db.execute("select id from business").fetchall() == [(2,)]
    (letter,) = mq.dead_letters("readers", relayed)
    assert f"COMMIT of {handle} without its PREPARE" in str(letter.reason)


@pytest.mark.parametrize("place", ["here", "there"])
def test_a_commit_that_failed_is_no_repetition_where_a_seek_moved_the_group_over_it(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, sqlite: Engine, place: str
) -> None:
    """Neither at its place nor when it is redriven. A database of one's own is not moved back at all."""
    db.execute("create table business (id int primary key)")
    mq.subscribe("readers", relayed, max_attempts=1, mode="exclusive" if place == "here" else "pinned")
    consumer = reader(sqlite if place == "there" else None)
    handle = mq.prepare(relayed, 1, "shop")
    mq.append()
    mq.seek("readers", relayed, "latest")
    mq.commit(handle)
    drain(consumer, mq)
    mq.seek("readers", relayed, "1" if place == "here" else "0", queue_id=0)
    drain(consumer, mq)
    assert mq.redrive("readers", relayed) == 1
    drain(consumer, mq)
    assert _effects(db, sqlite, place) == []
    (letter,) = mq.dead_letters("readers", relayed)
    assert f"COMMIT of {handle} without its PREPARE" in str(letter.reason)
    consumer.close()


@pytest.mark.parametrize("wait", ["retry", "dead letter"])
def test_a_commit_that_failed_is_a_repetition_when_a_seek_has_repeated_both(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, wait: str, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute("create table business (id int)")
    mq.subscribe("readers", relayed, retry_delay="600 s", max_attempts=1 if wait == "dead letter" else 3)
    consumer = reader(None, fail=[1, 1])  # with the PREPARE, then alone
    mq.commit(mq.prepare(relayed, 1, "shop"))
    drain(consumer, mq)
    mq.seek("readers", relayed, "0", queue_id=0)
    drain(consumer, mq)
    assert mq.redrive("readers", relayed) == (wait == "dead letter")
    make_due(db)

    def done() -> bool:
        drain(consumer, mq)
        return "without a PREPARE is ignored" in caplog.text

    with caplog.at_level("INFO"):
        eventually(done)
    assert db.execute("select id from business").fetchall() == [(1,)]
    assert not list(mq.dead_letters("readers", relayed))


def test_a_commit_that_a_seek_repeats_fails_with_its_prepare(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str
) -> None:
    db.execute("create table business (id int)")
    mq.subscribe("readers", relayed, max_attempts=1)
    consumer = reader(None)
    mq.commit(mq.prepare(relayed, 1, "shop"))
    drain(consumer, mq)
    mq.seek("readers", relayed, "0", queue_id=0)
    mq.nack(mq.receive("readers", relayed, 1)[0])
    drain(consumer, mq)
    assert mq.redrive("readers", relayed) == 2
    drain(consumer, mq)
    assert db.execute("select id from business").fetchall() == [(1,), (1,)]


def test_a_dead_commit_is_no_repetition_when_its_decision_is_dropped(new_database: Callable[[], str]) -> None:
    dsn = new_database()  # segments are dropped
    with mqpg.connect(dsn) as mq, psycopg.connect(dsn, autocommit=True) as db:
        mq.create_topic("relayed", queues=1, kind="relay")
        mq.create_producer_group("shop")
        handle = mq.prepare("relayed", 1, "shop")
        mq.append()
        mq.subscribe("readers", "relayed", start="latest", max_attempts=1)
        consumer = reader(None)
        mq.commit(handle)
        drain(consumer, mq)
        db.execute("update mqpg.settings set value = '0 s' where name in ('op_log_keep', 'segment_age')")
        db.execute("update mqpg.topic set retention = '0 s'")

        def dropped() -> bool:
            db.execute("select mqpg.keep()")
            return db.execute("select from mqpg.op_log").fetchone() is None

        eventually(dropped, interval=0.05)
        for again in range(2):
            (letter,) = mq.dead_letters("readers", "relayed")
            assert f"COMMIT of {handle} without its PREPARE" in str(letter.reason)
            assert again or mq.redrive("readers", "relayed") == 1
            drain(consumer, mq)


def test_a_journal_that_cannot_be_written_stops_the_queue(mq: mqpg.Client, relayed: str, engine: Engine) -> None:
    """Its PREPARE would go to the retry lane, and its COMMIT pass by."""
    consumer = reader(engine)
    consumer.step(mq)
    with engine.begin() as conn:
        conn.execute(text("alter table mqpg_applied rename to moved"))
    handle = mq.prepare(relayed, 1, "shop")
    mq.append()
    with pytest.raises(Exception, match="journal of a relay topic"):
        consumer.step(mq)
    with engine.begin() as conn:
        conn.execute(text("alter table moved rename to mqpg_applied"))
    mq.commit(handle)
    drain(consumer, mq)
    assert business(engine) == [1]
    consumer.close()


def test_an_inbox_that_cannot_be_written_stops_the_queue(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, engine: Engine
) -> None:
    """A PREPARE that went to the retry lane would let its COMMIT pass by, ignored."""
    consumer = reader(engine)
    consumer.step(mq)
    with engine.begin() as conn:
        conn.execute(text("drop table mqpg_prepared"))
    handle = mq.prepare(relayed, 1, "shop")
    mq.commit(handle)
    mq.append()
    for _ in range(3):
        with pytest.raises(Exception, match="mqpg_prepared"):
            consumer.step(mq)
    assert business(engine) == []
    again = reader(engine)
    drain(again, mq)
    assert business(engine) == [1]
    for one in (consumer, again):
        one.close()


def test_a_prepare_that_a_trigger_leaves_out_stops_the_queue(
    mq: mqpg.Client, relayed: str, new_database: Callable[..., str]
) -> None:
    dsn = new_database(empty=True)
    with business_at(dsn.replace("postgresql://", "postgresql+psycopg://", 1)) as engine:
        consumer = reader(engine)
        consumer.step(mq)
        with psycopg.connect(dsn) as conn:
            conn.execute(
                "create function leave_out() returns trigger language plpgsql as $$ begin return null; end $$;"
                "create trigger leave_out before insert on mqpg_prepared for each row execute function leave_out()"
            )
        mq.prepare(relayed, 1, "shop")
        mq.append()
        with pytest.raises(Exception, match="mqpg_prepared left out its row"):
            consumer.step(mq)
        consumer.close()


def test_a_handle_that_no_inbox_can_hold_is_its_message_s_fault(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, sqlite: Engine
) -> None:
    mq.subscribe("readers", relayed, "pinned", max_attempts=1)
    for handle in ("x" * 201, "\u00e9"):
        mq.send(relayed, 1, headers={"mqpg-phase": "prepare", "mqpg-handle": handle})
    mq.send(relayed, 2)
    consumer = reader(sqlite)
    drain(consumer, mq)
    assert business(sqlite) == [2]
    assert [letter.payload for letter in mq.dead_letters("readers", relayed)] == [1, 1]
    consumer.close()


async def test_async(amq: mqpg.AsyncClient, mq: mqpg.Client, relayed: str, sqlite: Engine) -> None:
    url = str(sqlite.url).replace("sqlite://", "sqlite+aiosqlite://")

    @mqpg.consumer(relayed, group="readers", database=url, consumer="one")
    async def handle(message: mqpg.Message, conn: Any) -> None:
        await conn.execute(INSERT, {"id": message.payload})

    good = await amq.prepare(relayed, 1, "shop", dedup_id="d")
    assert await amq.prepare(relayed, 1, "shop", dedup_id="d") == good
    bad = await amq.prepare(relayed, 2, "shop")
    mq.append()
    await handle.step(amq)
    assert (business(sqlite), rows(sqlite, "mqpg_prepared")) == ([], 2)
    await amq.commit(good)
    await amq.rollback(bad)
    mq.append()
    await handle.step(amq)
    assert (business(sqlite), rows(sqlite, "mqpg_prepared")) == ([1], 0)
    await handle.close()


def test_consumers_without_a_transaction_are_refused(mq: mqpg.Client, relayed: str) -> None:
    consumer = mqpg.consumer(relayed, group="readers", effect="external")(lambda message: None)
    with pytest.raises(errors.ConfigurationError, match="need a transaction"):
        consumer.step(mq)


def test_modes_in_which_phases_could_overtake_are_refused(mq: mqpg.Client, relayed: str) -> None:
    wrong: tuple[dict[str, Any], ...] = ({"mode": "shared"}, {"mode": "broadcast"}, {"filter": "$.id > 1"})
    for arguments in wrong:
        with pytest.raises(errors.WrongTopicKind, match="PREPARE"):
            mq.subscribe("readers", relayed, **arguments)
    mq.subscribe("readers", relayed)
    with pytest.raises(errors.WrongTopicKind):
        mq.alter_subscription("readers", relayed, mode="shared")


def test_a_sender_cannot_take_back_the_commit_of_another(
    mq: mqpg.Client, db: psycopg.Connection, relayed: str, roles: Roles
) -> None:
    sender = roles("sender")
    mq.grant_send(relayed, sender.name)
    mq.commit(mq.prepare(relayed, 1, "shop", delay=600))
    ((message_id,),) = db.execute("select batch_id * 1024 from mqpg.commit_log where kind = 'd'").fetchall()
    with mqpg.connect(sender.dsn) as theirs:
        own = theirs.send(relayed, 2, delay=600)
        with pytest.raises(errors.NotGranted, match="producer group"):
            theirs.recall(message_id)
        assert theirs.recall(own)
    assert mq.recall(message_id)


def test_headers_that_are_no_object_are_refused(mq: mqpg.Client, relayed: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="JSON object"):
        mq.prepare(relayed, 1, "shop", headers=[1])


def test_a_dedup_id_of_a_send_is_no_half(mq: mqpg.Client, relayed: str) -> None:
    mq.send(relayed, 1, dedup_id="d")
    with pytest.raises(errors.WrongState, match="not a half message"):
        mq.prepare(relayed, 1, "shop", dedup_id="d")


def test_find_and_states(mq: mqpg.Client, relayed: str) -> None:
    handle = mq.prepare(relayed, 1, "shop", key="k")
    assert [state.state for state in mq.half_states([handle, "x"])] == ["undecided", "unknown"]
    mq.commit(handle)
    mq.append()
    assert [found.state for found in mq.find_by_key(relayed, "k")] == ["relayed", "appended", "appended"]
    state = mq.half_states([handle])[0]
    assert (state.state, state.topic, state.key, state.parked) == ("committed", relayed, "k", False)


def test_producers_and_a_consumer_at_once(mq: mqpg.Client, engine: Engine) -> None:
    """Producers and consumers at once; each message takes effect once."""
    mq.create_topic("busy", queues=2, kind="relay")
    mq.create_producer_group("shop")
    mq.subscribe("readers", "busy", "pinned")

    def produce(start: int) -> None:
        for number in range(start, start + 20):
            handle = mq.prepare("busy", number, "shop")
            (mq.rollback if number % 5 == 0 else mq.commit)(handle)

    threads = [threading.Thread(target=produce, args=(start,)) for start in (0, 100)]
    for thread in threads:
        thread.start()

    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload})

    consumer = mqpg.consumer("busy", group="readers", database=engine, consumer="one")(handle)
    wanted = sorted(n for start in (0, 100) for n in range(start, start + 20) if n % 5)

    def all_there() -> bool:
        drain(consumer, mq)
        return business(engine) == wanted

    eventually(all_there)
    for thread in threads:
        thread.join()
    consumer.close()
