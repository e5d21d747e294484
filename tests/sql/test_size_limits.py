"""Limits of size: at the `max_bytes` of a topic or of the broker sends raise MQ028, and all else works."""

import json
import secrets
import threading
from collections.abc import Callable
from typing import Any

import pytest

import mqpg
from mqpg.errors import NoSpace
from tests.support.broker import Broker, Session, refused, seconds
from tests.support.retention import gone, keep, retain, roll
from tests.support.waiting import eventually
from workers import worker_of
from workers.worker import Options

pytestmark = pytest.mark.own_database  # segments are in use and roll


def body() -> str:
    """A payload that is hardly compressed, beside others neither."""
    return json.dumps(secrets.token_hex(2000))


BODY = body()
SENDS: dict[str, Callable[[Session, str], object]] = {
    "send": lambda mq, topic: mq.send(topic, BODY),
    "send_batch": lambda mq, topic: mq.send_batch(topic, [BODY]),
    "prepare": lambda mq, topic: mq.prepare(topic, BODY),
    "prepare_batch": lambda mq, topic: mq.call("prepare_batch", topic, [BODY], "pg"),
}


def measure(mq: Session) -> dict[str, str]:
    mq.scalar("select mqpg._apply_size_limits()")
    return {row.topic: row.full_of for row in mq.rows("select topic, full_of from mqpg._full_topics()")}


def limit(mq: Session, value: int) -> None:
    mq.execute("update mqpg.settings set value = %s where name = 'max_bytes'", str(value))


def fill(mq: Session, topic: str = "one") -> None:
    mq.send_batch(topic, [body() for _ in range(20)])
    keep(mq)  # notes that the segment is in use


def appended_and_received(mq: Session) -> list[Any]:
    mq.append()
    return mq.receive("one")


def test_headers_count_like_bodies(mq: Session) -> None:
    mq.call("alter_topic", "one", max_bytes=50_000)
    for _ in range(20):
        mq.send("one", "1", headers=json.dumps({"h": body()}))
    keep(mq)  # notes that the segment is in use
    assert measure(mq) == {"one": "topic"}


@pytest.mark.parametrize("name", SENDS)
def test_a_full_topic_takes_no_message(mq: Session, name: str) -> None:
    mq.call("alter_topic", "one", max_bytes=50_000)
    assert measure(mq) == {}
    SENDS[name](mq, "one")
    fill(mq)
    assert measure(mq) == {"one": "topic"}
    with refused("MQ028", "topic 'one' is at its max_bytes, 50000"):
        SENDS[name](mq, "one")
    SENDS[name](mq, "t")
    mq.call("alter_topic", "one", max_bytes=200_000)
    SENDS[name](mq, "one")  # at once, and the next measurement agrees
    assert measure(mq) == {}
    mq.call("alter_topic", "one", max_bytes=50_000)
    assert measure(mq) == {"one": "topic"}
    mq.call("alter_topic", "one", max_bytes=0)
    assert measure(mq) == {}


@pytest.mark.parametrize("name", SENDS)
def test_a_full_broker_takes_no_message(mq: Session, name: str) -> None:
    limit(mq, 1)
    assert measure(mq) == {"one": "broker", "t": "broker"}
    with refused("MQ028", "the broker is at its max_bytes, 1"):
        SENDS[name](mq, "t")
    limit(mq, 1 << 40)
    assert measure(mq) == {}
    SENDS[name](mq, "t")


def test_in_how_many_days_a_limit_is_reached(mq: Session) -> None:
    def growth() -> dict[str | None, Any]:
        return {row.topic: row for row in mq.rows("select * from mqpg._growth()")}

    mq.call("alter_topic", "t", max_bytes=10**7)
    fill(mq, "t")
    fill(mq)
    mq.append()
    roll(mq)
    mq.execute("update mqpg.segment set opened_at = closed_at - interval '30 minutes' where closed_at is not null")
    assert growth()["t"].bytes_a_day is None, "too short a time"
    mq.execute("update mqpg.segment set opened_at = closed_at - interval '2 days' where closed_at is not null")
    measure(mq)
    found = growth()
    assert list(found) == ["t", None], "the next one first, and no topic without a limit"
    of_topic, of_broker = found.values()
    assert of_topic.bytes > 20 * 4000
    assert of_topic.bytes_a_day == pytest.approx(of_topic.bytes / 2, rel=0.01)
    assert of_topic.days_left == pytest.approx((10**7 - of_topic.bytes) / of_topic.bytes_a_day)
    assert of_broker.bytes_a_day > 2 * of_topic.bytes_a_day
    assert (of_broker.max_bytes, of_broker.days_left) == (None, None)
    limit(mq, 1)
    assert growth()[None].days_left == 0
    mq.call("alter_topic", "t", max_bytes=0)
    assert list(growth()) == [None]


def test_all_else_works_at_the_limit(mq: Session) -> None:
    mq.call("alter_subscription", "g", "one", max_attempts=2, retry_delay=seconds(0))
    handles = [mq.prepare("one", '"half"') for _ in range(3)]
    mq.send_batch("one", ['"good"', '"bad"'])
    limit(mq, 1)
    measure(mq)
    assert mq.commit(handles[0]) == "committed"
    assert mq.commit(handles[1], BODY) == "committed"  # a final payload is part of what was prepared
    assert mq.rollback(handles[2]) == "rolled_back"
    mq.append()
    for _ in range(2):
        rows = eventually(lambda: appended_and_received(mq))
        bad = [row.message_id for row in rows if row.payload == "bad"]
        mq.nack(rows[0].receipt, bad, reason="no")
    assert mq.scalar("select count(*) from mqpg.dead_letters('g', 'one')") == 1
    assert mq.value("redrive", "g", "one") == 1
    mq.append()
    (again,) = mq.receive("one")
    mq.ack(again.receipt)
    assert "blocked" not in {row[0] for row in keep(mq)}
    with refused("MQ028"):
        mq.send("one")


def test_what_retention_drops_gives_space(brisk: Session) -> None:
    brisk.call("alter_topic", "one", max_bytes=50_000)
    fill(brisk)
    assert measure(brisk) == {"one": "topic"}
    brisk.delivered("one")
    gone(brisk, {"commit_log_1"}, roll(brisk))
    assert measure(brisk) == {}
    brisk.send("one", BODY)


def test_what_was_measured_of_a_closed_segment_counts(mq: Session) -> None:
    fill(mq)
    mq.append()
    roll(mq)
    mq.call("alter_topic", "one", max_bytes=50_000)
    assert measure(mq) == {"one": "topic"}
    retain(mq, "7 days")
    assert measure(mq) == {"one": "topic"}


def test_keep_measures(mq: Session) -> None:
    limit(mq, 1)
    keep(mq)
    with refused("MQ028"):
        mq.send("one")


def test_a_locked_topic_is_left_for_the_next_time(mq: Session, other: Session) -> None:
    limit(mq, 1)
    with other.transaction():
        other.execute("select from mqpg.topic where name = 'one' for update")
        assert measure(mq) == {"t": "broker"}
    assert measure(mq) == {"one": "broker", "t": "broker"}


def test_the_keeper_measures_all_the_time(broker: Broker, mq: Session) -> None:
    stop = threading.Event()
    running = broker.background(worker_of("keeper")(Options(broker.dsn), stop).run)

    def refuses(client: mqpg.Client) -> bool:
        try:
            client.send("one", 1)
        except NoSpace:
            return True
        return False

    try:
        with mqpg.connect(broker.dsn) as client:
            limit(mq, 1)
            eventually(lambda: refuses(client))
            limit(mq, 0)
            eventually(lambda: not refuses(client))
    finally:
        stop.set()
        running.result()
