"""Complaints of users of other transactional queues, and what mqpg does in the same situation."""

import subprocess
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection

import mqpg
from mqpg import errors
from tests.failures.actors import EFFECT
from tests.failures.stage import SALE, CrashingStage, Stage, message_id
from tests.support.broker import positions, seconds
from tests.support.waiting import eventually

STEPS = "mqpg._sync.producer.transactional"


@pytest.fixture
def app(stage: Stage) -> Stage:
    """The producer group `app`, which answers by due_checks and has two checks."""
    stage.mq.create_producer_group("app", check_after="10 ms", max_checks=2)
    return stage


def due(stage: Stage, group: str = "app", **named: Any) -> list[mqpg.HalfCheck]:
    """Return the first answer of due_checks that is not empty."""
    found: list[mqpg.HalfCheck] = eventually(lambda: stage.mq.due_checks(group, **named))
    return found


def parked(stage: Stage) -> str:
    """Return a half of `app` that is parked because no app answered."""
    handle = stage.sql.prepare("orders", '{"id": 1}', "app")
    for _ in range(2):
        due(stage, lease=0.01)
    eventually(lambda: stage.mq.due_checks("app") == [] and stage.parked())
    return handle


def test_4_1_commit_twice_delivers_once(stage: Stage) -> None:
    """The commit is repeated, raced from two connections, batched, and given another payload.

    There is one op and one message.
    """
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop")
    first, second = stage.broker.session(), stage.broker.session()
    with first.transaction():
        assert first.commit(handle) == "committed"
        racing = stage.broker.background(second.commit, handle)
        stage.broker.wait_blocked(second)
    assert racing.result(45) == "already_committed"
    assert stage.mq.commit(handle, {"id": 2}) == "already_committed"
    assert stage.mq.commit_batch([handle, handle]) == [(handle, mqpg.Outcome.ALREADY_COMMITTED)] * 2
    assert stage.sql.scalar("select count(*) from mqpg.op_log") == 1
    assert stage.delivered() == [1]


def test_4_2_decision_after_a_final_one_is_refused_and_said(app: Stage) -> None:
    """A commit after the check said rollback is refused.

    A commit after too many checks counts, because the half was undecided.
    """
    ruled = app.sql.prepare("orders", '{"id": 9}', "shop")
    app.check_back(until=lambda: app.decision(ruled))
    assert app.mq.commit(ruled) is mqpg.Outcome.ALREADY_ROLLED_BACK
    handle = parked(app)
    assert app.mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert app.parked() == []
    assert app.delivered() == [1]


def test_4_3_checks_end_with_the_decision(app: Stage) -> None:
    """Due times and decisions are the database's, so wrong clocks of clients do not matter.

    Decided halves are not asked about.
    """
    at_once = app.sql.prepare("orders", "{}", "app")
    app.mq.commit(at_once)
    asked = app.sql.prepare("orders", "{}", "app")
    due(app, lease=0.01)
    app.mq.rollback(asked)
    undecided = app.sql.prepare("orders", "{}", "app")
    check = eventually(lambda: (app.overdue_now(), app.mq.due_checks("app"))[1])
    assert [half.handle for half in check] == [undecided]
    assert app.sql.scalar("select count(*) from pgmq.q_mqpg_oplog") == 1
    assert (app.events(at_once), app.events(asked)) == ([], ["asked"])


def test_4_4_lost_commit_with_nobody_to_answer_is_not_lost(stage: Stage) -> None:
    """The ledger's database is unreachable too.

    The half waits, uncounted and never dropped, and the facts decide it.
    """
    stage.killed("sell", "before", "mqpg:Client.commit", id=1)
    (half,) = stage.pending()
    with stage.shop_away(), stage.compensator(heartbeat=0.05):
        eventually(lambda: stage.looked_at("shop") >= 2)
        assert stage.decision(half.handle) is None
        assert all(row.checks == 0 for row in stage.pending())
    stage.check_back()
    assert stage.decision(half.handle) == ("c", "checker")
    stage.exactly_once([1])


