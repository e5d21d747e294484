"""I8 fenced: an action with an old receipt changes nothing and errors.

tests/sql/test_receipts.py has each action in each mode.
"""

import pytest

from tests.support.broker import Broker, Session, refused, seconds


def test_I8_an_old_receipt_does_not_reach_into_a_later_claim_of_another_size(mq: Session) -> None:
    """The range may be cut differently when it is taken over.

    The epoch decides, not the offsets.
    """
    mq.sent_batch("one", ["1"] * 4)
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


def test_I8_an_ack_that_waits_for_a_take_over_is_refused(mq: Session, broker: Broker) -> None:
    thief, late = broker.session(), broker.session()
    mq.sent_batch("one", ["1"] * 2)
    old = mq.receive("one", lease=seconds(0.01))[0].receipt
    mq.execute("select pg_sleep(0.02)")
    with thief.transaction():
        assert len(thief.receive("one")) == 2
        racing = broker.blocked(late, late.ack, old)
    with refused("MQ009"):
        racing.result(45)
