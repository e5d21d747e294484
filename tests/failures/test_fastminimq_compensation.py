"""FastMiniMQ's compensation (QoS 1).

The steps are P1 message stored with the business, P2 P3 sent, P4 deleted. The loop sends again what
is stored. FastMiniMQ requires an idempotent consumer. In mqpg the message's own id is its dedup id,
so the broker absorbs a repetition within the dedup window.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest

import mqpg
from tests.failures.stage import IMPATIENT, SALE, Stage, taken, two_brokers
from tests.support.waiting import eventually

STEPS = "mqpg._sync.producer.outbox"
NOW = timedelta(0)


@pytest.mark.parametrize("fail", [False, True])
def test_1_1_C1_producer_dies_before_it_sent(stage: Stage, fast: mqpg.protocols.OutboxProducer, fail: bool) -> None:
    """The message is stored exactly when the business is done, and the loop sends it."""
    step = ("after", "mqpg.protocols:OutboxProducer.send") if fail else ("before", f"{STEPS}:send_message")
    stage.killed("sell_compensated", *step, id=1, fail=fail)
    assert stage.outbox() == ([] if fail else ["send"])
    assert stage.delivered() == []
    assert fast.recover(older_than=NOW) == int(not fail)
    assert stage.outbox() == []
    stage.exactly_once([] if fail else [1])


@pytest.mark.parametrize("arrived", [True, False])
def test_1_1_C2_message_or_its_answer_lost(stage: Stage, fast: mqpg.protocols.OutboxProducer, arrived: bool) -> None:
    with stage.through_proxy(**IMPATIENT) as (cut, mq), stage.stored(mq) as producer:
        with stage.engine.begin() as conn:
            conn.execute(SALE, {"id": 1})
            producer.send("orders", {"id": 1}, conn=conn)
        mq.append()
        cut.cut_at(b"mqpg.send", forward=arrived, stay_down=True)
        with pytest.raises(mqpg.ConnectionFailed):
            producer.recover(older_than=NOW)
        assert cut.cuts == 1
    assert stage.outbox() == ["send"]
    if arrived:
        eventually(lambda: stage.sql.scalar("select count(*) from mqpg.commit_log") == 1)
    assert fast.recover(older_than=NOW) == 1
    assert stage.outbox() == []
    stage.exactly_once([1])


@pytest.mark.parametrize(
    ("when", "step"),
    [("after", "mqpg:Client.send"), ("before", f"{STEPS}:delete_message"), ("after", f"{STEPS}:delete_message")],
    ids=["answer not seen", "not deleted", "deleted"],
)
def test_1_1_C3_producer_dies_after_it_sent(
    stage: Stage, fast: mqpg.protocols.OutboxProducer, when: str, step: str
) -> None:
    """A message that is not deleted is sent again, found by its id, and then deleted."""
    stage.killed("sell_compensated", when, step, id=1)
    left = len(stage.outbox())
    assert left == int((when, step) != ("after", f"{STEPS}:delete_message"))
    assert fast.recover(older_than=NOW) == left
    assert stage.outbox() == []
    stage.exactly_once([1])


def test_1_1_C4_broker_away_is_waited_for(stage: Stage, new_database: Callable[..., str]) -> None:
    """The message is pinned to its broker. All attempts go there, and none to another one.

    Mutation that this notices: Outbox.open_rows() lists the rows of all brokers.
    """
    other = new_database()
    with two_brokers(stage, other) as (cut, brokers, key), stage.stored(brokers) as producer:
        cut.cut_at(b"mqpg.send", forward=False, stay_down=True)
        assert producer.send("orders", {"id": 1}, key=key) is None
        assert producer.recover(older_than=NOW) == 0
        assert stage.outbox() == ["send"]
        cut.down = False
        eventually(lambda: stage.recovered(producer))
    assert (stage.outbox(), stage.delivered(), taken(other)) == ([], [1], [])
