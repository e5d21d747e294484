"""A standby that does not follow in time is promoted: what is lost is named, message by message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy

import mqpg
from mqpg import migrate
from mqpg.embedded import EmbeddedServer, find_binaries
from tests.support.standby import Pair, replicated
from tests.support.waiting import eventually


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A primary with the database `broker`, and a standby that no commit waits for."""
    with EmbeddedServer(binaries=find_binaries()) as primary:
        migrate.upgrade(primary.create_database("broker"))
        with replicated(primary) as made:
            with psycopg.connect(primary.dsn(), autocommit=True) as conn:
                conn.execute("alter system set synchronous_standby_names = ''")
                conn.execute("select pg_reload_conf()")
            yield made


@pytest.fixture
def shop() -> Iterator[str]:
    with EmbeddedServer() as server:
        url = server.create_database("shop").replace("postgresql://", "postgresql+psycopg://")
        with mqpg.Ledger(url) as ledger:
            ledger.create()
        with psycopg.connect(server.dsn("shop")) as conn:
            conn.execute("create table sale (n int primary key)")
        yield url


def _sell(mq: mqpg.Client, shop: str, numbers: range) -> set[int]:
    """Sell with T2, and return the ids of the messages."""
    handles = []
    with mqpg.TransactionalProducer(mq, group="shop", ledger=shop) as producer:
        for n in numbers:
            with producer.transaction("orders", {"n": n}) as tx:
                tx.execute(sqlalchemy.text("insert into sale values (:n)"), {"n": n})
            handles.append(tx.handle)
        producer.recover(older_than=timedelta(0))
    mq.append()
    return {int(handle.split(".")[2]) for handle in handles}


def _follows(primary: EmbeddedServer) -> bool:
    with psycopg.connect(primary.dsn()) as conn:
        row = conn.execute("select replay_lsn >= pg_current_wal_lsn() from pg_stat_replication").fetchone()
    return bool(row and row[0])


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_what_an_asynchronous_standby_lacks_is_lost_by_name(pair: Pair, shop: str) -> None:
    """Five sales reach the standby and five do not. The ledger in the shop's database has all."""
    with mqpg.connect(pair.primary.dsn("broker")) as mq:
        mq.create_topic("orders", queues=1)
        mq.subscribe("board", "orders")
        mq.create_producer_group("shop", checker="url", checker_target="shop")
        _sell(mq, shop, range(5))
        eventually(lambda: _follows(pair.primary))
        pair.freeze_replication()
        lost = _sell(mq, shop, range(5, 10))
    pair.destroy_primary()
    broker = pair.promote().dsn("broker")
    assert migrate.adopt_promoted(broker) is not None
    with mqpg.connect(broker) as mq:
        assert {message.payload["n"] for message in _received(mq)} == set(range(5))
        mq.send("orders", {"n": 10})
        eventually(lambda: mq.append() == 1)
    report = _audit(broker, shop)
    assert report["verdict"] == "invalid"
    assert {kind: n for kind, n in report["anomalies"]["by_kind"].items() if n} == {"lost": 5}
    assert {one["message_id"] for one in report["anomalies"]["examples"]} == lost


def _received(mq: mqpg.Client) -> list[mqpg.Message]:
    delivery = mq.receive("board", "orders", 100)
    assert delivery
    return list(delivery)


def _audit(broker: str, shop: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "mqpg", "audit", "--engine", "sql", "--json", "--ledger", f"shop={shop}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=os.environ | {"MQPG_DATABASE_URL": broker})
    return json.loads(done.stdout)  # type: ignore[no-any-return]
