"""RocketMQ without check-back: lost commits are found by a set difference of unique keys.

RocketMQ needs a second topic, two sets in Redis and a timer for that. mqpg has one anti-join of the
ledger and the decisions (protocol T6), in SQL for a ledger in the broker's database and by a
Reconciler for one in another database.
"""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

import mqpg
from mqpg import errors
from tests.failures.stage import IMPATIENT, SALE, CrashingStage, Stage, message_id
from tests.support.broker import refused
from tests.support.waiting import eventually

STEPS = "mqpg._sync.producer.transactional"


@pytest.fixture
def unchecked(stage: Stage) -> Stage:
    """There are no check-backs: the group `shop` waits for an app that never polls."""
    stage.mq.alter_producer_group("shop", check_after="1 h", checker="due_checks")
    return stage


def reconciler(stage: Stage, older_than: float = 0, **options: Any) -> mqpg.protocols.Reconciler:
    return mqpg.protocols.Reconciler(stage.mq, stage.engine, older_than=timedelta(seconds=older_than), **options)


def committed(stage: Stage, id: int) -> str:
    """Make a sale whose local transaction commits and whose commit is never sent."""
    handle = stage.sql.prepare("orders", f'{{"id": {id}}}', "shop", key=str(id))
    with stage.engine.begin() as local:
        stage.ledger.begin(local, handle, "orders")
        local.execute(SALE, {"id": id})
    return handle


def test_1_5_1_producer_dies_after_its_local_commit(unchecked: Stage) -> None:
    """The producer dies before it sends its commit or its unique key.

    The ledger has the row, whereas RocketMQ never notices.
    """
    unchecked.killed("sell", "after", f"{STEPS}:commit_local", id=1)
    (hit,) = reconciler(unchecked).step()
    assert (hit.topic, hit.key, hit.state, hit.outcome) == ("orders", "1", "undecided", mqpg.Outcome.COMMITTED)
    assert reconciler(unchecked).step() == []
    unchecked.exactly_once([1])


def test_1_5_2_commit_is_lost(unchecked: Stage) -> None:
    with unchecked.through_proxy(**IMPATIENT) as (cut, mq):
        cut.cut_at(b"mqpg.commit", forward=False, stay_down=True)
        handle = unchecked.sell(1, producer=mqpg.TransactionalProducer(mq, group="shop", ledger=unchecked.engine))
    assert [hit.handle for hit in reconciler(unchecked).step()] == [handle]
    unchecked.exactly_once([1])


def test_1_5_3_rollback_is_lost(unchecked: Stage) -> None:
    """There is no ledger row, so the half is no hit and is never delivered.

    A check-back ends it where there is one.
    """
    unchecked.killed("sell", "before", "mqpg:Client.rollback", id=1, fail=True)
    assert reconciler(unchecked).step() == []
    assert unchecked.delivered() == []
    (half,) = unchecked.pending()
    assert unchecked.mq.rollback(half.handle) is mqpg.Outcome.ROLLED_BACK
    unchecked.exactly_once([])


def test_1_5_4_nothing_is_found_by_mistake(unchecked: Stage) -> None:
    """An open local transaction, a young row and a commit under way are no hits.

    Two unordered streams give false hits in RocketMQ.
    """
    still_open = unchecked.sql.prepare("orders", '{"id": 1}', "shop")
    young = committed(unchecked, 2)
    under_way = committed(unchecked, 3)
    committer = unchecked.broker.session()
    with unchecked.engine.connect() as local:
        unchecked.ledger.begin(local, still_open, "orders")
        assert reconciler(unchecked, older_than=60).step() == []
        with committer.transaction():
            committer.commit(under_way)
            hits: list[Any] = []
            looking = threading.Thread(target=lambda: hits.extend(reconciler(unchecked).step()))
            looking.start()
            waiting = (
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            )
            eventually(lambda: unchecked.sql.scalar(waiting))
        looking.join(45)
        local.rollback()
    outcomes = {hit.handle: hit.outcome for hit in hits}
    assert outcomes == {young: mqpg.Outcome.COMMITTED, under_way: mqpg.Outcome.ALREADY_COMMITTED}
    assert unchecked.decision(still_open) is None
    assert unchecked.delivered() == [2, 3]


def test_1_5_5_several_workers_at_once_double_nothing(unchecked: Stage) -> None:
    """All of them have compared, and commit the same half, before one of them may continue.

    Mutations that this notices: _decide() takes no lock on the half, or does not look at its decision again.
    """
    ids = list(range(12))
    handles = [committed(unchecked, id) for id in ids]
    holder = unchecked.broker.session()
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    with ThreadPoolExecutor() as pool:
        with holder.transaction() as undecided:
            holder.rollback(handles[0])
            working = [pool.submit(reconciler(unchecked, page=5).step) for _ in range(3)]
            eventually(lambda: unchecked.sql.scalar(waiting) == 3)
            undecided.force_rollback = True
        found = [hit for worker in working for hit in worker.result(30)]
    assert Counter(hit.handle for hit in found if hit.outcome is mqpg.Outcome.COMMITTED) == Counter(handles)
    assert {hit.outcome for hit in found} <= {mqpg.Outcome.COMMITTED, mqpg.Outcome.ALREADY_COMMITTED}
    unchecked.exactly_once(ids)


@pytest.mark.parametrize(
    ("when", "step"),
    [("after", "mqpg:Client.half_states"), ("before", "mqpg:Client.commit"), ("after", "mqpg:Client.commit")],
    ids=["compared", "looked up", "one settled"],
)
def test_1_5_6_worker_dies_in_the_middle(unchecked: Stage, when: str, step: str) -> None:
    """The next worker repeats the comparison.

    RocketMQ must delete consumed keys atomically, or the difference is wrong.
    """
    for id in (1, 2, 3):
        committed(unchecked, id)
    unchecked.killed("reconcile", when, step)
    settled = unchecked.sql.scalar("select count(*) from mqpg.op_log")
    assert settled == int((when, step) == ("after", "mqpg:Client.commit"))
    assert len(reconciler(unchecked).step()) == 3 - settled
    unchecked.exactly_once([1, 2, 3])


@pytest.mark.chaos
def test_1_5_7_database_away_suspends_and_resumes(crashing: CrashingStage, caplog: pytest.LogCaptureFixture) -> None:
    """The broker is unreachable, then the ledger.

    The worker waits, guesses nothing, and finds everything afterwards.
    """
    stage = crashing.stage
    stage.mq.alter_producer_group("shop", check_after="1 h", checker="due_checks")
    committed(stage, 1)
    stop = threading.Event()
    with mqpg.connect(stage.dsn, **IMPATIENT) as mq:
        worker = mqpg.protocols.Reconciler(mq, stage.engine, older_than=timedelta(0))
        crashing.server.stop("immediate")
        with pytest.raises(errors.ConnectionFailed):
            worker.step()
        running = threading.Thread(target=worker.run, args=(stop, 0.05))
        running.start()
        try:
            failed = "failed and is tried again"
            eventually(lambda: caplog.text.count(failed) >= 2)
            crashing.server.start()
            stage.reconnect()
            eventually(lambda: stage.sql.scalar("select count(*) from mqpg.op_log") == 1)
            with stage.shop_away():
                before = caplog.text.count(failed)
                eventually(lambda: caplog.text.count(failed) >= before + 2)
            committed(stage, 2)
            eventually(lambda: stage.sql.scalar("select count(*) from mqpg.op_log") == 2)
        finally:
            stop.set()
            running.join(30)
    stage.exactly_once([1, 2])


def test_1_5_8_consumer_dies_with_messages_in_hand(unchecked: Stage) -> None:
    """The message is applied once, because effect and position are one transaction.

    RocketMQ rebalances and may apply it twice.
    """
    for id in (1, 2):
        committed(unchecked, id)
    reconciler(unchecked).step()
    unchecked.append()
    unchecked.killed("consume_there", "before", "mqpg:Client.ack_delivery")
    for _ in range(2):
        unchecked.finished("consume_there")
    assert unchecked.effects() == [1, 2]