def test_4_5_no_flood_of_checks(app: Stage) -> None:
    """Only undecided halves are asked about, in growing pauses, and the log is not rewritten."""
    handles = [row[0] for row in app.sql.call("prepare_batch", "orders", ["{}"] * 300, "app")]
    app.mq.commit_batch(handles[1:])
    size = "select count(*), max(batch_id), pg_total_relation_size('mqpg.commit_log') from mqpg.commit_log"
    before = app.sql.rows(size)
    app.sql.execute("update mqpg.producer_group set check_after = '10 s' where name = 'app'")
    for pause in (10, 20, 40, 80):
        (check,) = due(app)
        assert check.handle == handles[0]
        app.mq.check_wait(handles[0])
        left = app.sql.scalar("select extract(epoch from vt - clock_timestamp())::float from pgmq.q_mqpg_oplog")
        assert pause - 5 < left <= pause
        app.overdue_now()
    assert app.sql.rows(size) == before
    assert app.sql.scalar("select count(*) from mqpg.check_log") == 8


def test_4_6_checks_are_shared_and_cost_what_is_undecided(app: Stage) -> None:
    """Decided halves leave no entry in the op queue.

    Two checkers share the work without waiting for each other.
    """
    handles = [row[0] for row in app.sql.call("prepare_batch", "orders", ["{}"] * 60, "app")]
    app.mq.rollback_batch(handles[:40])
    app.mq.due_checks("shop")  # feeds the queue
    assert app.sql.scalar("select count(*) from pgmq.q_mqpg_oplog") == 20
    app.overdue_now()
    one, two = app.broker.session(), app.broker.session()
    with one.transaction(), two.transaction():
        taken = [row.handle for session in (one, two) for row in session.call("due_checks", "app", 10)]
    assert sorted(taken) == sorted(handles[40:])


def test_4_7_dropping_topics_and_groups_forgets_no_decision(app: Stage) -> None:
    app.mq.create_topic("other")
    app.mq.subscribe("readers", "other")
    decided = app.sql.prepare("orders", '{"id": 1}', "app")
    app.mq.commit(decided)
    undecided = app.sql.prepare("orders", "{}", "app")
    with pytest.raises(errors.TopicInUse, match="undecided"):
        app.mq.drop_topic("orders")
    with pytest.raises(errors.WrongState, match="undecided"):
        app.mq.drop_producer_group("app")
    app.mq.drop_topic("other", force=True)
    app.mq.rollback(undecided)
    app.mq.drop_producer_group("app")
    app.sql.call("compensate")
    assert app.sql.scalar("select count(*) from mqpg.check_log") == 0
    assert app.mq.commit(decided) is mqpg.Outcome.ALREADY_COMMITTED
    assert app.delivered() == [1]


def test_4_8_no_check_is_counted_before_its_time(app: Stage) -> None:
    """Each half has a time of its own. Until then it costs nothing and loses none of its checks."""
    late = app.sql.prepare("orders", '{"id": 1}', "app", check_after=seconds(3600))
    soon = app.sql.prepare("orders", "{}", "app", check_after=seconds(0.05))
    (check,) = due(app)
    assert (check.handle, check.attempt) == (soon, 1)
    app.mq.rollback(soon)
    for _ in range(3):
        assert app.mq.due_checks("app") == []
    assert app.events(late) == []
    app.overdue_now()
    (check,) = due(app)
    assert (check.handle, check.attempt) == (late, 1)
    app.mq.commit(late)
    assert app.delivered() == [1]


