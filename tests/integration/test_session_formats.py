"""Settings of a role or a database that say how values are written break nothing of the library."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, text

import mqpg
from mqpg import migrate
from mqpg.cli.completion import complete_topic
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.connection.text_session import text_session
from mqpg.workers import session
from tests.support.consuming import drain

_TEXT = "5 \N{EURO SIGN} \\ ' \N{GRINNING FACE}"
# No two of a dict have to do with one another.
_SETTINGS = [
    {
        "client_encoding": "LATIN1",
        "datestyle": "German, DMY",
        "intervalstyle": "sql_standard",
        "bytea_output": "escape",
        "array_nulls": "off",
        "quote_all_identifiers": "on",
    },
    {
        "client_encoding": "SQL_ASCII",
        "datestyle": "Postgres, MDY",
        "intervalstyle": "iso_8601",
        "timezone": "Asia/Kathmandu",
        "extra_float_digits": "-15",
        "client_min_messages": "debug1",
    },
    {"client_encoding": "WIN1252", "xmloption": "document", "transform_null_equals": "on"},
    {"standard_conforming_strings": "off"},
]


@pytest.fixture(params=_SETTINGS, ids=lambda settings: next(iter(settings.values())))
def odd(dsn: str, request: pytest.FixtureRequest, server_version: int) -> str:
    """The DSN of a broker whose database has these settings."""
    if "standard_conforming_strings" in request.param and server_version >= 190000:
        pytest.skip("it cannot be switched off")
    database = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name, value in request.param.items():
            conn.execute(f"alter database {database} set {name} = '{value}'".encode())
    return dsn


def test_everything(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.upgrade(odd)
    migrate.status(odd)
    with mqpg.connect(odd) as mq:
        mq.create_topic("orders", queues=1)
        mq.subscribe("g", "orders", retry_delay=timedelta(days=1, hours=2))
        began = datetime.now(UTC)
        ids = mq.send_batch("orders", [{"price": _TEXT}, 2], keys=[None, _TEXT], headers=[{"a": _TEXT}, None])
        with session.connect(odd, "appender") as worker:
            worker.execute("select mqpg.append()")
        messages = mq.receive("g", "orders", lease="90 seconds")
        assert [(one.payload, one.key, one.headers) for one in messages] == [
            ({"price": _TEXT}, None, {"a": _TEXT}), (2, _TEXT, None)
        ]  # fmt: skip
        assert all(abs(one.born_at - began) < timedelta(minutes=1) for one in messages)
        messages.ack()
        assert mq.trace(ids[0])
        assert list(mq.find_by_key("orders", _TEXT))
        _require_woken(mq)
        _require_handled(mq, odd)
    with text_session(odd, "test") as plain:
        assert plain.execute("select %s::text as t", [_TEXT]).fetchone() == {"t": _TEXT}
    monkeypatch.setenv("MQPG_DATABASE_URL", odd)
    assert complete_topic("ord") == ["orders"]


def _require_woken(mq: mqpg.Client) -> None:
    """The listener works."""
    threading.Timer(0.3, lambda: (mq.send("orders", "woken"), mq.append())).start()
    began = time.monotonic()
    messages = mq.receive("g", "orders", wait=60)
    assert time.monotonic() - began < 45
    messages.ack()


def _require_handled(mq: mqpg.Client, dsn: str) -> None:
    """Handlers with a connection of SQLAlchemy, in this database and in one of their own; ledgers."""
    seen: list[Any] = []

    @mqpg.consumer("orders", group="here", max_messages=1)
    def here(message: mqpg.Message, conn: Connection) -> None:
        seen.append((message.payload, conn.execute(text("select now()")).scalar()))

    @mqpg.consumer("orders", group="there", database=to_sqlalchemy(dsn), max_messages=1, consumer="one")
    def there(message: mqpg.Message, conn: Connection) -> None:
        seen.append((message.payload, conn.execute(text("select now()")).scalar()))

    consumers = (here, there)
    for consumer in consumers:
        consumer.step(mq)
    mq.create_producer_group("shop")
    with mqpg.TransactionalProducer(mq, group="shop", ledger=dsn) as shop:
        shop.create_ledger()
        with shop.transaction("orders", _TEXT):
            pass
        shop.recover(older_than=timedelta())
        shop.ledger.purge(timedelta())
    mq.append()
    for consumer in consumers:
        while consumer.step(mq):
            pass
        consumer.close()
    assert [one[0] for one in seen].count(_TEXT) == 2


@pytest.mark.parametrize("kind", ["normal", "relay"])
def test_a_consumers_database_that_has_not_every_character(
    mq: mqpg.Client, db: psycopg.Connection[Any], kind: Any
) -> None:
    """Neither a reason nor a PREPARE that it cannot hold stops the queue."""
    name = f"{db.info.dbname}_latin1"
    db.execute(f"create database {name} encoding 'LATIN1' template template0 locale 'C'".encode())
    mq.create_topic("orders", queues=1, kind=kind)
    mq.create_producer_group("shop")
    done: list[Any] = []

    @mqpg.consumer(
        "orders", group="g", consumer="one", max_attempts=2, retry_delay=0,
        database=to_sqlalchemy(mq.dsn).set(database=name),
    )  # fmt: skip
    def handle(message: mqpg.Message, conn: Connection) -> None:
        if message.payload == 2:
            raise ValueError(_TEXT)
        done.append(message.payload)

    try:
        handle.step(mq)
        for payload in (1, 2, _TEXT, 3):
            if kind == "relay":
                mq.commit(mq.prepare("orders", payload, "shop"))
            else:
                mq.send("orders", payload)
        drain(handle, mq)
        reasons = {letter.reason for letter in mq.dead_letters("g", "orders")}
        assert f"ValueError: {_TEXT}" in reasons
        if kind == "relay":  # its PREPARE and its COMMIT
            assert len(reasons) == 3
            assert any("encoding" in str(reason) for reason in reasons)
            done.append(_TEXT)
        assert sorted({*done}, key=str) == [1, 3, _TEXT]
    finally:
        handle.close()
        db.execute(f"drop database {name} with (force)".encode())
