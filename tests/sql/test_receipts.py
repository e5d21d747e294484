"""I8: receipts that are stale, spent, foreign or malformed have their own errors, and late ones count."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, refused, seconds

Action = Callable[[Session, str, int], object]

ACTIONS: dict[str, Action] = {
    "ack": lambda mq, receipt, _: mq.ack(receipt),
    "ack through": lambda mq, receipt, _: mq.ack(receipt, through=int(receipt.split(".")[3])),
    "nack": lambda mq, receipt, message_id: mq.nack(receipt, [message_id]),
    "extend": lambda mq, receipt, _: mq.call("extend", receipt, seconds(30)),
    "release": lambda mq, receipt, _: mq.call("release", receipt),
}
MODES = ["exclusive", "shared", "pinned", "broadcast"]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def moded(mq: Session, mode: str) -> Session:
    """A broker whose group `m` reads topic `one`, with five messages, in each mode."""
    mq.call("subscribe", "m", "one", mode=mode)
    mq.sent_batch("one", ["1"] * 5)
    return mq


def receive(mq: Session, **named: Any) -> list[Any]:
    return mq.receive("one", group="m", consumer="me", **named)


def state(mq: Session) -> list[Any]:
    return [
        mq.rows("select * from mqpg.cursor order by subscription_id, queue_id, version"),
        mq.rows("select * from mqpg.delayed"),
        mq.rows("select * from mqpg.dead_letter"),
    ]


def is_refused(mq: Session, receipt: str, message_id: int, sqlstate: str, mention: str | None = None) -> None:
    """Assert that every use of the receipt fails with this error and changes nothing."""
    before = state(mq)
    for action in ACTIONS.values():
        with refused(sqlstate, mention):
            action(mq, receipt, message_id)
    assert state(mq) == before


def is_done(mq: Session, receipt: str, message_id: int) -> None:
    """Assert that only an ack is no error, in each of its forms, and that nothing changes."""
    before = state(mq)
    for name, action in ACTIONS.items():
        if not name.startswith("ack"):
            with refused("MQ008"):
                action(mq, receipt, message_id)
    first = int(receipt.split(".")[3])
    mq.ack(receipt)
    mq.ack(receipt, through=first)
    mq.ack(receipt, offsets=[first])
    with refused("MQ001", "delivery"):
        mq.ack(receipt, through=first + 999)
    assert state(mq) == before


def test_stale_where_the_claim_was_taken_over(moded: Session) -> None:
    old = receive(moded, lease=seconds(0.01))[0]
    moded.execute("select pg_sleep(0.02)")
    assert receive(moded)[0].message_id == old.message_id
    is_refused(moded, old.receipt, old.message_id, "MQ009")


def test_stale_after_a_seek(moded: Session) -> None:
    old = receive(moded)[0]
    moded.call("seek", "m", "one", "earliest")
    is_refused(moded, old.receipt, old.message_id, "MQ009")


@pytest.mark.parametrize("how", ["ack", "nack", "release"])
def test_spent_when_it_was_acknowledged_or_returned(moded: Session, how: str) -> None:
    got = receive(moded)
    if how == "nack":
        moded.nack(got[0].receipt, [m.message_id for m in got])
    else:
        ACTIONS[how](moded, got[0].receipt, 0)
    if how == "release":
        is_refused(moded, got[0].receipt, got[0].message_id, "MQ008")
    else:
        is_done(moded, got[0].receipt, got[0].message_id)


@pytest.mark.parametrize("how", ["ack", "receive", "nack"])
@pytest.mark.parametrize(("first", "second"), [(5, 2), (2, 5)])
def test_a_receipt_from_before_a_savepoint_is_refused_in_its_transaction(
    moded: Session, how: str, first: int, second: int
) -> None:
    """Both deliveries have one epoch, because a transaction keeps its id."""
    with moded.transaction():
        with moded.transaction():
            before = receive(moded, max_messages=first)[0]
            raise psycopg.Rollback
        got = receive(moded, max_messages=second)
        with refused("MQ007"), moded.transaction():
            if how == "receive":
                receive(moded, ack=before.receipt)
            else:
                moded.call(how, before.receipt, *[[before.message_id]] * (how == "nack"))
        moded.ack(got[0].receipt)
    assert moded.scalar("select max(committed) from mqpg.cursor") == second


@pytest.mark.parametrize("last", ["ack", "nack", "final", "receive"])
def test_the_loop_of_an_application(moded: Session, last: str) -> None:
    """It nacks what failed and then acknowledges the delivery, in one transaction, whatever is left of it."""
    got = receive(moded)
    ids = [message.message_id for message in got]
    with moded.transaction():
        if last == "ack":
            moded.ack(got[0].receipt)
        else:
            moded.call("nack", got[0].receipt, ids, final=last == "final", delay=seconds(60))
        if last == "receive":
            assert receive(moded, ack=got[0].receipt) == []
        else:
            moded.ack(got[0].receipt)
    assert moded.scalar("select count(*) from mqpg.dead_letter") == (5 if last == "final" else 0)
    assert receive(moded) == []
    more = moded.sent("one", "2")
    assert [message.message_id for message in receive(moded, ack=got[0].receipt)] == [more]


def test_done_and_then_something_else_happened(moded: Session) -> None:
    first = receive(moded, max_messages=1)[0]
    moded.nack(first.receipt, [first.message_id], delay=seconds(60))
    second = receive(moded, max_messages=1)[0]
    is_done(moded, first.receipt, first.message_id)
    moded.call("release", second.receipt)
    is_done(moded, first.receipt, first.message_id)
    third = receive(moded)
    is_refused(moded, second.receipt, second.message_id, "MQ008")
    moded.ack(third[0].receipt)
    is_refused(moded, second.receipt, second.message_id, "MQ008")


def test_a_history_that_is_gone_tells_nothing(moded: Session) -> None:
    """Without the version that ended the claim, an ack is refused: the messages may have been released."""
    got = receive(moded, max_messages=1)[0]
    moded.call("release", got.receipt)
    moded.ack(receive(moded, max_messages=1)[0].receipt)
    newest = moded.scalar("select max(version) from mqpg.cursor where version > 2 and claims = '{}' and action = 'a'")
    moded.execute(f"delete from mqpg.cursor where version < {newest} and action <> 's'")
    is_refused(moded, got.receipt, got.message_id, "MQ008")


def test_spent_by_parts(moded: Session) -> None:
    got = receive(moded)
    moded.ack(got[0].receipt, through=2)
    moded.nack(got[0].receipt, [got[3].message_id])
    moded.ack(got[0].receipt, through=4)
    is_done(moded, got[0].receipt, got[0].message_id)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_late_one_that_nobody_overtook_counts(moded: Session, action: str) -> None:
    got = receive(moded, lease=seconds(0.01), max_messages=2)
    moded.execute("select pg_sleep(0.02)")
    before = state(moded)
    ACTIONS[action](moded, got[0].receipt, got[0].message_id)
    assert state(moded) != before


def test_malformed_where_its_transaction_rolled_back(moded: Session) -> None:
    with moded.transaction(force_rollback=True):
        old = receive(moded)[0]
    receive(moded, max_messages=1)
    is_refused(moded, old.receipt, old.message_id, "MQ007")


def test_malformed_where_it_was_changed(moded: Session) -> None:
    got = receive(moded, max_messages=3)
    subscription, queue, epoch, start, end, mac = got[0].receipt.split(".")
    for forged in (
        f"{subscription}.{queue}.{int(epoch) + 1}.{start}.{end}.{mac}",
        f"{subscription}.{queue}.{int(epoch) + 2**30}.{start}.{end}.{mac}",
        f"{subscription}.{queue}.{epoch}.{int(start) + 1}.{end}.{mac}",
        f"{subscription}.{queue}.{epoch}.{start}.{int(end) - 1}.{mac}",
        f"{subscription}.{queue}.{epoch}.{start}.{int(end) + 1}.{mac}",
        f"{subscription}.{queue}.{epoch}.{start}.999.{mac}",
        f"{subscription}.-1.{epoch}.{start}.{end}.{mac}",
        f"0{subscription}.{queue}.{epoch}.{start}.{end}.{mac}",
        f"{subscription}.{queue}.{epoch}.{start}.{end}.{mac[::-1]}",
        f"{subscription}.{queue}.{epoch}.{start}.{end}.{mac.upper()}",
        f"{subscription}.{queue}.{epoch}.{start}.{end}.{mac[:-1]}",
        f"{subscription}.{queue}.{epoch}.{start}.{end}",
    ):
        is_refused(moded, forged, got[0].message_id, "MQ007", "receipt")
    moded.ack(got[0].receipt)


def test_malformed_when_it_was_changed_after_a_part_was_acknowledged(moded: Session) -> None:
    """The receipt is wider than what is left of the claim, but it is as it was issued."""
    got = receive(moded, max_messages=4)
    start, middle, rest, end = got
    moded.ack(start.receipt, through=start.queue_offset)
    moded.nack(start.receipt, [end.message_id])
    *issued, _, mac = start.receipt.split(".")
    for changed in (end.queue_offset + 2, end.queue_offset + 999):
        is_refused(moded, ".".join([*issued, str(changed), mac]), rest.message_id, "MQ007", "receipt")
    moded.ack(start.receipt, through=middle.queue_offset)
    moded.ack(start.receipt)
    is_done(moded, start.receipt, rest.message_id)


def test_foreign_to_another_subscription(moded: Session) -> None:
    """A receipt acknowledges the delivery that it came with, and not another group's delivery of the same messages."""
    mine = receive(moded)
    theirs = moded.receive("one", group="g")
    moded.ack(theirs[0].receipt)
    is_done(moded, theirs[0].receipt, theirs[0].message_id)
    moded.ack(mine[0].receipt)