def test_4_9_transactional_messages_may_be_delayed(stage: Stage) -> None:
    """The delay counts from the commit, and a half that is rolled back never comes."""
    with stage.producer.transaction("orders", {"id": 1}, delay=0.3) as tx:
        tx.execute(SALE, {"id": 1})
    stage.mq.rollback(stage.mq.prepare("orders", {"id": 2}, "shop", delay=0.01))
    decided = stage.sql.rows("select at, visible_at from mqpg.op_log where op = 'c'")
    assert [row.visible_at - row.at for row in decided] == [seconds(0.3)]
    eventually(lambda: stage.append() or positions(stage.sql, "orders"))
    (appended,) = stage.sql.rows("select at from mqpg.tick where messages > 0")
    assert appended.at >= decided[0].visible_at
    stage.exactly_once([1])


def test_4_10_transactional_messages_keep_the_order_of_their_key(stage: Stage) -> None:
    """Messages of one key keep the order of their decisions in one queue, together with plain
    messages of that key.
    """
    handles = [stage.mq.prepare("orders", {"id": id}, "shop", key="k") for id in range(4)]
    for id in (2, 0):
        stage.mq.commit(handles[id])
    stage.mq.send("orders", {"id": 9}, key="k")
    stage.mq.commit(handles[3])
    stage.append()
    messages = stage.mq.receive("readers", "orders")
    assert [m.payload["id"] for m in messages] == [2, 0, 9, 3]
    assert len({m.queue_id for m in messages}) == 1


def test_4_11_many_halves_are_one_call_over_several_topics(stage: Stage) -> None:
    stage.mq.create_topic("other")
    stage.mq.subscribe("readers", "other")
    handles = stage.mq.prepare_batch("orders", [{"id": id} for id in range(50)], "shop")
    handles += stage.mq.prepare_batch("other", [{"id": 50}], "shop")
    assert {outcome for _, outcome in stage.mq.commit_batch(handles)} == {mqpg.Outcome.COMMITTED}
    assert stage.delivered() == list(range(50))
    assert [m.payload["id"] for m in stage.mq.receive("readers", "other")] == [50]


def test_4_12_check_goes_to_nobody_but_its_group(app: Stage) -> None:
    """The check-back names the half, so an instance that did not produce it finds the answer by the
    handle.
    """
    app.mq.create_producer_group("other", check_after="10 ms")
    mine = app.mq.prepare("orders", {"id": 1}, "app", key="1", headers={"instance": "a"})
    theirs = app.mq.prepare("orders", {"id": 2}, "other")
    (check,) = due(app)
    assert (check.handle, check.key, check.headers, check.payload) == (mine, "1", {"instance": "a"}, {"id": 1})
    (check,) = due(app, "other")
    assert check.handle == theirs
    assert app.mq.due_checks("app") == app.mq.due_checks("other") == []
    assert app.mq.commit_batch([mine, theirs])[1] == (theirs, mqpg.Outcome.COMMITTED)


def test_4_13_producer_that_is_gone_is_not_needed(stage: Stage) -> None:
    """One half committed, one failed, and no producer of the group ever runs again.

    The ledger answers.
    """
    stage.killed("sell", "before", "mqpg:Client.commit", id=1)
    stage.killed("sell", "before", "mqpg:Client.rollback", id=2, fail=True)
    stage.check_back()
    stage.exactly_once([1])


@pytest.mark.chaos
def test_4_14_standby_that_is_down_fails_no_transaction(crashing: CrashingStage) -> None:
    """A commit that must wait for a standby waits.

    It is neither lost nor turned into a rollback.
    """
    stage = crashing.stage
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop")
    stage.sql.execute("alter system set synchronous_standby_names = 'gone'")
    stage.sql.execute("select pg_reload_conf()")
    try:
        committer = stage.broker.session()
        eventually(lambda: committer.scalar("show synchronous_standby_names") == "gone")
        waiting = stage.broker.background(committer.commit, handle)
        event = "select wait_event from pg_stat_activity where pid = %s"
        eventually(lambda: stage.sql.scalar(event, committer.pid) == "SyncRep")
        assert stage.decision(handle) is None
    finally:
        stage.sql.execute("alter system reset synchronous_standby_names")
        stage.sql.execute("select pg_reload_conf()")
    assert waiting.result(45) == "committed"
    assert stage.delivered() == [1]


