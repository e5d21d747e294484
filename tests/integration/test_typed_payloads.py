"""Payloads that are dataclasses or models: sent as they are, and given to the handlers that name their type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import psycopg
import pydantic
import pydantic.dataclasses
import pytest
import sqlalchemy

import mqpg
from mqpg import errors
from tests.support.consuming import drain, sent, sent_batch

pytestmark = pytest.mark.shared_database


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    item: UUID
    price: Decimal


@dataclass
class Order:
    id: int
    at: datetime
    day: date
    lines: list[Line]
    colour: Colour = Colour.RED


class Paid(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId", gt=0)
    at: datetime


@dataclass
class Plain:
    id: int


class Odd:
    pass


@pydantic.dataclasses.dataclass
class Refund:
    order_id: int = pydantic.Field(alias="orderId")


ORDER = Order(7, datetime(2026, 11, 23, 12, tzinfo=UTC), date(2026, 11, 24), [Line(UUID(int=5), Decimal("1.10"))])


def send(mq: mqpg.Client, *payloads: Any) -> None:
    sent_batch(mq, "orders", payloads)


def reasons(mq: mqpg.Client) -> list[str | None]:
    return [letter.reason for letter in mq.dead_letters("g", "orders")]


@pytest.mark.parametrize("kind", ["broker", "database", "external"])
def test_a_dataclass_comes_back_as_it_was_sent(mq: mqpg.Client, topic: str, local_url: str, kind: str) -> None:
    seen: list[Order] = []
    where: dict[str, Any] = {"effect": kind} | (
        {"database": local_url, "consumer": "one"} if kind == "database" else {}
    )

    @mqpg.consumer(topic, group="g", **where)
    def handle(order: Order) -> None:
        seen.append(order)

    send(mq, ORDER)
    drain(handle, mq)
    handle.close()
    assert seen == [ORDER]


def test_a_payload_that_does_not_fit_is_a_dead_letter_and_the_others_have_their_effect(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any]
) -> None:
    db.execute("create table paid (id int)")

    @mqpg.consumer(topic, group="g")
    def pay(paid: Paid, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into paid values (%s)", [paid.order_id])

    good = Paid(orderId=1, at=datetime.now(UTC))
    send(mq, good, {"orderId": -4, "secret": "x1y2"}, good.model_copy(update={"order_id": 3}))
    drain(pay, mq)
    pay.close()
    assert [row[0] for row in db.execute("select id from paid order by id")] == [1, 3]
    assert reasons(mq) == ["the payload is no Paid: orderId: Input should be greater than 0; at: Field required"]


def test_a_batch_of_models(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any]) -> None:
    db.execute("create table paid (id int)")

    @mqpg.consumer(topic, group="g", batch=True)
    def pay(batch: Sequence[Paid], conn: psycopg.Connection[Any]) -> None:
        for paid in batch:
            conn.execute("insert into paid values (%s)", [paid.order_id])

    good = Paid(orderId=1, at=datetime.now(UTC))
    send(mq, good, {}, good)
    drain(pay, mq)
    pay.close()
    assert db.execute("select count(*) from paid").fetchone() == (2,)
    assert len(reasons(mq)) == 1


@pytest.mark.parametrize("kind", ["broker", "database", "external"])
@pytest.mark.parametrize("message_first", [True, False])
def test_the_message_beside_its_payload(
    mq: mqpg.Client, topic: str, local_url: str, kind: str, message_first: bool
) -> None:
    """A parameter that is annotated Message gets it, before or behind the connection or without one."""
    seen: list[tuple[int, str | None, Any]] = []
    where: dict[str, Any] = {"effect": kind} | (
        {"database": local_url, "consumer": "one"} if kind == "database" else {}
    )

    def before(order: Plain, message: mqpg.Message, conn: Any) -> None:
        seen.append((order.id, message.key, conn))

    def behind(order: Plain, conn: Any, message: mqpg.Message) -> None:
        seen.append((order.id, message.key, conn))

    def without(order: Plain, message: mqpg.Message) -> None:
        seen.append((order.id, message.key, None))

    decorate = mqpg.consumer(topic, group="g", **where)
    handle = decorate(without if kind == "external" else before if message_first else behind)
    sent(mq, topic, Plain(7), key="seven")
    drain(handle, mq)
    handle.close()
    ((number, key, conn),) = seen
    assert (number, key, conn is None) == (7, "seven", kind == "external")


async def test_the_messages_beside_their_payloads(mq: mqpg.Client, topic: str, dsn: str) -> None:
    seen: list[tuple[int, int]] = []

    @mqpg.consumer(topic, group="g", batch=True, session=True)
    async def handle(orders: list[Plain], messages: Sequence[mqpg.Message], session: Any) -> None:
        assert await session.scalar(sqlalchemy.text("select 1")) == 1
        seen.extend(zip([one.id for one in orders], [one.payload["id"] for one in messages], strict=True))

    send(mq, Plain(1), Plain(2))
    async with await mqpg.connect_async(dsn) as amq:
        while await handle.step(amq):
            pass
        await handle.close()
    assert sorted(seen) == [(1, 1), (2, 2)]


async def test_an_async_handler_gets_its_type(mq: mqpg.Client, topic: str, dsn: str) -> None:
    seen: list[Any] = []

    @mqpg.consumer(topic, group="g", effect="external")
    async def handle(order: Plain) -> None:
        seen.append(order)

    mq.subscribe("g", topic)
    send(mq, {"id": 4}, {"id": "four"})
    async with await mqpg.connect_async(dsn) as client:
        while await handle.step(client):
            pass
    await handle.close()
    assert seen == [Plain(4)]
    assert reasons(mq) == [
        "the payload is no Plain: id: Input should be a valid integer, unable to parse string as an integer"
    ]


def test_middleware_still_gets_the_message(mq: mqpg.Client, topic: str) -> None:
    seen: list[Any] = []

    def watch(message: mqpg.Message, proceed: Any) -> Any:
        seen.append(message.message_id)
        return proceed()

    @mqpg.consumer(topic, group="g", effect="external", middleware=[watch])
    def handle(order: dict[str, int]) -> None:
        seen.append(order)

    send(mq, {"id": 4})
    drain(handle, mq)
    handle.close()
    assert seen[1:] == [{"id": 4}]
    assert isinstance(seen[0], int)


def test_types_that_cannot_be_read_are_refused() -> None:
    class Hidden:
        pass

    with pytest.raises(errors.ConfigurationError, match=r"first parameter of handle must be a Message, or a type"):

        @mqpg.consumer("orders", group="g")
        def handle(order: Odd) -> None: ...

    with pytest.raises(errors.ConfigurationError, match="annotated Hidden, which cannot be looked up"):

        @mqpg.consumer("orders", group="g")
        def hidden(order: Hidden) -> None: ...

    class HiddenMessage:
        pass

    with pytest.raises(errors.ConfigurationError, match="annotated HiddenMessage, which cannot be looked up"):

        @mqpg.consumer("orders", group="g")
        def hidden_message(order: HiddenMessage) -> None: ...

    with pytest.raises(errors.ConfigurationError, match="must take messages: a batch outside a transaction"):

        @mqpg.consumer("orders", group="g", effect="external", batch=True)
        def mail(orders: list[Paid]) -> None: ...


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), Order, Paid, float("nan"), [float("inf")]])
def test_what_json_cannot_hold_is_refused_and_nothing_is_sent(mq: mqpg.Client, topic: str, value: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="payload must be an object that JSON can hold"):
        mq.send(topic, value)
    assert mq.append() == 0


def test_every_documented_type_has_its_json(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any]) -> None:
    mq.subscribe("g", topic)
    send(
        mq,
        {
            "order": ORDER,
            "paid": Paid(orderId=1, at=ORDER.at),
            "refund": Refund(orderId=2),
            "naive": datetime(2026, 1, 2),
        },
    )
    (message,) = mq.receive("g", topic)
    assert message.payload == {
        "order": {
            "id": 7,
            "at": "2026-11-23T12:00:00+00:00",
            "day": "2026-11-24",
            "lines": [{"item": "00000000-0000-0000-0000-000000000005", "price": "1.10"}],
            "colour": "red",
        },
        "paid": {"orderId": 1, "at": "2026-11-23T12:00:00Z"},
        "refund": {"orderId": 2},
        "naive": "2026-01-02T00:00:00",
    }
