"""Days are 24 hours: a time span is exact although the clocks of the session's time zone change meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import mqpg
from tests.support.broker import Broker, Session

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney")
DAYS = (90, 180, 270)  # each zone changes its clocks within one of them, whenever the test runs
OFF = "extract(epoch from {} - clock_timestamp()) - 86400 * {}"


@pytest.fixture(params=ZONES)
def abroad(request: pytest.FixtureRequest, broker: Broker, mq: Session) -> Session:
    session = broker.session(f"set timezone = '{request.param}'")
    session.execute("update mqpg.topic set retention = '1000 days'")
    return session


def due(mq: Session, message: int) -> str:
    return f"(select max(visible_at) from mqpg.delayed where first_id = {message})"


def prepared(mq: Session, days: int) -> str:
    handle = mq.prepare("one", delay=f"{days} days")
    mq.commit(handle)
    return due(mq, int(handle.split(".")[2]))


def checked(mq: Session, days: int) -> str:
    handle = mq.prepare("one", check_after=f"{days} days")
    return f"(select check_at from mqpg.commit_log where batch_id = {int(handle.split('.')[2]) // 1024})"


def checked_by_group(mq: Session, days: int) -> str:
    mq.call("create_producer_group", f"p{days}", check_after=f"{days} days")
    handle = mq.prepare("one", group=f"p{days}")
    return f"(select check_at from mqpg.commit_log where batch_id = {int(handle.split('.')[2]) // 1024})"


def nacked(mq: Session, days: int, **named: str) -> str:
    message = mq.sent("one")
    mq.nack(mq.receive("one")[0].receipt, [message], **named)
    return due(mq, message)


def backed_off(mq: Session, days: int) -> str:
    mq.call("alter_subscription", "g", "one", retry_delay=f"{days} days")
    return nacked(mq, days)


def leased(mq: Session, days: int) -> str:
    mq.sent("one")
    mq.ack(mq.receive("one", lease=f"{days} days")[0].receipt)
    return (
        "(select c.lease_until from mqpg.cursor cross join lateral unnest(claims) as c order by version desc limit 1)"
    )


def taken_over(mq: Session, days: int) -> str:
    mq.sent("one")
    mq.call("release", mq.receive("one")[0].receipt)
    mq.ack(mq.receive("one", lease=f"{days} days")[0].receipt)
    return (
        "(select c.lease_until from mqpg.cursor cross join lateral unnest(claims) as c order by version desc limit 1)"
    )


SPANS: dict[str, Callable[[Session, int], str]] = {
    "send": lambda mq, days: due(mq, mq.send("one", delay=f"{days} days")),
    "send_batch": lambda mq, days: due(mq, mq.send_batch("one", ["1"], delay=f"{days} days")[0]),
    "commit": prepared,
    "check_after": checked,
    "check_after of a group": checked_by_group,
    "nack": lambda mq, days: nacked(mq, days, delay=f"{days} days"),
    "retry_delay": backed_off,
    "lease": leased,
    "lease that is taken over": taken_over,
}


@pytest.mark.parametrize("name", SPANS)
def test_spans_of_sql(name: str, abroad: Session) -> None:
    for days in DAYS:
        time = SPANS[name](abroad, days)
        assert abs(abroad.scalar(f"select {OFF.format(time, days)}")) < 60, days


def test_what_a_day_is_in_the_tables(abroad: Session) -> None:
    """The spans that are added to times have no days."""
    abroad.call("alter_topic", "one", message_ttl="90 days", lose_after="90 days")
    abroad.call("create_producer_group", "days", expire_after="90 days", check_after="90 days")
    abroad.call("alter_producer_group", "pg", expire_after="90 days", check_after="90 days")
    for table, columns in {
        "topic": ("message_ttl", "lose_after"),
        "producer_group": ("expire_after", "check_after"),
        "subscription": ("retry_delay",),
    }.items():
        for column in columns:
            query = f"select count(*) from mqpg.{table} where extract(day from {column}) <> 0"
            assert abroad.scalar(query) == 0, column


@pytest.fixture
def client(broker: Broker, mq: Session) -> Iterator[mqpg.Client]:
    mq.execute("update mqpg.topic set retention = '1000 days'")
    name = psycopg.conninfo.conninfo_to_dict(broker.dsn)["dbname"]
    mq.execute(f"alter database {name} set timezone = 'Europe/Berlin'")
    with mqpg.connect(broker.dsn) as found:
        yield found
    mq.execute(f"alter database {name} reset timezone")


@pytest.mark.parametrize("days", DAYS)
def test_spans_of_the_library(days: int, client: mqpg.Client, mq: Session) -> None:
    spans: tuple[Any, ...] = (timedelta(days=days), days * 86400, days * 86400.0, f"{days * 24} hours", f"{days} days")
    for span in spans:
        message = client.send("one", 1, delay=span)
        assert abs(mq.scalar(f"select {OFF.format(due(mq, message), days)}")) < 60, span