@pytest.mark.parametrize("commits", ["producer", "recovery", "check-back", "reconciliation"])
def test_4_15_body_may_depend_on_the_local_transaction(stage: Stage, commits: str) -> None:
    """A generated id goes into the final payload, which is in the ledger.

    Whichever party commits has it.
    """
    if commits != "producer":
        stage.killed("sell", "before", "mqpg:Client.commit", id=1, final={"id": 1, "number": 77})
    else:
        with stage.producer.transaction("orders", {"id": 0}) as tx:
            tx.execute(SALE, {"id": 1})
            tx.commit_payload({"id": 1, "number": 77})
    if commits == "recovery":
        assert stage.recover() == 1
    elif commits == "reconciliation":
        assert len(mqpg.protocols.Reconciler(stage.mq, stage.engine, older_than=timedelta(0)).step()) == 1
    stage.check_back()
    stage.append()
    (message,) = stage.mq.receive("readers", "orders")
    assert message.payload == {"id": 1, "number": 77}
    assert stage.sold() == [1]


def test_4_16_stuck_halves_are_listed_and_decided_by_hand(app: Stage) -> None:
    open_half = app.sql.prepare("orders", '{"id": 2}', "app", check_after=seconds(3600))
    stuck = parked(app)
    assert [row.handle for row in app.pending()] == [open_half]
    (row,) = app.parked()
    assert (row.handle, row.producer_group, row.topic, row.checks) == (stuck, "app", "orders", 2)
    app.mq.rearm(stuck)
    assert due(app)[0].attempt == 1
    assert app.mq.settle(stuck, "commit", "the shop's books say so") is mqpg.Outcome.COMMITTED
    assert app.mq.settle(open_half, "rollback", "cancelled") is mqpg.Outcome.ROLLED_BACK
    reasons = app.sql.rows("select decided_by, reason from mqpg.op_log order by message_id desc")
    assert {tuple(r) for r in reasons} == {("admin", "the shop's books say so"), ("admin", "cancelled")}
    assert app.delivered() == [1]


def test_4_17_half_and_message_have_one_id(stage: Stage) -> None:
    """The message has one id, also with a final payload, and is found by key in every state with
    its history.
    """
    handle = stage.mq.prepare("orders", {"id": 0}, "shop", key="k")
    (undecided,) = stage.mq.find_by_key("orders", "k")
    stage.mq.commit(handle, {"id": 1})
    stage.append()
    (message,) = stage.mq.receive("readers", "orders")
    (found,) = stage.mq.find_by_key("orders", "k")
    assert {message.message_id, undecided.message_id, found.message_id} == {message_id(handle)}
    events = [row.event for row in stage.sql.call("trace", message.message_id)]
    assert events == ["prepared", "decided", "appended", "delivered"]


def test_4_18_delayed_message_can_be_taken_back(stage: Stage) -> None:
    recalled = stage.mq.send("orders", {"id": 1}, delay=60)
    late = stage.mq.send("orders", {"id": 2}, delay=0.01)
    eventually(lambda: stage.append() or positions(stage.sql, "orders"))
    assert stage.mq.recall(recalled) is True
    assert stage.mq.recall(late) is False
    with stage.jumped("2 minutes") as ahead:
        assert ahead.append() == 0
    assert stage.delivered() == [2]


