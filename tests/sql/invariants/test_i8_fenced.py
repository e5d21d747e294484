"""I8 fenced: an action with an old receipt changes nothing and errors."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.support.broker import Broker, Session, refused, seconds

ACTIONS: dict[str, Callable[[Session, str, list[int]], object]] = {
    "ack": lambda mq, receipt, ids: mq.ack(receipt),
    "ack_through": lambda mq, receipt, ids: mq.ack(receipt, through=0),
    "nack": lambda mq, receipt, ids: mq.nack(receipt, ids[:1]),
    "extend": lambda mq, receipt, ids: mq.call("extend", receipt, seconds(60)),
    "release": lambda mq, receipt, ids: mq.call("release", receipt),
}


def state(mq: Session) -> list[object]:
    return [
        mq.rows("select * from mqpg.cursor order by subscription_id, queue_id, version"),
        mq.rows("select * from mqpg.delayed"),
        mq.rows("select * from mqpg.dead_letter"),
    ]


def taken_over(mq: Session) -> tuple[str, str, list[int]]:
    """Return a receipt whose lease ended, the one that took its claim over, and the ids of both."""
    ids = mq.send_batch("one", ["1"] * 4)
    mq.append()
    old = mq.receive("one", lease=seconds(0.01))[0].receipt
    mq.execute("select pg_sleep(0.02)")
    new = mq.receive("one")[0].receipt
    return old, new, ids


@pytest.mark.parametrize("action", ACTIONS)
def test_I8_a_stale_receipt_changes_nothing(mq: Session, action: str) -> None:
    old, new, ids = taken_over(mq)
    before = state(mq)
    with refused("MQ009"):
        ACTIONS[action](mq, old, ids)
    assert state(mq) == before
    mq.ack(new)


@pytest.mark.parametrize("action", ACTIONS)
def test_I8_a_spent_receipt_changes_nothing(mq: Session, action: str) -> None:
    ids = mq.send_batch("one", ["1"] * 4)
    mq.append()
    receipt = mq.receive("one")[0].receipt
    mq.ack(receipt)
    before = state(mq)
    with nullcontext() if action.startswith("ack") else refused("MQ008"):
        ACTIONS[action](mq, receipt, ids)
    assert state(mq) == before


@pytest.mark.parametrize("action", ACTIONS)
def test_I8_a_released_receipt_changes_nothing(mq: Session, action: str) -> None:
    ids = mq.send_batch("one", ["1"] * 4)
    mq.append()
    receipt = mq.receive("one")[0].receipt
    mq.call("release", receipt)
    before = state(mq)
    with refused("MQ008"):
        ACTIONS[action](mq, receipt, ids)
    again = mq.receive("one")
    assert len(again) == 4
    before = state(mq)
    with pytest.raises(Exception) as caught:
        ACTIONS[action](mq, receipt, ids)
    assert caught.value.sqlstate in ("MQ008", "MQ009")  # type: ignore[attr-defined]
    assert state(mq) == before


@pytest.mark.parametrize("action", ACTIONS)
def test_I8_a_receipt_given_out_by_a_rolled_back_receive_is_refused(mq: Session, action: str) -> None:
    ids = mq.send_batch("one", ["1"] * 4)
    mq.append()
    with mq.transaction() as tx:
        receipt = mq.receive("one", max_messages=2)[0].receipt
        tx.force_rollback = True
    before = state(mq)
    with pytest.raises(Exception) as caught:
        ACTIONS[action](mq, receipt, ids)
    assert caught.value.sqlstate in ("MQ007", "MQ008", "MQ009")  # type: ignore[attr-defined]
    assert state(mq) == before


def test_I8_an_old_receipt_does_not_reach_into_a_later_claim_of_another_size(mq: Session) -> None:
    """The range may be cut differently when it is taken over.

    The epoch decides, not the offsets.
    """
    mq.send_batch("one", ["1"] * 4)
    mq.append()
    old = mq.receive("one", lease=seconds(0.01))[0].receipt
    mq.execute("select pg_sleep(0.02)")
    new = mq.receive("one", max_messages=2)[0].receipt
    for through in (None, 0, 1, 3):
        with refused("MQ009"):
            mq.ack(old, through=through)
    mq.ack(new)
    with pytest.raises(Exception) as caught:
        mq.ack(old)
    assert caught.value.sqlstate in ("MQ008", "MQ009")  # type: ignore[attr-defined]
    assert [m.queue_offset for m in mq.receive("one")] == [2, 3]


def test_I8_the_receipt_of_another_group_does_not_help(mq: Session) -> None:
    mq.call("subscribe", "h", "one")
    mq.send_batch("one", ["1"] * 2)
    mq.append()
    mine = mq.receive("one")[0].receipt
    theirs = mq.receive("one", group="h")[0].receipt
    mq.ack(theirs)
    mq.ack(mine)
    assert mq.receive("one") == mq.receive("one", group="h") == []


def test_I8_an_ack_that_waits_for_a_take_over_is_refused(mq: Session, broker: Broker) -> None:
    thief, late = broker.session(), broker.session()
    mq.send_batch("one", ["1"] * 2)
    mq.append()
    old = mq.receive("one", lease=seconds(0.01))[0].receipt
    mq.execute("select pg_sleep(0.02)")
    with thief.transaction():
        assert len(thief.receive("one")) == 2
        racing = broker.background(late.ack, old)
        broker.wait_blocked(late)
    with refused("MQ009"):
        racing.result(45)
