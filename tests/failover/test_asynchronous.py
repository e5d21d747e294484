"""A standby that does not follow in time is promoted: what is lost is named, message by message."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy

import mqpg
from mqpg import migrate
from tests.support.forking import Forked, run_mqpg
from tests.support.standby import Pair, follows
from tests.support.waiting import eventually


def _sell(mq: mqpg.Client, shop: str, numbers: range, *, keep_messages: bool = False) -> set[int]:
    """Sell with T2, and return the ids of the messages."""
    handles = []
    with mqpg.TransactionalProducer(mq, group="shop", ledger=shop, keep_messages=keep_messages) as producer:
        for n in numbers:
            with producer.transaction("orders", {"n": n}) as tx:
                tx.execute(sqlalchemy.text("insert into sale values (:n)"), {"n": n})
            handles.append(tx.handle)
        producer.recover(older_than=timedelta(0))
    mq.append()
    return {int(handle.split(".")[2]) for handle in handles}


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_what_an_asynchronous_standby_lacks_is_lost_by_name(pair: Pair, shop: str) -> None:
    """Five sales reach the standby and five do not. The ledger in the shop's database has all."""
    with mqpg.connect(pair.primary.dsn("broker")) as mq:
        mq.create_topic("orders", queues=1)
        mq.subscribe("board", "orders")
        mq.create_producer_group("shop", checker="url", checker_target="shop")
        _sell(mq, shop, range(5))
        eventually(lambda: follows(pair.primary))
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


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_a_ledger_with_messages_sends_again_what_was_lost(pair: Pair, shop: str) -> None:
    """Nine sales are done and one is under way when the primary is lost. The standby has five of them, and
    the half message of a sixth without its decision.

    Several recoveries run at the same time, and one is killed wherever it is. Each sale is applied once.
    """
    with mqpg.connect(pair.primary.dsn("broker")) as mq:
        mq.create_topic("orders", queues=1)
        mq.subscribe("board", "orders")
        mq.create_producer_group("shop", checker="url", checker_target="shop")
        _sell(mq, shop, range(5), keep_messages=True)
        with producing(mq, shop, {"n": 5}, key="five", tag="t", headers={"h": 1}):
            eventually(lambda: follows(pair.primary))
            pair.freeze_replication()
        _sell(mq, shop, range(6, 9), keep_messages=True)
        broker = _lose_under_way(pair, mq, shop)
    recoveries = [_start_recovery(broker, shop) for _ in range(4)]
    recoveries[0].kill()
    assert [one.wait(60) for one in recoveries] == [-signal.SIGKILL, 0, 0, 0]
    with mqpg.connect(broker) as mq:
        with mqpg.TransactionalProducer(mq, group="shop", ledger=shop) as producer:
            producer.recover(older_than=timedelta(0))
            assert producer.recover_lost() == []
            assert producer.recover(older_than=timedelta(0)) == 0
        eventually(lambda: mq.append() >= 0 and _lag(mq) == 10)
        received = mq.receive("board", "orders", 100)
        assert sorted(message.payload["n"] for message in received) == list(range(10))
        by_number = {message.payload["n"]: message for message in received}
        assert (by_number[5].key, by_number[5].tag, by_number[5].headers) == ("five", "t", {"h": 1})
        assert by_number[9].payload == {"n": 9, "final": True}
        assert by_number[9].key == "nine"
        assert {n for n in by_number if "mqpg-earlier-ids" in (by_number[n].headers or {})} == {6, 7, 8, 9}
        received.ack()
        _settle_the_rest(mq, shop)
    report = _audit(broker, shop)
    assert report["verdict"] == "valid", report


@contextmanager
def producing(mq: mqpg.Client, shop: str, sale: dict[str, Any], **options: Any) -> Iterator[Any]:
    """A sale whose half message is stored, and whose local transaction is open."""
    with (
        mqpg.TransactionalProducer(mq, group="shop", ledger=shop, keep_messages=True) as producer,
        producer.transaction("orders", sale, **options) as tx,
    ):
        tx.execute(sqlalchemy.text("insert into sale values (:n)"), {"n": sale["n"]})
        yield tx


def _lose_under_way(pair: Pair, mq: mqpg.Client, shop: str) -> str:
    """Lose the primary while sale 9 is under way. Its live producer meets the new one.

    The sale is committed, so its block ends without an error that might make somebody repeat it.
    """
    with ExitStack() as clients, producing(mq, shop, {"n": 9}, key="nine") as tx:
        tx.commit_payload({"n": 9, "final": True})
        pair.destroy_primary()
        broker = pair.promote().dsn("broker")
        assert migrate.adopt_promoted(broker) is not None
        tx.mq = clients.enter_context(mqpg.connect(broker))
    assert (tx.committed, tx.outcome) == (True, None)
    return broker


def _start_recovery(broker: str, shop: str) -> Forked:
    return Forked(["half", "recover", "--ledger", shop, "--dsn", broker])


def _lag(mq: mqpg.Client) -> int:
    with mq.transaction() as conn:
        row = conn.execute("select sum(lag) from mqpg.subscription_lag").fetchone()
    return int(row[0]) if row else 0


def _settle_the_rest(mq: mqpg.Client, shop: str) -> None:
    """What a recovery prepared and did not record is rolled back, as the compensator does it."""
    with mqpg.Ledger(shop) as ledger, mq.transaction() as conn:
        for (handle,) in conn.execute("select handle from mqpg.half_pending").fetchall():
            assert ledger.verdict(handle) is mqpg.Verdict.ROLLBACK
            mq.rollback(handle, conn=conn)


def _received(mq: mqpg.Client) -> list[mqpg.Message]:
    delivery = mq.receive("board", "orders", 100)
    assert delivery
    return list(delivery)


def _audit(broker: str, shop: str) -> dict[str, Any]:
    command = ["audit", "--engine", "sql", "--json", "--ledger", f"shop={shop}"]
    done = run_mqpg(*command, env=os.environ | {"MQPG_DATABASE_URL": broker})
    return json.loads(done.stdout)
