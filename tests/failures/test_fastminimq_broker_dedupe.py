"""FastMiniMQ with dedupe at the broker: every way in which a party can fail between P1 and S3.

In mqpg's protocol T2 the broker gives the handle, so PREPARE (P2, P3) comes first and P1 is merged into P4, the one
local transaction: ledger row and business. P5 and P6 are `commit` or `rollback`, P7 is the ledger's mark `done_at`.
"""

from __future__ import annotations

import pytest

import mqpg
from mqpg import errors
from tests.failures.stage import Stage
from tests.sql.harness import eventually

STEPS = "mqpg._sync.transactional"


def done(stage: Stage) -> list[bool]:
    """Of each ledger row, whether P7 has happened."""
    return [row[0] for row in stage.shop.rows("select done_at is not null from mqpg_ledger order by created_at")]


def test_1_1_E1_producer_dies_before_it_stored_anything(stage: Stage) -> None:
    stage.killed("sell", "before", f"{STEPS}:prepare_half", id=1)
    assert stage.sql.scalar("select count(*) from mqpg.commit_log") == 0
    assert done(stage) == []
    stage.exactly_once([])


@pytest.mark.parametrize("arrived", [True, False])
def test_1_1_E3_prepare_or_its_reply_lost_is_absorbed(stage: Stage, arrived: bool) -> None:
    """The producer asks again; a half that only the broker knows of stays invisible and is rolled back."""
    with stage.through_proxy() as (cut, mq), mqpg.TransactionalProducer(mq, group="shop", ledger=stage.engine) as made:
        cut.cut_at(b"mqpg.prepare", forward=arrived)
        handle = stage.sell(1, producer=made)
        assert cut.cuts == 1
    halves = "select count(*) from mqpg.commit_log where kind = 'h'"
    eventually(lambda: stage.sql.scalar(halves) == 1 + arrived)
    stage.check_back()
    assert stage.decision(handle) == ("c", "producer")
    assert stage.sql.scalar("select count(*) from mqpg.op_log where op = 'b'") == int(arrived)
    stage.exactly_once([1])


def test_1_1_E4_orphan_prepare_stays_invisible_and_ends(stage: Stage) -> None:
    """The producer dies between P3 and the local transaction. The check-back ends it, long before the log expires."""
    stage.killed("sell", "after", f"{STEPS}:prepare_half", id=1)
    assert len(stage.pending()) == 1
    assert stage.delivered() == []
    stage.check_back()
    assert [row.op for row in stage.sql.rows("select op::text from mqpg.op_log")] == ["b"]
    stage.exactly_once([])


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_1_1_E5_decision_lost_on_its_way_is_sent_again(stage: Stage, decision: str) -> None:
    settings = {"retry_timeout": 0.2, "pool_timeout": 0.2, "connect_timeout": 1}
    with stage.through_proxy(**settings) as (cut, mq):
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=stage.engine)
        cut.cut_at(f"mqpg.{decision}".encode(), forward=False, stay_down=True)
        if decision == "commit":
            stage.sell(1, producer=producer)
        else:
            with pytest.raises(ValueError, match="no"), producer.transaction("orders", {"id": 1}):
                raise ValueError("no")
        assert cut.cuts == 1
    assert stage.sql.scalar("select count(*) from mqpg.op_log") == 0
    assert stage.recover() == int(decision == "commit")
    if decision == "rollback":
        stage.check_back()
    stage.exactly_once([1] if decision == "commit" else [])


def test_1_1_E6_reply_to_the_decision_lost_delivers_once(stage: Stage) -> None:
    settings = {"retry_timeout": 0.2, "pool_timeout": 0.2, "connect_timeout": 1}
    with stage.through_proxy(**settings) as (cut, mq):
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=stage.engine)
        cut.cut_at(b"mqpg.commit", forward=True, stay_down=True)
        handle = stage.sell(1, producer=producer)
        assert cut.cuts == 1
    eventually(lambda: stage.decision(handle))
    assert stage.delivered() == [1]
    assert stage.recover() == 1
    assert done(stage) == [True]
    assert stage.mq.commit(handle) is mqpg.Outcome.ALREADY_COMMITTED
    assert stage.delivered() == []
    assert stage.pending() == []


def test_1_1_E7_producer_dies_before_it_noted_that_all_is_done(stage: Stage) -> None:
    stage.killed("sell", "before", f"{STEPS}:mark_done", id=1)
    assert done(stage) == [False]
    assert stage.recover() == 1
    assert done(stage) == [True]
    assert stage.recover() == 0
    stage.exactly_once([1])


def test_1_1_E10_consumer_dies_before_its_local_commit(stage: Stage) -> None:
    """Effect and offset are one transaction: both are undone, and the same offset comes again."""
    stage.sell(1)
    stage.append()
    stage.killed("consume_there", "after", "mqpg._sync.offsets:Offsets.move")
    assert stage.effects() == []
    stage.finished("consume_there")
    assert stage.effects() == [1]


def test_1_1_E11_messages_in_doubt_stay_with_the_dead_consumer(stage: Stage) -> None:
    """It has applied them and died before the broker knew. Nobody else may have them; back again, it goes on."""
    for id in range(4):
        stage.sell(id, key="same")
    stage.append()
    stage.killed("consume_there", "before", "mqpg:Client.ack", consumer="one")
    assert stage.effects() == [0, 1, 2, 3]
    stage.sell(4, key="same")
    stage.append()
    stage.finished("consume_there", consumer="two")
    assert stage.effects() == [0, 1, 2, 3]
    stage.finished("consume_there", consumer="one")
    assert stage.effects() == [0, 1, 2, 3, 4]


def test_1_1_E14_message_that_cannot_be_routed_is_never_recorded(stage: Stage) -> None:
    with pytest.raises(errors.UnknownTopic), stage.producer.transaction("nowhere", {"id": 1}):
        raise AssertionError("the local transaction must not begin")
    assert done(stage) == []
    assert stage.sql.scalar("select count(*) from mqpg.commit_log") == 0
