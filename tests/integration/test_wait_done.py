"""`wait_done` returns when a group has acknowledged a message, and says what holds it up where it does not."""

import threading
import time

import pytest

import mqpg
from mqpg import errors

pytestmark = pytest.mark.shared_database


def test_it_returns_when_the_effect_is_committed(mq: mqpg.Client, dsn: str, billing: str) -> None:
    sent = mq.send("orders", 1)
    acknowledged: list[float] = []

    def consume() -> None:
        with mqpg.connect(dsn) as own:
            own.append()
            time.sleep(0.5)
            with own.transaction() as conn:
                delivery = own.receive(billing, "orders", conn=conn)
                time.sleep(0.3)
                delivery.ack()
                acknowledged.append(time.monotonic())

    thread = threading.Thread(target=consume)
    thread.start()
    mq.wait_done(sent, billing, timeout=20)
    done = time.monotonic()
    thread.join()
    assert done >= acknowledged[0]
    assert mq.acknowledged(sent, billing) is True
    assert mq.why(sent) == []


def test_it_says_what_holds_the_message_up(mq: mqpg.Client, billing: str) -> None:
    mq.subscribe("statistics", "orders")
    sent = mq.send("orders", 1)
    with pytest.raises(
        errors.NotDone, match=r"billing has not acknowledged message \d+ within 0.2 s \(appender_not"
    ) as caught:
        mq.wait_done(sent, billing, timeout=0.2)
    assert isinstance(caught.value, TimeoutError)
    mq.append()
    mq.receive(billing, "orders", consumer="one")
    began = time.monotonic()
    with pytest.raises(errors.NotDone) as caught:
        mq.wait_done(sent, billing, timeout=0)
    assert time.monotonic() - began < 45
    (cause,) = caught.value.causes  # not what holds the other group up
    assert (cause.cause, cause.detail["consumer"], cause.consumer_group) == ("leased", "one", "billing")
    assert {one.cause for one in mq.why(sent)} == {"leased", "waiting_for_consumer"}
    assert [one.cause for one in mq.why(billing, "orders")] == ["leased"]


def test_what_the_group_never_gets_is_an_error_at_once(mq: mqpg.Client, billing: str) -> None:
    mq.alter_subscription(billing, "orders", filter="$.amount > 10")
    sent = mq.send("orders", {"amount": 1})
    mq.append()
    with pytest.raises(errors.WrongState, match="filtered out"):
        mq.wait_done(sent, billing)
    with pytest.raises(errors.UnknownSubscription):
        mq.wait_done(sent, "nobody")
    with pytest.raises(errors.InvalidArgument):
        mq.wait_done(sent + 1024, billing)
    with pytest.raises(errors.UnknownHandle):
        mq.why("no handle")
    with pytest.raises(errors.InvalidArgument):
        mq.wait_done(sent, billing, timeout=-1)
    for wrong in (str(sent), None, 7.5, True):
        with pytest.raises(errors.InvalidArgument, match="message_id must be a whole number, not "):
            mq.wait_done(wrong, billing)  # type: ignore[arg-type]
