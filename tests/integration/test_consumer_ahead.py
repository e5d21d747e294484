"""A consumer with its own database goes on where its broker has lost the end of the log (C2).

`tests/failover/test_consumer_ahead.py` does it with a standby that is promoted.
"""

from typing import Any

import pytest
from sqlalchemy import Engine, text

import mqpg
from mqpg import errors, protocols
from tests.support import consuming
from tests.support.business import business
from tests.support.lost_end import Standby

pytestmark = [pytest.mark.shared_database, pytest.mark.usefixtures("topic")]


def consumer(engine: Engine, *, journal: bool = True) -> mqpg.Consumer:
    """Message 13 fails at the first time."""

    @mqpg.consumer("orders", group="g", database=engine, consumer="one", journal=journal, retry_delay=0.01)
    def apply(message: mqpg.Message, conn: Any) -> None:
        if message.payload["id"] == 13 and message.attempt == 1:
            raise ValueError("not at the first time")
        conn.execute(text("insert into business values (:id)"), {"id": message.payload["id"]})

    return apply


def drain(mq: mqpg.Client, engine: Engine, *, journal: bool = True) -> None:
    consuming.drain(consumer(engine, journal=journal), mq)


def send(mq: mqpg.Client, *numbers: int) -> list[int]:
    ids = [mq.send("orders", {"id": number}) for number in numbers]
    mq.append()
    return ids


def test_failed_messages_are_applied_once_too(mq: mqpg.Client, dsn: str, engine: Engine) -> None:
    """One was deferred, and the broker lost its nack. Another one was applied as a retry, and that is lost too."""
    send(mq, 0, 1)
    drain(mq, engine)
    standby = Standby(dsn)
    gone, *_ = send(mq, 2, 13, 3)
    drain(mq, engine)
    assert business(engine) == [0, 1, 2, 3, 13]
    send(mq, 13)
    assert consumer(engine).step(mq) == 1  # fails, and is deferred
    standby.promote(gone)
    send(mq, 4)
    with pytest.raises(errors.OffsetBeyondLog, match="mqpg subscription realign"):
        drain(mq, engine)
    (moved,) = protocols.realign(mq, engine, "g", "orders")
    assert (moved.from_offset, moved.to_offset, moved.next_offset, moved.journaled) == (6, 2, 6, True)
    drain(mq, engine)
    assert business(engine) == [0, 1, 2, 3, 4, 13, 13]
    with engine.connect() as conn:
        rows = conn.execute(text("select queue_offset, message_id from mqpg_applied where queue_id = 0")).all()
    assert {offset for offset, one in rows if one != gone} == {0, 1, 2, 3, 5}


def test_a_message_that_is_sent_again_is_recognised_in_a_queue_that_is_not_ahead(
    mq: mqpg.Client, dsn: str, engine: Engine
) -> None:
    (first,) = send(mq, 0)
    drain(mq, engine)
    mq.send("orders", {"id": 0}, headers={"mqpg-earlier-ids": [first]})
    mq.send("orders", {"id": 1}, headers={"mqpg-earlier-ids": [first + 1024 * 9]})
    for strange in ("mqpg-earlier-ids", ["x", True, 2**70, -1], {"a": 1}):
        mq.send("orders", {"id": 2}, headers={"mqpg-earlier-ids": strange})
    drain(mq, engine)
    assert business(engine) == [0, 1, 2, 2, 2]


def test_a_second_loss_moves_back_to_the_second_adoption(mq: mqpg.Client, dsn: str, engine: Engine) -> None:
    send(mq, 0, 1)
    drain(mq, engine)
    Standby(dsn).promote()
    with mqpg.connect(dsn) as promoted:
        send(promoted, 2, 3)
        drain(promoted, engine)
        assert protocols.realign(promoted, engine, "g", "orders") == []
        standby = Standby(dsn)
        lost = send(promoted, 4, 5)
        drain(promoted, engine)
    standby.promote(lost[0])
    with mqpg.connect(dsn) as promoted:
        send(promoted, 6)
        (moved,) = protocols.realign(promoted, engine, "g", "orders")
        assert (moved.from_offset, moved.to_offset) == (6, 4)
        drain(promoted, engine)
    assert business(engine) == list(range(7))


def test_a_delivery_that_begins_before_the_offset_is_compared_with_it(
    mq: mqpg.Client, dsn: str, engine: Engine
) -> None:
    """Behind a pooler the client's connections outlast a promotion, so that they tell nothing."""
    one = consumer(engine)
    send(mq, 0, 1)
    consuming.drain(one, mq)
    standby = Standby(dsn)
    lost = send(mq, 2, 3)
    consuming.drain(one, mq)
    standby.promote(*lost)
    send(mq, *range(4, 10))
    with pytest.raises(errors.OffsetBeyondLog, match="mqpg subscription realign"):
        one.step(mq)
    protocols.realign(mq, engine, "g", "orders")
    consuming.drain(one, mq)
    assert business(engine) == list(range(10))


def test_a_journal_that_began_too_late_is_none(mq: mqpg.Client, dsn: str, engine: Engine) -> None:
    send(mq, 0, 1)
    drain(mq, engine, journal=False)
    standby = Standby(dsn)
    lost, _ = send(mq, 2, 3)
    drain(mq, engine, journal=False)
    send(mq, 4)
    drain(mq, engine)
    standby.promote(lost)
    send(mq, 5)
    with pytest.raises(errors.WrongState, match="no journal"):
        protocols.realign(mq, engine, "g", "orders")
    (moved,) = protocols.realign(mq, engine, "g", "orders", without_journal="repeat")
    assert not moved.journaled
    drain(mq, engine)
    assert business(engine) == [0, 1, 2, 3, 3, 4, 5]


def test_a_topic_that_was_made_again_is_no_loss(mq: mqpg.Client, dsn: str, engine: Engine) -> None:
    send(mq, 0, 1)
    drain(mq, engine)
    mq.drop_topic("orders", force=True)
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", "pinned")
    send(mq, 2, 3)
    with pytest.raises(errors.OffsetBeyondLog, match="No adoption"):
        protocols.realign(mq, engine, "g", "orders", without_journal="repeat")


def test_a_relay_topic_and_an_unknown_group_are_refused(mq: mqpg.Client, engine: Engine) -> None:
    mq.create_topic("relayed", kind="relay")
    mq.subscribe("g", "relayed", "pinned")
    with pytest.raises(errors.ConfigurationError, match="relays"):
        protocols.realign(mq, engine, "g", "relayed")
    with pytest.raises(errors.UnknownSubscription):
        protocols.realign(mq, engine, "nobody", "orders")


def test_more_earlier_ids_than_a_statement_has_parameters_hold_no_queue_up(mq: mqpg.Client, engine: Engine) -> None:
    (first,) = send(mq, 0)
    drain(mq, engine)
    mq.send("orders", {"id": 0}, headers={"mqpg-earlier-ids": [*range(2**40, 2**40 + 70_000), first]})
    send(mq, 1)
    drain(mq, engine)
    assert business(engine) == [0, 1]
