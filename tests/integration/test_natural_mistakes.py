"""Mistakes that everybody makes once are refused in words that say what to do."""

from __future__ import annotations

from datetime import datetime

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import mqpg
from mqpg import errors


def test_a_time_without_a_zone(mq: mqpg.Client, orders: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="deliver_at must have a time zone"):
        mq.send(orders, 1, deliver_at=datetime(2999, 1, 1))


def test_a_transaction_of_another_database(mq: mqpg.Client, orders: str) -> None:
    engine = create_engine("sqlite://")
    with (
        engine.begin() as conn,
        pytest.raises(errors.InvalidArgument, match=r"connection to sqlite, not to the broker: mqpg\.Transactional"),
    ):
        mq.send(orders, 1, conn=conn)
    with Session(engine) as session, pytest.raises(errors.InvalidArgument, match="TransactionalProducer"):
        mq.send(orders, 1, conn=session)
    engine.dispose()


def test_a_transaction_of_a_database_without_mqpg(mq: mqpg.Client, orders: str, dsn: str) -> None:
    with (
        psycopg.connect(dsn, dbname="postgres") as conn,
        pytest.raises(errors.SchemaMissing, match=r"another database than the broker's: mqpg\.Transactional"),
    ):
        mq.send(orders, 1, conn=conn)


async def test_a_transaction_of_another_database_async(amq: mqpg.AsyncClient) -> None:
    await amq.create_topic("orders")
    engine = create_async_engine("sqlite+aiosqlite://")
    async with engine.connect() as conn:
        with pytest.raises(errors.InvalidArgument, match="TransactionalProducer"):
            await amq.send("orders", 1, conn=conn)
    await engine.dispose()


def test_the_topic_before_the_group(mq: mqpg.Client, orders: str) -> None:
    mq.subscribe("billing", orders)
    with pytest.raises(errors.UnknownTopic, match="The consumer group is named first, and then the topic"):
        mq.receive(orders, "billing")


def test_a_filter_with_a_typing_error(mq: mqpg.Client, orders: str) -> None:
    for typo in ("$.total >>", "total > 100"):
        with pytest.raises(errors.InvalidFilter, match=r"a filter is a predicate such as \$\.total > 100"):
            mq.subscribe("billing", orders, filter=typo)


def test_an_interval_with_a_typing_error(mq: mqpg.Client, orders: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="an interval is, for example, '90 seconds'"):
        mq.send(orders, 1, delay="5 sek")