def test_of_a_subscription_that_is_gone(moded: Session) -> None:
    got = receive(moded)
    moded.call("unsubscribe", "m", "one")
    is_refused(moded, got[0].receipt, got[0].message_id, "MQ007", "subscription")
    moded.call("subscribe", "m", "one")
    is_refused(moded, got[0].receipt, got[0].message_id, "MQ007", "subscription")


class TestForeignToAnotherBroker:
    @pytest.fixture
    def elsewhere(self, own_broker: Broker) -> Session:
        """Another broker with the same subscription ids."""
        mq = own_broker.session()
        mq.execute("create table filler ()")  # its xids are others
        return mq

    def test_it_settles_nothing(self, mq: Session, elsewhere: Session) -> None:
        ours = mq.scalar(
            "select subscription_id from mqpg.subscription s join mqpg.topic t using (topic_id) where t.name = 'one'"
        )
        for session in (mq, elsewhere):
            session.sent_batch("one", ["1"] * 3)
        mine = mq.receive("one")[0]
        theirs = elsewhere.receive("one")[0].receipt.split(".", 1)[1]
        foreign = f"{ours}.{theirs}"
        assert foreign != mine.receipt
        is_refused(mq, foreign, mine.message_id, "MQ007", "receipt")
        mq.ack(mine.receipt)


@pytest.mark.parametrize("through", [-1, 3, 9, 10**15])
def test_through_outside_the_delivery_is_an_invalid_argument(moded: Session, through: int) -> None:
    got = receive(moded, max_messages=3)
    with refused("MQ001", "through"):
        moded.ack(got[0].receipt, through=through)
    moded.ack(got[0].receipt, through=2)


def test_through_what_was_acknowledged_before_is_no_error(moded: Session) -> None:
    got = receive(moded, max_messages=4)
    moded.ack(got[0].receipt, through=2)
    moded.ack(got[0].receipt, through=1)
    moded.ack(got[0].receipt, through=3)
    is_done(moded, got[0].receipt, got[0].message_id)
