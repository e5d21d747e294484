"""mqpg.testing as a user has it: a project of its own, in a process of its own, with the installed package."""

import os
import subprocess
import sys
from pathlib import Path

from tests.fixtures.server import Server

CONFTEST = 'pytest_plugins = ["mqpg.testing"]\n'
BILLING = """
import mqpg

@mqpg.consumer("orders", group="billing", retry_delay="10 ms", max_attempts=2)
def bill(message, conn):
    if message.payload["id"] < 0:
        raise ValueError("negative")
    conn.execute("insert into bill values (%s)", [message.payload["id"]])

@mqpg.consumer("orders", group="mail", effect="external")
async def mail(message):
    sent.append(message.payload["id"])

@mqpg.consumer("orders", group="stock", database="sqlite:////not/for/tests.db", consumer="stock-1")
def stock(message, conn):
    conn.exec_driver_sql("insert into moved values (?)", (message.payload["id"],))

sent = []
"""
TESTS = """
import psycopg
import pytest
import sqlalchemy

import mqpg
from billing import bill, mail, sent, stock
from mqpg.testing import adrain, drain


@pytest.fixture
def bills(mqpg_client, mqpg_dsn):
    mqpg_client.create_topic("orders")
    with psycopg.connect(mqpg_dsn, autocommit=True) as conn:
        conn.execute("create table bill (id int)")
        yield lambda: [row[0] for row in conn.execute("select id from bill order by id")]


def test_each_order_is_billed(mqpg_client, bills):
    drain(mqpg_client, bill)
    for number in (1, 2, -3):
        mqpg_client.send("orders", {"id": number})
    assert drain(mqpg_client, bill, wait=0.5) == 4
    assert bills() == [1, 2]
    assert [letter.reason for letter in mqpg_client.dead_letters("billing", "orders")] == ["ValueError: negative"]


def test_the_same_handler_serves_the_next_test(mqpg_client, bills):
    mqpg_client.create_producer_group("other")
    drain(mqpg_client, bill)
    mqpg_client.send("orders", {"id": 7})
    assert drain(mqpg_client, bill) == 1
    assert bills() == [7]


def test_the_next_test_has_another_database(mqpg_client):
    with pytest.raises(mqpg.errors.UnknownTopic):
        mqpg_client.send("orders", {"id": 1})


def test_a_handler_with_a_database_of_its_own(mqpg_client, tmp_path):
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/stock.db")
    with engine.begin() as conn:
        conn.exec_driver_sql("create table moved (id int)")
    mqpg_client.create_topic("orders")
    mqpg_client.send("orders", {"id": 9})
    assert drain(mqpg_client, stock.with_options(database=engine)) == 1
    with engine.connect() as conn:
        assert conn.exec_driver_sql("select id from moved").fetchall() == [(9,)]
    assert stock.options.database == "sqlite:////not/for/tests.db"
    for wrong in ({"databse": engine}, {"max_messages": 0}, {"mode": "exclusive"}):
        with pytest.raises(mqpg.ConfigurationError, match=next(iter(wrong))):
            stock.with_options(**wrong)


def test_all_queues_of_a_handler_with_workers(mqpg_client, tmp_path):
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/stock.db")
    with engine.begin() as conn:
        conn.exec_driver_sql("create table moved (id int)")
    mqpg_client.create_topic("orders", queues=4)
    mqpg_client.send_batch("orders", [{"id": one} for one in range(20)], keys=[str(one) for one in range(20)])
    assert drain(mqpg_client, stock.with_options(database=engine, concurrency=4)) == 20


def test_two_brokers(mqpg_databases):
    first, second = mqpg_databases.create(), mqpg_databases.create()
    with mqpg.connect(first) as one, mqpg.connect(second) as other:
        assert one.info().broker_id != other.info().broker_id
    mqpg_databases.drop(first)
    mqpg_databases.drop(second)


@pytest.mark.asyncio
async def test_asynchronously(mqpg_async_client):
    await mqpg_async_client.create_topic("orders")
    assert await adrain(mqpg_async_client, mail) == 0
    await mqpg_async_client.send("orders", {"id": 5})
    assert await adrain(mqpg_async_client, mail) == 1
    assert sent == [5]


@pytest.mark.asyncio
async def test_asynchronously_once_more(mqpg_async_client):
    await mqpg_async_client.create_topic("orders")
    assert await adrain(mqpg_async_client, mail) == 0
    await mqpg_async_client.send("orders", {"id": 6})
    assert await adrain(mqpg_async_client, mail) == 1
    assert sent[-1] == 6


def test_that_fails(mqpg_client):
    mqpg_client.create_topic("orders")
    assert drain(mqpg_client) == 1
"""


def test_in_a_project_of_a_users_own(tmp_path: Path, server: Server) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "billing.py").write_text(BILLING)
    (tmp_path / "test_billing.py").write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "-W", "error", "-q",
         "-o", "asyncio_default_fixture_loop_scope=function"],
        cwd=tmp_path, env=environment | {"MQPG_TEST_DSN": server.dsn()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "8 passed" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "test_that_fails" in done.stdout


def test_without_a_server_named_it_starts_one(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_one.py").write_text(
        "def test_one(mqpg_client):\n"
        "    with mqpg_client.transaction() as conn:\n"
        "        assert conn.execute('show port').fetchone() != ('5432',)\n"
        "        assert conn.execute('show fsync').fetchone() == ('off',)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG", "PG", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr
