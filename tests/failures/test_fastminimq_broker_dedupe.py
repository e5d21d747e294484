"""FastMiniMQ with dedupe at the broker: every way in which a party can fail between P1 and S3.

The producer's steps are P1 message stored, P2 P3 PREPARE, P4 business and decision in one local
transaction, P5 P6 COMMIT or ROLLBACK, P7 message deleted. A loop sends again what is stored. The
consumer's steps are S1 S2 messages requested, S3 effect and offset in one transaction.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest

import mqpg
from mqpg import errors
from tests.failures.stage import IMPATIENT, SALE, SHOP_TABLES, Stage, message_id, taken, two_brokers
from tests.support.waiting import eventually

STEPS = "mqpg._sync.producer.outbox"
NOW = timedelta(0)


def sell(producer: mqpg.protocols.OutboxProducer, id: int, *, key: str | None = None, fail: bool = False) -> str:
    """Make one sale. Returns its handle."""
    with producer.transaction("orders", {"id": id}, key=key) as tx:
        tx.execute(SALE, {"id": id})
        if fail:
            raise ValueError("the shop says no")
    return tx.handle


def test_1_1_E1_producer_dies_before_it_stored_anything(stage: Stage, fast: mqpg.protocols.OutboxProducer) -> None:
    stage.killed("sell_stored", "before", f"{STEPS}:store_message", id=1)
    assert stage.sql.scalar("select count(*) from mqpg.commit_log") == 0
    assert stage.outbox() == []
    assert fast.recover(older_than=NOW) == 0
    stage.exactly_once([])


@pytest.mark.parametrize(
    ("when", "step"),
    [("after", f"{STEPS}:store_message"), ("after", "mqpg:Client.prepare"), ("after", f"{STEPS}:prepare_message")],
    ids=["PREPARE not sent", "answer not seen", "answer not stored"],
)
def test_1_1_E2_producer_dies_before_it_knows_of_the_prepare(
    stage: Stage, fast: mqpg.protocols.OutboxProducer, when: str, step: str
) -> None:
    """The loop asks the same broker under the same id and rolls back, because the business was
    never done.
    """
    stage.killed("sell_stored", when, step, id=1)
    assert stage.outbox() == ["stored"]
    assert fast.recover(older_than=NOW) == 1
    assert stage.outbox() == []
    assert stage.sql.scalar("select count(*) from mqpg.commit_log where kind = 'h'") == 1
    stage.exactly_once([])


@pytest.mark.parametrize("arrived", [True, False])
def test_1_1_E3_prepare_or_its_reply_lost_is_absorbed(stage: Stage, arrived: bool) -> None:
    """A PREPARE that is sent again under the same id finds the first one.

    There is one half and one message.
    """
    with stage.through_proxy() as (cut, mq), stage.stored(mq) as producer:
        cut.cut_at(b"mqpg.prepare", forward=arrived)
        handle = sell(producer, 1)
        assert cut.cuts == 1
    assert stage.sql.scalar("select count(*) from mqpg.commit_log where kind = 'h'") == 1
    assert stage.decision(handle) == ("c", "producer")
    stage.exactly_once([1])


def test_1_1_E4_orphan_of_the_merged_variant_stays_invisible(stage: Stage, fast: mqpg.protocols.OutboxProducer) -> None:
    """A merged P1 and P4 saves a local transaction, and a crash then leaves a PREPARE that no row
    names. It is listed, it is never delivered, and a person ends it. FastMiniMQ waits until the log
    expires.
    """
    stage.killed("sell_stored", "after", f"{STEPS}:prepare_message", id=1, merged=True)
    assert stage.outbox() == []
    assert fast.recover(older_than=NOW) == 0
    (orphan,) = stage.pending()
    assert stage.delivered() == []
    assert stage.mq.settle(orphan.handle, "rollback", "its producer died") is mqpg.Outcome.ROLLED_BACK
    stage.exactly_once([])
    _checked_by_a_function(stage)


def _checked_by_a_function(stage: Stage) -> None:
    """Where the outbox is in the broker's database, a SQL function can answer the check-back from its rows.

    It ends the orphan, and commits a half whose row is there and whose COMMIT was lost.
    """
    stage.sql.execute(SHOP_TABLES)
    with mqpg.protocols.OutboxProducer(stage.mq, database=stage.dsn) as producer:
        producer.create_outbox()
    stage.sql.execute(
        "create function public.answer(handle text, key text, headers jsonb, payload json) returns mqpg.verdict security definer"
        " return (case when exists (select from public.mqpg_outbox as o where o.handle = answer.handle)"
        " then 'commit' else 'rollback' end)::mqpg.verdict"
    )
    stage.mq.alter_producer_group("fast", check_after="10 ms", checker="function", checker_target="public.answer")
    stage.killed("sell_stored", "after", f"{STEPS}:prepare_message", shop=stage.dsn, id=2, merged=True)
    stage.killed("sell_stored", "before", "mqpg:Client.commit", shop=stage.dsn, id=3, merged=True)
    orphan, lost = sorted((half.handle for half in stage.pending()), key=message_id)
    assert stage.delivered() == []
    stage.check_back()
    assert (stage.decision(orphan), stage.decision(lost)) == (("b", "checker"), ("c", "checker"))
    assert (stage.sold_here(), stage.delivered()) == ([3], [3])


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_1_1_E5_decision_lost_on_its_way_is_sent_again(
    stage: Stage, fast: mqpg.protocols.OutboxProducer, decision: str
) -> None:
    with stage.through_proxy(**IMPATIENT) as (cut, mq), stage.stored(mq) as producer:
        cut.cut_at(f"mqpg.{decision}".encode(), forward=False, stay_down=True)
        if decision == "commit":
            sell(producer, 1)
        else:
            with pytest.raises(ValueError, match="no"):
                sell(producer, 1, fail=True)
        assert cut.cuts == 1
    assert stage.outbox() == [decision]
    assert stage.sql.scalar("select count(*) from mqpg.op_log") == 0
    assert fast.recover(older_than=NOW) == 1
    assert stage.outbox() == []
    stage.exactly_once([1] if decision == "commit" else [])


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_1_1_E6_reply_to_the_decision_lost_delivers_once(
    stage: Stage, fast: mqpg.protocols.OutboxProducer, decision: str
) -> None:
    """The broker has the decision and says so again.

    The loop hears that it is made, and deletes the row.
    """
    with stage.through_proxy(**IMPATIENT) as (cut, mq), stage.stored(mq) as producer:
        cut.cut_at(f"mqpg.{decision}".encode(), forward=True, stay_down=True)
        try:
            sell(producer, 1, fail=decision == "rollback")
        except ValueError:
            assert decision == "rollback"
        assert cut.cuts == 1
    eventually(lambda: stage.sql.scalar("select count(*) from mqpg.op_log") == 1)
    assert fast.recover(older_than=NOW) == 1
    assert stage.outbox() == []
    stage.exactly_once([1] if decision == "commit" else [])


@pytest.mark.parametrize("fail", [False, True])
def test_1_1_E7_producer_dies_before_it_deleted_the_message(
    stage: Stage, fast: mqpg.protocols.OutboxProducer, fail: bool
) -> None:
    stage.killed("sell_stored", "before", f"{STEPS}:delete_message", id=1, fail=fail)
    assert stage.outbox() == ["rollback" if fail else "commit"]
    assert fast.recover(older_than=NOW) == 1
    assert fast.recover(older_than=NOW) == 0
    assert stage.outbox() == []
    stage.exactly_once([] if fail else [1])


@pytest.mark.parametrize("arrived", [True, False])
def test_1_1_E8_failover_between_the_phases_cannot_double(
    stage: Stage, new_database: Callable[..., str], arrived: bool
) -> None:
    """Broker A times out on PREPARE, and B is chosen.

    From then on the transaction is B's, and what A may have is rolled back.
    """
    other = new_database()
    with two_brokers(stage, other) as (cut, brokers, key), stage.stored(brokers) as producer:
        cut.cut_at(b"mqpg.prepare", forward=arrived, stay_down=True)
        handle = sell(producer, 1, key=key)
        assert handle.split(".")[0] != stage.mq.info().broker_id
        assert stage.mq.commit(handle) is mqpg.Outcome.UNKNOWN
        cut.down = False
        eventually(lambda: stage.recovered(producer))
    assert stage.outbox() == []
    assert (stage.sold(), stage.delivered(), stage.pending()) == ([1], [], [])
    assert taken(other) == [1]


def test_1_1_E9_broken_broker_is_left_out_and_tried_again(stage: Stage, new_database: Callable[..., str]) -> None:
    """The rows of the broken broker wait, and others continue.

    When it is back, its rows go to it alone.
    """
    other = new_database()
    with two_brokers(stage, other) as (cut, brokers, key), stage.stored(brokers) as producer:
        cut.cut_at(b"mqpg.commit", forward=False, stay_down=True)
        sell(producer, 1, key=key)
        sell(producer, 2, key=key)
        assert producer.recover(older_than=NOW) == 0
        assert stage.outbox() == ["commit"]
        assert (stage.delivered(), taken(other)) == ([], [2])
        cut.down = False
        eventually(lambda: stage.recovered(producer))
    assert stage.outbox() == []
    assert (stage.sold(), stage.delivered(), taken(other)) == ([1, 2], [1], [])


def test_1_1_E10_consumer_dies_before_its_local_commit(stage: Stage) -> None:
    """Effect and offset are one transaction.

    Both are undone, and the same offset is delivered again.
    """
    stage.sell(1)
    stage.append()
    stage.killed("consume_there", "after", "mqpg._sync.stores.offsets:Offsets.move")
    assert stage.effects() == []
    stage.finished("consume_there")
    assert stage.effects() == [1]


def test_1_1_E11_messages_in_doubt_stay_with_the_dead_consumer(stage: Stage) -> None:
    """The consumer applied the messages and died before the broker knew.

    No other consumer may get them. When it is back it continues.
    """
    for id in range(4):
        stage.sell(id, key="same")
    stage.append()
    stage.killed("consume_there", "before", "mqpg:Client.ack_delivery", consumer="one")
    assert stage.effects() == [0, 1, 2, 3]
    stage.sell(4, key="same")
    stage.append()
    stage.finished("consume_there", consumer="two")
    assert stage.effects() == [0, 1, 2, 3]
    stage.finished("consume_there", consumer="one")
    assert stage.effects() == [0, 1, 2, 3, 4]


def test_1_1_E14_message_that_cannot_be_routed_is_never_recorded(
    stage: Stage, fast: mqpg.protocols.OutboxProducer
) -> None:
    """There is no such topic, or no broker at all.

    The local transaction does not begin, and nothing stays stored.
    """
    with pytest.raises(errors.UnknownTopic), fast.transaction("nowhere", {"id": 1}):
        raise AssertionError("the local transaction must not begin")
    with pytest.raises(errors.UnknownTopic):
        fast.send("nowhere", {"id": 1})
    nobody = mqpg.protocols.Brokers(["postgresql://postgres@127.0.0.1:1/x"], **IMPATIENT)
    with (
        stage.stored(nobody) as producer,
        pytest.raises(errors.ConnectionFailed),
        producer.transaction("orders", {"id": 1}),
    ):
        raise AssertionError("the local transaction must not begin")
    assert stage.outbox() == []
    assert stage.sql.scalar("select count(*) from mqpg.commit_log") == 0
