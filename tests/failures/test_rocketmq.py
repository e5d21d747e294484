"""RocketMQ transactional messages: where each of their eight steps can fail.

The steps are 1 half sent, 2 stored, 3 acknowledged, 4 local transaction, 5 endTransaction, 6
decision stored, 7 check-backs, 8 too many checks.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import mqpg
from lab.proxy import Proxy
from mqpg import errors
from tests.failures.stage import IMPATIENT, SALE, CrashingStage, Stage, expire
from tests.support.broker import cut_off, refused, seconds
from tests.support.standby import Pair
from tests.support.waiting import eventually

STEPS = "mqpg._sync.producer.transactional"


@pytest.fixture
def app(stage: Stage) -> Stage:
    """The producer group `app`, which answers by due_checks and has three checks."""
    stage.mq.create_producer_group("app", check_after="10 ms", max_checks=3)
    return stage


def asked(stage: Stage, **named: Any) -> mqpg.HalfCheck:
    """Return the check that is due next."""
    (found,) = eventually(lambda: stage.mq.due_checks("app", **named))
    return found


# sending the half message


@pytest.mark.parametrize("stored", [False, True])
def test_1_3_1_half_not_known_to_be_stored_runs_no_local_transaction(stage: Stage, stored: bool) -> None:
    with stage.through_proxy(**IMPATIENT) as (cut, mq):
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=stage.engine)
        cut.cut_at(b"mqpg.prepare", forward=stored, stay_down=True)
        with pytest.raises(errors.ConnectionFailed), producer.transaction("orders", {"id": 1}):
            raise AssertionError("the local transaction must not run")
    if stored:
        eventually(stage.pending)
    stage.check_back()
    stage.exactly_once([])


def test_1_3_2_half_refused_runs_no_local_transaction(stage: Stage) -> None:
    with pytest.raises(errors.PayloadTooLarge), stage.producer.transaction("orders", "x" * 2_000_000):
        raise AssertionError("the local transaction must not run")
    stage.exactly_once([])


def test_1_3_3_producer_dies_between_half_and_local_transaction(stage: Stage) -> None:
    stage.killed("sell", "before", f"{STEPS}:begin_local", id=1)
    stage.check_back()
    stage.exactly_once([])


# the local transaction


def test_1_3_4_local_transaction_that_raises_is_rolled_back_at_once(stage: Stage) -> None:
    """The half is rolled back at once, because the failure is known.

    RocketMQ answers UNKNOW and asks later.
    """
    with pytest.raises(ZeroDivisionError), stage.producer.transaction("orders", {"id": 1}) as tx:
        tx.execute(SALE, {"id": 1 // 0})
    assert stage.decision(tx.handle) == ("b", "producer")
    stage.exactly_once([])


@pytest.mark.parametrize("arrived", [True, False])
def test_1_3_5_local_transaction_whose_commit_is_in_doubt_is_asked_about(stage: Stage, arrived: bool) -> None:
    """The reply to COMMIT is lost.

    Neither a commit nor a rollback is sent before the ledger has been read.
    """
    handles: list[str] = []

    def sell(producer: mqpg.TransactionalProducer, cut: Proxy) -> None:
        with producer.transaction("orders", {"id": 1}) as tx:
            handles.append(tx.handle)
            tx.execute(SALE, {"id": 1})
            cut.cut_at(b"COMMIT", forward=arrived)

    with stage.shop_through_proxy() as (cut, producer):
        with pytest.raises(errors.OutcomeUnknown, match="lost during the local commit"):
            sell(producer, cut)
        assert stage.decision(handles[0]) is None
    stage.check_back()
    assert stage.decision(handles[0]) == ("c" if arrived else "b", "checker")
    stage.exactly_once([1] if arrived else [])


# endTransaction


def test_1_3_6_commit_lost_is_found_by_the_check(stage: Stage) -> None:
    """The ledger shows the lost commit.

    RocketMQ sends it one way, and no party notices the loss.
    """
    stage.killed("sell", "before", "mqpg:Client.commit", id=1)
    stage.check_back()
    stage.exactly_once([1])


def test_1_3_7_rollback_lost_is_found_by_the_check(stage: Stage) -> None:
    stage.killed("sell", "before", "mqpg:Client.rollback", id=1, fail=True)
    assert len(stage.pending()) == 1
    stage.check_back()
    stage.exactly_once([])


def test_1_3_8_decision_with_wrong_facts_is_refused(stage: Stage) -> None:
    """Another message's id or nonce, another broker's handle, and a normal message are unknown.

    Nothing changes.
    """
    mine = stage.sql.prepare("orders", "{}", "shop").split(".")
    other = stage.sql.prepare("orders", "{}", "shop").split(".")
    normal = stage.mq.send("orders", {"id": 1})
    wrong = [
        [*mine[:3], other[3]],
        [*mine[:2], other[2], mine[3]],
        [mine[0], "2", *mine[2:]],
        ["0" * 12, *mine[1:]],
        [*mine[:2], str(normal), mine[3]],
    ]
    for parts in wrong:
        assert stage.mq.commit(".".join(parts)) is mqpg.Outcome.UNKNOWN
        assert stage.mq.rollback(".".join(parts)) is mqpg.Outcome.UNKNOWN
    assert stage.sql.scalar("select count(*) from mqpg.op_log") == 0
    assert stage.mq.commit(".".join(mine)) is mqpg.Outcome.COMMITTED


@pytest.mark.chaos
def test_1_3_9_broker_dies_while_it_stores_the_decision(crashing: CrashingStage) -> None:
    """The decision is one write.

    RocketMQ writes the message and then the op, and a crash between the two delivers twice.
    """
    stage = crashing.stage
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop", key="k")
    with psycopg.connect(stage.dsn) as conn, cut_off():
        conn.execute("select mqpg.commit(%s, '{\"id\": 2}'::text)", [handle])
        crashing.crash()
        conn.execute("select 1")
    assert stage.decision(handle) is None
    assert stage.mq.commit(handle, {"id": 3}) is mqpg.Outcome.COMMITTED
    assert stage.delivered() == [3]


@pytest.mark.chaos
@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_1_3_10_broker_dies_right_after_it_answered_a_decision(crashing: CrashingStage, decision: str) -> None:
    """The answer comes after the flush, whatever the session's synchronous_commit says.

    Mutation that this notices: commit() or rollback() does not call _force_sync(). RocketMQ flushes ops in batches and
    loses them with the broker, so it checks and delivers again.
    """
    stage = crashing.stage
    hasty = stage.broker.session("set synchronous_commit = off")
    handle = hasty.prepare("orders", '{"id": 1}', "shop")
    with crashing.losing_the_unflushed():
        hasty.call(decision, handle)
    assert stage.decision(handle) == ("c" if decision == "commit" else "b", "producer")
    undecided = stage.sql.prepare("orders", '{"id": 2}', "shop")
    stage.check_back()
    assert stage.decision(undecided) == ("b", "checker")
    assert stage.events(handle) == []
    assert stage.delivered() == ([1] if decision == "commit" else [])


# check-backs


def test_1_3_11_unknown_is_no_decision_and_asked_again(app: Stage) -> None:
    handle = app.sql.prepare("orders", '{"id": 1}', "app")
    assert asked(app).attempt == 1
    app.mq.check_wait(handle, 0)
    assert app.decision(handle) is None
    assert asked(app).attempt == 1
    assert app.mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert app.delivered() == [1]


def test_1_3_12_checks_rewrite_nothing(app: Stage) -> None:
    """A check adds only its own record. RocketMQ appends the half again at each check."""
    handles = [row[0] for row in app.sql.call("prepare_batch", "orders", ["{}"] * 20, "app")]
    size = "select count(*), sum(n), max(batch_id) from mqpg.commit_log"
    before = app.sql.rows(size)
    for _ in range(2):
        eventually(lambda: len(app.mq.due_checks("app")) == len(handles), interval=0.1)
        app.overdue_now()
    assert app.sql.rows(size) == before
    assert app.sql.scalar("select count(*) from mqpg.check_log") == 40
    assert app.sql.scalar("select count(*) from pgmq.q_mqpg_oplog") == 20


@pytest.mark.parametrize("arrived", [True, False])
def test_1_3_13_answer_to_a_check_lost_is_asked_again(app: Stage, arrived: bool) -> None:
    handle = app.sql.prepare("orders", '{"id": 1}', "app")
    asked(app, lease=0.1)
    with app.through_proxy(**IMPATIENT) as (cut, mq):
        cut.cut_at(b"mqpg.commit", forward=arrived, stay_down=True)
        with pytest.raises(errors.ConnectionFailed):
            mq.commit(handle)
    if arrived:
        eventually(lambda: app.decision(handle))
        undecided = app.sql.prepare("orders", "{}", "app")
        check = eventually(lambda: (app.overdue_now(), app.mq.due_checks("app"))[1])
        assert [half.handle for half in check] == [undecided]
        app.mq.rollback(undecided)
    else:
        assert asked(app).attempt == 2
        assert app.mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert app.delivered() == [1]


def exhausted(stage: Stage) -> str:
    """Return a half whose checks are used up because no app answered."""
    handle = stage.sql.prepare("orders", '{"id": 1}', "app")
    for attempt in (1, 2, 3):
        assert asked(stage, lease=0.01).attempt == attempt
    eventually(lambda: stage.mq.due_checks("app") == [] and stage.parked())
    return handle


def test_1_3_14_too_many_checks_park_and_guess_nothing(app: Stage) -> None:
    handle = exhausted(app)
    (row,) = app.parked()
    assert (row.handle, row.producer_group, row.topic, row.checks) == (handle, "app", "orders", 3)
    assert row.reason.startswith("no verdict after 3 checks")
    assert app.decision(handle) is None
    assert app.delivered() == []


def test_1_3_15_half_older_than_the_log_is_kept(own_stage: Stage) -> None:
    """A parked half outlives its segment and can still be decided.

    In RocketMQ fileReservedTime ends it.
    """
    own_stage.mq.create_producer_group("app", check_after="10 ms", max_checks=3)
    handle = exhausted(own_stage)
    expire(own_stage, handle)
    assert [row.handle for row in own_stage.parked()] == [handle]
    assert own_stage.mq.settle(handle, "commit", "the shop has it") is mqpg.Outcome.COMMITTED
    assert own_stage.delivered() == [1]


def test_1_3_16_parked_half_is_armed_again(app: Stage) -> None:
    handle = exhausted(app)
    app.mq.rearm(handle)
    assert app.parked() == []
    assert asked(app).attempt == 1
    assert app.mq.rollback(handle) is mqpg.Outcome.ROLLED_BACK
    assert app.delivered() == []


def test_1_3_17_commit_long_after_the_checks_began_counts(app: Stage) -> None:
    """The producer may still commit a half that is undecided.

    RocketMQ refuses that after the immunity time (604).
    """
    handle = app.sql.prepare("orders", '{"id": 1}', "app")
    asked(app, lease=0.01)
    asked(app)
    assert app.mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert app.delivered() == [1]


# durability and consumers


@pytest.mark.chaos
def test_1_3_18_broker_dies_right_after_it_acknowledged_a_half(crashing: CrashingStage) -> None:
    """`prepare` waits for the disk.

    Mutation that this notices: prepare() does not call _force_sync(). In RocketMQ ASYNC_FLUSH loses the half, and with it the message of a business that was done.
    """
    stage = crashing.stage
    hasty = stage.broker.session("set synchronous_commit = off")
    with crashing.losing_the_unflushed():
        handle = hasty.prepare("orders", '{"id": 1}', "shop")
    with stage.engine.begin() as local:
        stage.ledger.begin(local, handle)
        local.execute(SALE, {"id": 1})
    stage.check_back()
    stage.exactly_once([1])


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize(
    ("when", "step"),
    [("before", "mqpg:Client.ack_delivery"), ("after", "mqpg:Client.ack_delivery")],
    ids=["before ack", "after ack"],
)
def test_1_3_19_consumer_dies_between_effect_and_acknowledgement(here: Stage, mode: Any, when: str, step: str) -> None:
    """Effect and acknowledgement are one transaction (C1), so neither is there without the other.

    Mutation that this notices: the ack has a connection of its own. In RocketMQ a message that is
    acknowledged first is lost.
    """
    here.mq.subscribe("both", "orders", mode=mode)
    here.mq.send("orders", {"id": 1})
    here.append()
    here.killed("consume_here", when, step, group="both")
    assert here.effects_and_lag("both") == ([], 1)

    def consumed() -> bool:
        here.finished("consume_here", group="both")
        return here.effects_and_lag("both") == ([1], 0)

    eventually(consumed, interval=0.1)


def test_1_3_20_batch_of_a_dead_consumer_goes_to_another(stage: Stage) -> None:
    for id in range(5):
        stage.mq.send("orders", {"id": id}, key="same")
    stage.append()
    stage.killed("consume_c3", "before", "mqpg:Client.ack", lease=0.2, effects="/dev/null")
    again = eventually(lambda: stage.mq.receive("readers", "orders", consumer="another"))
    assert [(m.payload["id"], m.attempt) for m in again] == [(id, 2) for id in range(5)]
    again.ack()
    assert stage.lag("readers") == 0


# documented limits


def _recover(stage: Stage) -> int:
    producer = mqpg.TransactionalProducer(stage.mq, group="shop", ledger=stage.engine)
    return producer.recover(older_than=timedelta(0))


def test_1_3_21_what_is_checked_or_retried_often_takes_effect_once(stage: Stage) -> None:
    """Three recoveries and two checkers run at the same time.

    RocketMQ documents that a message may be checked and consumed more than once.
    """
    for id in (1, 2, 3):
        stage.killed("sell", "before", "mqpg:Client.commit", id=id)
    handles = [row[0] for row in stage.shop.rows("select handle from mqpg_ledger where entry = 'local'")]
    with stage.compensator(), stage.compensator(), ThreadPoolExecutor() as pool:
        holder = stage.broker.session()
        with holder.transaction() as undecided:
            # All of them meet at this decision, which is never committed, and continue at the same time.
            holder.execute("select mqpg.rollback_batch(%s)", handles)
            recoveries = [pool.submit(_recover, stage) for _ in range(3)]
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'commit_batch'"
            eventually(lambda: stage.sql.scalar(waiting) == 3)
            asked = "select count(distinct message_id) from mqpg.check_log where event = 'asked'"
            stage.overdue_now()
            eventually(lambda: stage.sql.scalar(asked) == 3)
            undecided.force_rollback = True
        assert [recovery.result(30) for recovery in recoveries] == [3, 3, 3]
        eventually(lambda: stage.pending() == [])
    assert [op for op, _ in filter(None, map(stage.decision, handles))] == ["c", "c", "c"]
    stage.append()
    for _ in range(2):
        stage.finished("consume_there")
    assert stage.effects() == [1, 2, 3]
    stage.exactly_once([1, 2, 3])


def test_1_3_22_one_group_serves_every_kind_of_message(stage: Stage) -> None:
    """One group serves all kinds.

    In RocketMQ a producer group may not be shared with other kinds.
    """
    stage.mq.create_topic("other")
    stage.mq.subscribe("readers", "other")
    stage.sell(1)
    stage.sell(2, delay=0.05)
    stage.mq.send("orders", {"id": 3})
    stage.mq.commit(stage.mq.prepare("other", {"id": 4}, "shop"))
    got: list[int] = []
    eventually(lambda: got.extend(stage.delivered()) or len(got) == 3, interval=0.05)
    assert sorted(got) == [1, 2, 3]
    assert [m.payload for m in stage.mq.receive("readers", "other")] == [{"id": 4}]


@pytest.mark.chaos
def test_1_3_23_submission_that_fails_for_a_while_arrives(crashing: CrashingStage) -> None:
    """The broker crashes while the commit is under way.

    The library repeats it, and the outcome says that it is made.
    """
    stage = crashing.stage
    with mqpg.connect(stage.dsn, retry_timeout=30) as mq:
        handle = mq.prepare("orders", {"id": 1}, "shop")
        holder = psycopg.connect(stage.dsn)
        holder.execute("select mqpg.rollback(%s)", [handle])  # uncommitted: the commit below must wait for it
        outcome: list[mqpg.Outcome] = []
        committing = threading.Thread(target=lambda: outcome.append(mq.commit(handle)))
        committing.start()
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        eventually(lambda: stage.sql.scalar(waiting))
        with cut_off():
            crashing.crash()
            holder.execute("select 1")
        holder.close()
        committing.join(30)
    assert outcome == [mqpg.Outcome.COMMITTED]
    assert stage.delivered() == [1]


def test_1_3_24_answer_that_nobody_asked_for_is_refused(app: Stage) -> None:
    """Re-arming or answering for a half that is not parked, not asked about, or not there is an
    error that says which.
    """
    handle = app.sql.prepare("orders", "{}", "app", check_after=seconds(3600))
    with refused("MQ018", "not parked"):
        app.sql.call("rearm", handle)
    with refused("MQ018", "not handed out"):
        app.sql.call("check_wait", handle)
    with refused("MQ006"):
        app.sql.call("rearm", handle[:-1])


# a standby


def _sell_until_lost(dsn: str, shop: str, ids: Iterator[int], lost: threading.Event) -> None:
    """Sell until the broker is lost. Only mqpg makes these sessions wait for the standby."""
    hasty = make_conninfo(dsn, application_name="seller", options="-c synchronous_commit=off")
    with (
        mqpg.connect(hasty, **IMPATIENT) as mq,
        mqpg.TransactionalProducer(mq, group="shop", ledger=shop) as producer,
    ):
        while not lost.is_set():
            id = next(ids)
            with (
                suppress(errors.ConnectionFailed),
                producer.transaction("orders", {"id": id}, key=str(id % 7)) as tx,
            ):
                tx.execute(SALE, {"id": id})


def _consume_until(dsn: str, done: Callable[[], bool]) -> None:
    """Append, and consume with an effect in the broker's database (C1), until that is done. A broker that does not answer
    in time is tried again.
    """

    @mqpg.consumer("orders", group="effects")
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into effect values (%s)", [message.payload["id"]])

    with mqpg.connect(dsn, **IMPATIENT) as mq:
        while not done():
            with suppress(errors.ConnectionFailed):
                mq.append()
                handle.step(mq)


@pytest.mark.chaos
def test_1_3_25_primary_and_its_disk_are_lost(pair: Pair, shop_dsn: str) -> None:
    """Sellers and a consumer work on the primary. It is killed with SIGKILL while all sellers wait for the standby, and its
    data are deleted. The standby is promoted and continues: each sale has its effect once.

    Mutations that this notices: prepare() does not call _force_sync(); adopt() leaves the claims.
    """
    primary = pair.primary.dsn("broker")
    stage = Stage(primary, shop_dsn)
    stage.sell_here()
    for group in ("effects", "slow"):
        stage.mq.subscribe(group, "orders")
    lost = threading.Event()
    with ThreadPoolExecutor() as pool, ExitStack() as ending:
        ending.callback(lost.set)  # also if the test fails, or the pool waits for ever
        sellers = [
            pool.submit(_sell_until_lost, primary, stage.shop_url, itertools.count(n, 3), lost) for n in range(3)
        ]
        consumer = pool.submit(_consume_until, primary, lost.is_set)
        eventually(lambda: len(stage.effects_and_lag("effects")[0]) > 10)
        held = stage.mq.receive("slow", "orders", lease=600)
        assert held
        pair.freeze_replication()
        waiting = "select count(*) from pg_stat_activity where application_name = 'seller' and wait_event = 'SyncRep'"
        eventually(lambda: stage.sql.scalar(waiting) == 3)
        pair.destroy_primary()
        lost.set()
        for worker in (*sellers, consumer):
            worker.result(30)
    stage.close()

    promoted = pair.promote().dsn("broker")
    with psycopg.connect(promoted, autocommit=True) as conn:
        conn.execute("select mqpg.adopt()")
    stage = Stage(promoted, shop_dsn)
    try:
        stage.recover()
        stage.check_back()
        _consume_until(promoted, lambda: stage.append() is None and stage.effects_and_lag("effects")[1] == 0)
        assert stage.effects_and_lag("effects")[0] == stage.sold()
        with pytest.raises(errors.StaleReceipt):
            stage.mq.ack_delivery(str(held[0].receipt))
        assert sorted(m.payload["id"] for m in stage.sql.drain("orders", group="slow")) == stage.sold()
        stage.exactly_once(stage.sold())
        stage.consistent()
    finally:
        stage.close()
