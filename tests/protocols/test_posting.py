"""postMessage beyond its failures, each of which has a test in tests/failures/test_post_message.py."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

import mqpg
from mqpg import errors, protocols
from tests.support.business import INSERT, business, delivered
from tests.support.proxied import proxied
from tests.support.waiting import eventually


@pytest.fixture
def orders(mq: mqpg.Client) -> str:
    """A topic with a producer group whose overdue messages are asked about at once."""
    mq.create_topic("orders", queues=2)
    mq.create_producer_group("shop", check_after="20 ms")
    mq.subscribe("readers", "orders")
    return "orders"


def booking(engine: Engine, number: int, result: object = protocols.Result.SUCCESS) -> Callable[[str], object]:
    """A business that books a row if it says success."""

    def callback(handle: str) -> object:
        if result == "success":
            with engine.begin() as conn:
                conn.execute(INSERT, {"id": number})
        return result

    return callback


def pending(mq: mqpg.Client, dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        return int(conn.execute("select count(*) from mqpg.half_pending").fetchall()[0][0])


def test_a_repeated_post_is_stored_once(mq: mqpg.Client, dsn: str, orders: str, sqlite: Engine) -> None:
    """Else the reverse flow would find the business done and deliver the lost one too."""
    with proxied(dsn) as (between, behind), mqpg.connect(behind, pool_timeout=2, retry_timeout=0.5) as cut:
        between.cut_at(b"mqpg.prepare", forward=True)
        protocols.PostProducer(cut, group="shop").post(orders, 1, booking(sqlite, 1))
    assert between.cuts == 1
    assert (business(sqlite), delivered(mq, orders), pending(mq, dsn)) == ([1], [1], 0)


def test_a_check_that_raises_is_asked_again(
    mq: mqpg.Client, dsn: str, orders: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[object] = [ZeroDivisionError(), "nonsense", "success"]

    def check(half: mqpg.HalfCheck) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    producer = protocols.PostProducer(mq, group="shop", check=check)
    producer.post(orders, 1, lambda handle: "wait")

    def answered() -> bool:
        producer.answer(lease="10 ms")
        return not answers

    eventually(answered)
    assert delivered(mq, orders) == [1]
    assert caplog.text.count("it is asked again") == 2


def test_without_a_check_there_is_nobody_to_ask(mq: mqpg.Client, orders: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="no check"):
        protocols.PostProducer(mq, group="shop").answer()


def test_the_loop_answers_until_it_is_stopped(mq: mqpg.Client, dsn: str, orders: str) -> None:
    stop = threading.Event()
    producer = protocols.PostProducer(mq, group="shop", check=lambda half: "success")
    thread = threading.Thread(target=producer.run_answers, args=(stop, 0.02))
    thread.start()
    producer.post(orders, 1, lambda handle: "wait")
    eventually(lambda: pending(mq, dsn) == 0)
    stop.set()
    thread.join(45)
    assert delivered(mq, orders) == [1]


async def test_async(amq: mqpg.AsyncClient, mq: mqpg.Client, orders: str) -> None:
    async def callback(handle: str) -> str:
        return "wait"

    async def check(half: mqpg.HalfCheck) -> protocols.Result:
        return protocols.Result.SUCCESS

    producer = protocols.AsyncPostProducer(amq, group="shop", check=check)
    posted = await producer.post(orders, 1, callback)
    assert posted.outcome is None
    for _ in range(500):
        if await producer.answer():
            break
    assert delivered(mq, orders) == [1]


@pytest.mark.parametrize(("checker", "target"), [("ledger", None), ("url", "shop")])
def test_a_group_whose_checker_rolls_back_what_it_does_not_know_is_refused(
    mq: mqpg.Client, dsn: str, orders: str, checker: Any, target: str | None
) -> None:
    mq.create_producer_group("wrong", checker=checker, checker_target=target)
    producer = protocols.PostProducer(mq, group="wrong")

    def never(handle: str) -> object:
        raise AssertionError("the business must not begin")

    with pytest.raises(
        errors.ConfigurationError, match=f"'wrong' has checker {checker}.* needs due_checks or function"
    ):
        producer.post(orders, 1, never)
    assert pending(mq, dsn) == 0
