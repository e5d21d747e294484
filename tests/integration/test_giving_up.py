"""Whatever a handler says about a failed message reaches the broker.

Otherwise its attempt would not count.
"""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from tests.support.consuming import drain, send

pytestmark = pytest.mark.shared_database

DELAYS: list[Any] = [-1, -0.01, timedelta(seconds=-1), "-1 s", "soon", float("nan"), 1e300, "200 years"]


@pytest.fixture(params=["broker", "shared", "database", "external"])
def options(request: pytest.FixtureRequest, mq: mqpg.Client, tmp_path: Path) -> Any:
    """The options of a consumer of each protocol."""
    mq.create_topic("orders", queues=1)
    kinds: dict[str, Any] = {
        "broker": {},
        "shared": {"mode": "shared"},
        "database": {"database": f"sqlite:///{tmp_path}/own.db", "consumer": "one"},
        "external": {"effect": "external"},
    }
    return kinds[request.param]


def test_a_delay_that_is_none(mq: mqpg.Client, options: dict[str, Any]) -> None:
    """A delay in the past means now.

    A value that is no time span leaves the delay to the back-off.
    """
    seen: list[int] = []

    @mqpg.consumer("orders", group="g", max_attempts=3, retry_delay=0, **options)
    def bill(message: mqpg.Message) -> None:
        if message.payload["id"] < len(DELAYS):
            raise mqpg.Retry("later", delay=DELAYS[message.payload["id"]])
        seen.append(message.payload["id"])

    assert bill.step(mq) == 0
    send(mq, range(len(DELAYS) + 1))
    drain(bill, mq)
    bill.close()
    assert seen[-1] == len(DELAYS)
    dead = {letter.payload["id"]: letter for letter in mq.dead_letters("g", "orders")}
    assert [(n, dead[n].attempts, str(dead[n].reason).split(" ")[0]) for n in sorted(dead)] == [
        (n, 3, "later") for n in range(len(DELAYS))
    ]
    assert dead[0].reason == "later"
    assert "invalid input syntax" in str(dead[4].reason)


class Later(mqpg.Retry):
    """A retry of the program's own, whose constructor leaves out that of Retry."""

    def __init__(self) -> None:
        self.delay_text = "soon"


class Never(mqpg.Retry):
    """A retry whose delay cannot be made."""

    @property
    def delay(self) -> Any:
        raise ValueError("no delay")

    @delay.setter
    def delay(self, value: Any) -> None:
        pass


def test_a_delay_that_cannot_even_be_compared(mq: mqpg.Client, options: dict[str, Any]) -> None:
    delays: list[Any] = [{"s": 5}, ["soon"]]
    asked = [*(mqpg.Retry("later", delay=one) for one in delays), Later(), Never("later")]

    @mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0, **options)
    def bill(message: mqpg.Message) -> None:
        raise asked[message.payload["id"]]

    assert bill.step(mq) == 0
    send(mq, range(len(asked)))
    drain(bill, mq)
    bill.close()
    assert {letter.payload["id"]: letter.attempts for letter in mq.dead_letters("g", "orders")} == dict.fromkeys(
        range(len(asked)), 2
    )


def test_a_delay_that_has_passed_means_now(mq: mqpg.Client, options: dict[str, Any]) -> None:
    attempts: list[int] = []

    @mqpg.consumer("orders", group="g", retry_delay="1 hour", **options)
    def bill(message: mqpg.Message) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise mqpg.Retry("due already", delay=-0.001)

    assert bill.step(mq) == 0
    send(mq, [1])
    drain(bill, mq)
    bill.close()
    assert attempts == [1, 2]


def test_a_reason_that_is_no_utf_8(
    mq: mqpg.Client, db: psycopg.Connection[Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON may name half a surrogate pair.

    Python makes a character of it, which no database accepts.
    """
    # The trace has it, too, and pytest's reports must be UTF-8.
    monkeypatch.setattr(logging.getLogger("mqpg"), "propagate", False)

    @mqpg.consumer("orders", group="g", max_attempts=1, **options)
    def bill(message: mqpg.Message) -> None:
        raise ValueError("unknown item " + message.payload["item"])

    assert bill.step(mq) == 0
    db.execute("""select mqpg.send('orders', '{"item": "a\\ud800"}')""")
    drain(bill, mq)
    bill.close()
    reasons = [row[0] for row in db.execute("select reason from mqpg.dead_letters('g', 'orders')")]
    assert reasons == ["ValueError: unknown item a\\ud800"]


def test_the_log_says_which_message_failed_why_and_where(
    mq: mqpg.Client, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the error's own trace once.

    A message that the handler rejects on purpose has none.
    """

    @mqpg.consumer("orders", group="g", max_attempts=1, **options)
    def bill(message: mqpg.Message) -> None:
        if message.payload["id"] == 2:
            raise mqpg.Reject("no such customer")
        raise KeyError("boom")

    assert bill.step(mq) == 0
    first, second = send(mq, [1]), send(mq, [2])
    with caplog.at_level("WARNING", logger="mqpg"):
        drain(bill, mq)
    bill.close()
    said = [(record.getMessage(), record.exc_info is not None) for record in caplog.records]
    assert said == [
        (f"message {first[0]} of topic orders failed in attempt 1: KeyError: 'boom'", True),
        (f"message {second[0]} of topic orders failed in attempt 1: no such customer", False),
    ]