def test_4_19_any_language_that_speaks_sql_will_do(stage: Stage, server_bin: Callable[[str], str]) -> None:
    """The whole protocol works in psql: half, local transaction, check-back, commit."""
    stage.sell_here()
    script = """
        select mqpg.prepare('orders', '{"id": 1}', 'here') as handle \\gset
        begin;
        select mqpg.local_begin(:'handle');
        insert into sale values (1);
        commit;
        select mqpg.commit(:'handle') as outcome \\gset
        \\echo :outcome
        select mqpg.commit(:'handle');
    """
    command = [server_bin("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", stage.dsn]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["committed", "already_committed"]
    assert (stage.sold_here(), stage.delivered()) == ([1], [1])


@pytest.mark.parametrize("arrived", [True, False])
def test_4_20_consumer_whose_commit_raised_applies_once(stage: Stage, arrived: bool) -> None:
    """The reply to the COMMIT of effect and offset is lost, and then an attempt is aborted.

    There is one effect.
    """
    stage.sell(1)
    stage.append()
    fail = [False]

    def handle(message: mqpg.Message, conn: Connection) -> None:
        conn.execute(EFFECT, {"id": message.payload["id"]})
        if fail[0]:
            fail[0] = False
            raise ValueError("not this time")

    def consumer(database: Any) -> mqpg.Consumer:
        options = {"group": "there", "database": database, "consumer": "one", "retry_delay": 0.01}
        return mqpg.consumer("orders", **options)(handle)

    with stage.shop_through_proxy() as (cut, producer):
        broken = consumer(producer.ledger.database.engine)
        broken.step(stage.mq)
        stage.sell(2)
        stage.append()
        cut.cut_at(b"COMMIT", forward=arrived)
        with pytest.raises(Exception, match=r"closed|lost|terminat|connection"):
            broken.step(stage.mq)
    again = consumer(stage.engine)
    again.step(stage.mq)
    assert stage.effects() == [1, 2]
    stage.sell(3)
    stage.append()
    fail[0] = True
    again.step(stage.mq)
    assert stage.effects() == [1, 2]
    eventually(lambda: stage.append() or again.step(stage.mq), interval=0.05)
    assert stage.effects() == [1, 2, 3]


def test_4_21_hanging_transaction_holds_up_nobody_else(stage: Stage) -> None:
    """A send is open and a half is undecided.

    Other messages continue, including those of the same key.
    """
    hanging = stage.broker.session()
    stage.mq.prepare("orders", {"id": 90}, "shop", check_after=3600)
    with hanging.transaction() as tx:
        hanging.send("orders", '{"id": 91}', key="k")
        for id in range(5):
            stage.mq.send("orders", {"id": id}, key="k")
        assert stage.delivered() == [0, 1, 2, 3, 4]
        tx.force_rollback = True


def test_4_22_idle_queue_keeps_no_wal_and_needs_no_heartbeat(stage: Stage) -> None:
    """No replication slot holds WAL back, and a call of the appender that finds nothing writes
    nothing.
    """
    stage.mq.send("orders", {"id": 1})
    stage.append()
    assert stage.sql.scalar("select count(*) from pg_replication_slots") == 0
    ticks = "select count(*) from mqpg.tick"
    before = stage.sql.scalar(ticks)
    with stage.sql.transaction():
        for _ in range(10):
            assert stage.sql.append() == 0
        assert stage.sql.scalar("select pg_current_xact_id_if_assigned()") is None
    assert stage.sql.scalar(ticks) == before


def test_4_23_no_endpoint_to_write_and_no_barrier_to_forget(stage: Stage) -> None:
    """The library writes the ledger row first, and the fence answers. The user writes neither."""
    stage.killed("sell", "before", "mqpg:Client.commit", id=1)
    never = stage.sql.prepare("orders", '{"id": 2}', "shop")
    stage.check_back()
    assert stage.decision(never) == ("b", "checker")
    with stage.engine.connect() as late, pytest.raises(errors.Fenced):
        stage.ledger.begin(late, never)
    stage.exactly_once([1])
    stage.shop.execute("alter table mqpg_ledger drop constraint mqpg_ledger_pkey")
    with (
        mqpg.TransactionalProducer(stage.mq, group="shop", ledger=stage.shop_url) as fresh,
        pytest.raises(errors.LedgerError, match="primary key"),
        fresh.transaction("orders", {"id": 3}),
    ):
        raise AssertionError("the local transaction must not begin")