def test_1_5_9_prepared_message_is_found_by_key_and_not_consumed(unchecked: Stage) -> None:
    """The prepared message is found under the id that it keeps after its commit."""
    handle = unchecked.mq.prepare("orders", {"id": 1}, "shop", key="unique")
    assert unchecked.delivered() == []
    (prepared,) = unchecked.mq.find_by_key("orders", "unique")
    assert (prepared.message_id, prepared.queue_offset) == (message_id(handle), None)
    unchecked.mq.commit(handle)
    unchecked.append()
    (message,) = unchecked.mq.receive("readers", "orders")
    (found,) = unchecked.mq.find_by_key("orders", "unique")
    assert message.message_id == found.message_id == prepared.message_id
    assert prepared.state != found.state


def test_1_5_10_rolled_back_message_has_no_place(unchecked: Stage) -> None:
    handle = unchecked.mq.prepare("orders", {"id": 1}, "shop", key="unique")
    unchecked.mq.rollback(handle)
    unchecked.append()
    (found,) = unchecked.mq.find_by_key("orders", "unique")
    assert (found.state, found.queue_offset) == ("rolled_back", None)
    assert reconciler(unchecked).step() == []
    assert unchecked.delivered() == []


def test_1_5_11_no_stored_message_is_changed(unchecked: Stage) -> None:
    """No stored row is ever changed.

    In RocketMQ check-backs changed the prepared message in the log (dirty pages).
    """
    row = "select ctid, xmin, xmax, l::text from mqpg.commit_log l where l.kind = 'h'"
    handle = committed(unchecked, 1)
    before = unchecked.sql.rows(row)
    for _ in range(3):
        unchecked.mq.due_checks("shop", lease=0.01)
        unchecked.overdue_now()
    reconciler(unchecked).step()
    unchecked.mq.commit(handle)
    unchecked.append()
    assert unchecked.sql.rows(row) == before
    unchecked.exactly_once([1])


def test_1_5_12_message_that_the_broker_lost_is_told_and_not_invented(unchecked: Stage) -> None:
    """The broker was restored to an earlier time, or a person decided against the ledger.

    The half is listed for a person.
    """
    with unchecked.sql.transaction() as tx:
        lost = unchecked.sql.prepare("orders", "{}", "shop")
        tx.force_rollback = True
    with unchecked.engine.begin() as local:
        unchecked.ledger.begin(local, lost, "orders")
    overruled = committed(unchecked, 1)
    unchecked.mq.settle(overruled, "rollback", "by mistake")
    hits = {hit.handle: (hit.state, hit.outcome) for hit in reconciler(unchecked).step()}
    assert hits == {lost: ("absent", None), overruled: ("rolled_back", None)}
    assert unchecked.delivered() == []


def test_1_5_13_ledger_at_the_broker_is_compared_by_one_sql_function(unchecked: Stage) -> None:
    """One call from any language lists the hits.

    A young row is no hit. A hit is looked up, decided, and no longer in the next call.

    Mutation that this notices: _uncommitted_ledger_rows() lists rows of any age.
    """
    unchecked.sell_here()
    unchecked.mq.alter_producer_group("here", checker="due_checks", check_after="1 h")
    unchecked.killed("sell_here", "before", "psycopg:Connection.execute", nth=4, id=1)
    assert unchecked.sql.call("reconcile", "1 h") == []
    (hit,) = unchecked.sql.call("reconcile", "0 s", 100, False)
    assert (hit.topic, hit.state, hit.outcome) == ("orders", "undecided", None)
    (hit,) = unchecked.sql.call("reconcile", "0 s")
    assert hit.outcome == "committed"
    assert unchecked.sql.call("reconcile", "0 s") == []
    with refused("MQ001"):
        unchecked.sql.call("reconcile", "-1 s")
    assert unchecked.sold_here() == [1]
    unchecked.append()
    assert len(unchecked.mq.receive("readers", "orders")) == 1
