"""A running consumer acknowledges a delivery with the receive that takes the next one."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqpg
from tests.support.consuming import is_acknowledged, running, sent_batch
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

MESSAGES = 30


@pytest.fixture
def mq(dsn: str) -> Iterator[mqpg.Client]:
    with mqpg.connect(dsn) as client:
        client.create_topic("one", queues=1)
        client.subscribe("g", "one", retry_delay=0)
        sent_batch(client, "one", list(range(MESSAGES)))
        yield client


def options(kind: str, path: Path) -> dict[str, Any]:
    where: dict[str, Any] = {"database": f"sqlite:///{path / 'own.db'}"} if kind == "C2" else {"effect": "external"}
    more: dict[str, dict[str, Any]] = {"C3 in batches": {"batch": True}, "C3": {"ack": "delivery"}}
    return where | more.get(kind, {})


def versions(mq: mqpg.Client) -> list[str]:
    with mq.transaction() as conn:
        rows = conn.execute("select action::text from mqpg.cursor where queue_id = 0 order by version").fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("kind", ["C3", "C3 in batches", "C2"])
def test_one_version_for_each_delivery_and_nothing_is_left_at_the_end(
    mq: mqpg.Client, kind: str, tmp_path: Path
) -> None:
    seen: list[int] = []
    stop = threading.Event()

    def handle(given: Any, conn: Any = None) -> None:
        seen.extend(message.payload for message in (given if isinstance(given, list) else [given]))
        if len(seen) == MESSAGES:
            stop.set()

    def handle_alone(given: Any) -> None:
        handle(given)

    if kind == "C2":
        mq.unsubscribe("g", "one")
        mq.subscribe("g", "one", "pinned")
    decorate = mqpg.consumer("one", group="g", max_messages=10, **options(kind, tmp_path))
    consumer = decorate(handle if kind == "C2" else handle_alone)
    consumer.run(mq, stop)
    consumer.close()
    assert seen == list(range(MESSAGES))
    assert is_acknowledged(mq, "g")
    assert versions(mq)[-4:] == ["r", "b", "b", "a"]


def test_a_failed_message_is_retried_and_the_rest_is_done(mq: mqpg.Client) -> None:
    seen: list[int] = []

    @mqpg.consumer("one", group="g", max_messages=10, effect="external")
    def consumer(message: mqpg.Message) -> None:
        if message.payload == 9 and message.attempt == 1:
            raise ValueError("the last of its delivery")
        seen.append(message.payload)

    with running(consumer, mq):
        eventually(lambda: (mq.append(), len(seen) == MESSAGES)[1])
    assert sorted(seen) == list(range(MESSAGES))
    assert is_acknowledged(mq, "g")


def test_a_delivery_that_another_consumer_has_by_now(mq: mqpg.Client, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    @mqpg.consumer("one", group="g", max_messages=10, effect="external")
    def consumer(message: mqpg.Message) -> None:
        seen.append(message.payload)

    old = mq.receive("g", "one", 10, 0.01)
    taken = eventually(lambda: mq.receive("g", "one", 10))
    assert old.receipt is not None
    consumer._site._assignment.ack_later(0, old.receipt)
    with caplog.at_level(logging.WARNING, "mqpg"):
        assert consumer.step(mq) == 0
    assert "stale" in caplog.text
    taken.ack()
    assert consumer.step(mq) == 10
    assert seen == list(range(10, 20))


class AltersTheSubscription(Exception):
    """Its text is read for the reason of the nack, when the consumer has asked what a failure does."""

    def __init__(self, mq: mqpg.Client) -> None:
        self.mq = mq

    def __str__(self) -> str:
        self.mq.alter_subscription("g", "one", on_failure="skip")
        return "altered"


@pytest.mark.parametrize("on_failure", ["block_queue", "block_key"])
def test_what_waited_for_a_failure_is_not_acknowledged_when_the_subscription_is_altered(
    mq: mqpg.Client, on_failure: Any
) -> None:
    seen: list[int] = []
    mq.seek("g", "one", "latest")
    mq.alter_subscription("g", "one", on_failure=on_failure)
    sent_batch(mq, "one", [0, 1, 2, 3], keys=["a", "b", "b", "a"])

    @mqpg.consumer("one", group="g", effect="external", ack="delivery", lease=0.5, subscribe=False)
    def consumer(message: mqpg.Message) -> None:
        if message.payload == 1 and message.attempt == 1:
            raise AltersTheSubscription(mq)
        seen.append(message.payload)

    with running(consumer, mq):
        eventually(lambda: (mq.append(), set(seen) == {0, 1, 2, 3})[1])
    assert is_acknowledged(mq, "g")
