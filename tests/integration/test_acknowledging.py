# ruff: noqa: PT012  (what raises is the end of the block)
"""The habits of people who come from other queues: one acknowledgement for each message."""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg import errors
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

# The loop that everybody writes.
LOOP = """
import os, signal, sys
import mqpg

mq = mqpg.connect(sys.argv[1])
for message in mq.receive("g", "orders", lease=0.5):
    print(message.payload, flush=True)
    {settle}
    if message.payload == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def three(mq: mqpg.Client) -> str:
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", retry_delay=0)
    mq.send_batch("orders", [1, 2, 3])
    mq.append()
    return "orders"


@pytest.mark.parametrize("settle", ["mq.ack(message)", "message.payload == 2 or mq.ack(message)"])
def test_a_loop_that_is_killed_loses_nothing(mq: mqpg.Client, three: str, dsn: str, settle: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOP.format(settle=settle), dsn], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "1\n2\n"), done.stderr
    left = eventually(lambda: mq.receive("g", three))
    assert [(m.payload, m.attempt) for m in left] == ([(3, 2)] if settle == "mq.ack(message)" else [(2, 2), (3, 2)])


def test_each_message_is_acknowledged_alone_and_in_any_order(mq: mqpg.Client, three: str) -> None:
    delivery = mq.receive("g", three)
    mq.ack(delivery[2])
    mq.nack(delivery[0], "broken")
    mq.ack(delivery[2])
    delivery.release()
    assert [m.payload for m in mq.receive("g", three)] == [2]
    mq.append()
    (retry,) = mq.receive("g", three)
    assert (retry.payload, retry.attempt, retry.queue_id) == (1, 2, -1)
    mq.ack([retry])
    mq.ack(retry)
    with pytest.raises(errors.SpentReceipt):
        mq.nack(retry)


@pytest.mark.parametrize(
    "settle",
    [
        lambda delivery: delivery.ack(),
        lambda delivery: delivery.ack(through=delivery[2]),
        lambda delivery: delivery.nack("all are broken", final=True),
    ],
)
def test_a_delivery_is_acknowledged_or_returned_as_a_whole(
    mq: mqpg.Client, three: str, settle: Callable[[Any], None]
) -> None:
    delivery = mq.receive("g", three)
    assert [message.payload for message in delivery[1:]] == [2, 3]
    delivery.extend(60)
    settle(delivery)
    delivery.ack()
    for call in (delivery.nack, delivery.release, lambda: delivery.extend(1)):
        with pytest.raises(errors.SpentReceipt):
            call()
    empty = mq.receive("g", three)
    assert (empty == [], bool(empty), empty.receipt) == (True, False, None)
    for call in (empty.ack, empty.nack, empty.release, lambda: empty.extend(1)):
        call()


def test_a_part_of_a_delivery(mq: mqpg.Client, three: str) -> None:
    delivery = mq.receive("g", three)
    delivery.ack(through=delivery[0])
    mq.nack(delivery[1:2], delay=60)
    with pytest.raises(errors.InvalidArgument, match="no longer"):
        delivery.nack()
    mq.ack(delivery[1:])
    delivery.ack()
    mq.ack([])


def test_a_delivery_stays_in_its_transaction(mq: mqpg.Client, three: str, db: psycopg.Connection[Any]) -> None:
    """Outside of it the acknowledgement would wait for the lock that its own transaction holds."""
    with pytest.raises(ZeroDivisionError), mq.transaction() as conn:
        mq.receive("g", three, conn=conn).ack()
        raise ZeroDivisionError
    with mq.transaction() as conn:
        delivery = mq.receive("g", three, conn=conn)
        assert [message.attempt for message in delivery] == [1, 1, 1]
        delivery.ack()
    assert mq.receive("g", three) == []


def test_messages_of_two_deliveries_or_of_none(mq: mqpg.Client, three: str) -> None:
    mq.alter_subscription("g", three, mode="shared")
    first, second = mq.receive("g", three, 1), mq.receive("g", three, 1)
    with pytest.raises(errors.InvalidArgument, match="of one delivery, not of 2"):
        mq.ack([*first, *second])
    with pytest.raises(errors.InvalidArgument, match="fetch only reads"):
        mq.ack(mq.fetch(three, 0, 0)[0])


async def test_the_same_in_async(mq: mqpg.Client, amq: mqpg.AsyncClient, three: str) -> None:
    delivery = await amq.receive("g", three, lease=0.2)
    assert isinstance(delivery, mqpg.AsyncDelivery)
    await amq.ack(delivery[1])
    left = eventually(lambda: mq.receive("g", three))
    assert [message.payload for message in left] == [1, 3]
    with pytest.raises(errors.StaleReceipt):
        await delivery.ack()
    left.ack()
