"""An asynchronous standby loses plain sends and half messages of which a producer's outbox has a record."""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy

import mqpg
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from tests.support.forking import run_mqpg
from tests.support.standby import asynchronous, follows
from tests.support.waiting import eventually


@pytest.fixture
def shop(empty_dsn: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(empty_dsn.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_an_outbox_sends_again_what_it_still_has_and_the_audit_names_the_half(
    broker_server: EmbeddedServer, shop: sqlalchemy.Engine
) -> None:
    """1 is sent (T5), and the producer dies before it deletes its row. 2 is a half message whose local
    transaction commits while the primary is destroyed. The standby lacks both.
    """
    with asynchronous(broker_server) as pair, mqpg.connect(pair.primary.dsn("broker"), pool_timeout=5) as mq:
        producer = _prepare(mq, shop)
        eventually(lambda: follows(pair.primary))
        pair.freeze_replication()
        with shop.begin() as conn:
            producer.send("orders", {"n": 1}, conn=conn)
            (row_id,) = conn.execute(sqlalchemy.text("select id from mqpg_outbox")).one()
        mq.send("orders", {"n": 1}, dedup_id=row_id)
        with producer.transaction("orders", {"n": 2}) as tx:
            pair.destroy_primary()
        assert (tx.committed, tx.outcome) == (True, None)
        lost = int(tx.handle.split(".")[2])
        broker = pair.promote().dsn("broker")
        assert migrate.adopt_promoted(broker) is not None
        with mqpg.connect(broker) as promoted:
            promoted.send("orders", {"n": 0})
            eventually(lambda: promoted.append() == 1)
            assert _audit(broker, shop) == ("invalid", {"lost": 1}, {lost})
            again = mqpg.protocols.OutboxProducer(promoted, database=shop, group="shop")
            assert again.recover(older_than=timedelta(0)) == 2
            assert again.recover(older_than=timedelta(0)) == 0
            eventually(lambda: promoted.append() == 2)
            received = promoted.receive("board", "orders", 100)
            assert sorted(message.payload["n"] for message in received) == [0, 1, 2]
            received.ack()
        assert _audit(broker, shop) == ("valid", {}, set())


def _prepare(mq: mqpg.Client, shop: sqlalchemy.Engine) -> mqpg.protocols.OutboxProducer:
    mq.create_topic("orders", queues=1)
    mq.subscribe("board", "orders")
    mq.create_producer_group("shop")
    producer = mqpg.protocols.OutboxProducer(mq, database=shop, group="shop")
    producer.create_outbox()
    return producer


def _audit(broker: str, shop: sqlalchemy.Engine) -> tuple[str, dict[str, int], set[int]]:
    """Verdict, anomalies by kind, and the messages that they name."""
    url = shop.url.render_as_string(hide_password=False)
    command = ["audit", "--engine", "sql", "--json", "--ledger", f"shop={url}"]
    done = run_mqpg(*command, env=os.environ | {"MQPG_DATABASE_URL": broker})
    report: dict[str, Any] = json.loads(done.stdout)
    found = report["anomalies"]
    by_kind = {kind: n for kind, n in found["by_kind"].items() if n}
    assert report["verdict"] != "unknown", report["reasons"]
    return report["verdict"], by_kind, {one["message_id"] for one in found["examples"]}
