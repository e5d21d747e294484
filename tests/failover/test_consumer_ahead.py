"""A consumer with its own database is ahead of an asynchronous standby that was promoted."""

import json
import os
import subprocess
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy

import mqpg
from mqpg import errors, migrate, protocols
from tests.support.forking import run_mqpg
from tests.support.standby import Pair, follows
from tests.support.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def consumer(shop: str, *, journal: bool) -> mqpg.Consumer:
    @mqpg.consumer("orders", group="board", database=shop, consumer="one", journal=journal)
    def apply(message: mqpg.Message, conn: Any) -> None:
        conn.execute(sqlalchemy.text("insert into effect values (:n)"), {"n": message.payload["n"]})

    return apply


def consume(mq: mqpg.Client, shop: str, *, journal: bool = True) -> None:
    """Apply everything that is there."""
    with closing(consumer(shop, journal=journal)) as made:
        eventually(lambda: mq.append() == 0)
        while made.step(mq):
            pass


def effects(shop: str) -> dict[int, int]:
    with psycopg.connect(shop.replace("+psycopg", "")) as conn:
        return dict(Counter(n for (n,) in conn.execute("select n from effect")))


@dataclass
class Loss:
    """A promoted broker, and what it has lost."""

    broker: str
    lost: dict[int, int] = field(default_factory=dict)


def lose_the_tail(pair: Pair, shop: str, *, journal: bool, sell: bool = False) -> Loss:
    """The consumer has applied 0 to 8 and 100.

    The standby has 0 to 4 with their offsets, and 5 and 6 without: in front of them was 100, which it lacks. It
    lacks 7 and 8 too, which are sales with a ledger where `sell` says so.
    """
    with mqpg.connect(pair.primary.dsn("broker")) as mq:
        mq.create_topic("orders", queues=1)
        mq.subscribe("board", "orders", "pinned")
        mq.create_producer_group("shop", checker="url", checker_target="shop")
        mq.send_batch("orders", [{"n": n} for n in range(5)])
        consume(mq, shop, journal=journal)
        loss = Loss("")
        with psycopg.connect(pair.primary.dsn("broker")) as late:
            loss.lost[100] = mq.send("orders", {"n": 100}, conn=late)
            for n in (5, 6):
                mq.send("orders", {"n": n})
            eventually(lambda: follows(pair.primary))
            pair.freeze_replication()
        for n in (7, 8):
            loss.lost[n] = _sell(mq, shop, n) if sell else mq.send("orders", {"n": n})
        consume(mq, shop, journal=journal)
        assert effects(shop) == dict.fromkeys([*range(9), 100], 1)
    pair.destroy_primary()
    loss.broker = pair.promote().dsn("broker")
    assert migrate.adopt_promoted(loss.broker) is not None
    return loss


def _sell(mq: mqpg.Client, shop: str, n: int) -> int:
    with mqpg.TransactionalProducer(mq, group="shop", ledger=shop, keep_messages=True) as producer:
        with producer.transaction("orders", {"n": n}) as tx:
            tx.execute(sqlalchemy.text("insert into sale values (:n)"), {"n": n})
        producer.recover(older_than=timedelta(0))
    return int(tx.handle.split(".")[2])


def realign(broker: str, shop: str, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    done = run_realign(broker, shop, "--json", *options)
    return done.returncode, json.loads(done.stdout or "[]"), done.stderr


def run_realign(broker: str, shop: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"MQPG_DATABASE_URL": broker, "MQPG_CONSUMER_DATABASE": shop}
    return run_mqpg("subscription", "realign", "board", "orders", *options, env=environment)


def audit(broker: str, shop: str) -> tuple[str, dict[str, int], set[int]]:
    """Verdict, anomalies by kind, and the messages that they name. Both servers have the same clock."""
    command = ["audit", "--engine", "sql", "--json", "--clock-tolerance", "0"]
    command += ["--ledger", f"shop={shop}", "--applied", f"board={shop}"]
    done = run_mqpg(*command, env=os.environ | {"MQPG_DATABASE_URL": broker})
    report = json.loads(done.stdout)
    found = report["anomalies"]
    by_kind = {kind: n for kind, n in found["by_kind"].items() if n}
    return report["verdict"], by_kind, {one["message_id"] for one in found["examples"]}


def test_a_journal_lets_it_continue_and_the_audit_names_what_is_lost_for_ever(pair: Pair, shop: str) -> None:
    """Messages 5 and 6 have new offsets and are not applied again. 7, 8 and 100 are lost, by name."""
    loss = lose_the_tail(pair, shop, journal=True)
    with mqpg.connect(loss.broker) as mq:
        for n in (9, 10):
            mq.send("orders", {"n": n})
        with pytest.raises(errors.OffsetBeyondLog, match="not the one"):
            consume(mq, shop)
        moved = {"queue_id": 0, "from_offset": 10, "to_offset": 5, "next_offset": 9, "journaled": True}
        assert realign(loss.broker, shop, "--dry-run")[:2] == (0, [moved])
        with pytest.raises(errors.OffsetBeyondLog):
            consume(mq, shop)
        said = run_realign(loss.broker, shop).stdout.splitlines()[-1]
        assert said == "moved group board on 1 queue of topic orders back"
        said = run_realign(loss.broker, shop).stdout
        assert said == "group board on topic orders is not ahead of the broker: nothing to move\n"
        consume(mq, shop)
        assert effects(shop) == dict.fromkeys([*range(11), 100], 1)
        assert realign(loss.broker, shop)[:2] == (0, [])
    assert audit(loss.broker, shop) == ("invalid", {"lost": 3}, set(loss.lost.values()))


def test_what_a_ledger_sends_again_is_not_applied_again(pair: Pair, shop: str) -> None:
    """The half messages of 7 and 8 come again under new ids, before the consumer was moved back."""
    loss = lose_the_tail(pair, shop, journal=True, sell=True)
    with mqpg.connect(loss.broker) as mq:
        with mqpg.TransactionalProducer(mq, group="shop", ledger=shop) as producer:
            assert producer.recover(older_than=timedelta(0)) == 2
        mq.send("orders", {"n": 9})
        with pytest.raises(errors.OffsetBeyondLog):
            consume(mq, shop)
        assert [one.to_offset for one in protocols.realign(mq, shop, "board", "orders")] == [5]
        consume(mq, shop)
        assert effects(shop) == dict.fromkeys([*range(10), 100], 1)
    assert audit(loss.broker, shop) == ("invalid", {"lost": 1}, {loss.lost[100]})


@pytest.mark.parametrize(
    ("choice", "doubled", "left_out"), [("repeat", {5, 6}, set[int]()), ("skip", set[int](), {9, 10})]
)
def test_without_a_journal_somebody_must_choose(
    pair: Pair, shop: str, choice: str, doubled: set[int], left_out: set[int]
) -> None:
    loss = lose_the_tail(pair, shop, journal=False)
    with mqpg.connect(loss.broker) as mq:
        for n in (9, 10):
            mq.send("orders", {"n": n})
        with pytest.raises(errors.OffsetBeyondLog):
            consume(mq, shop, journal=False)
        status, found, words = realign(loss.broker, shop)
        assert (status, found) == (1, [])
        assert "no journal" in words
        with pytest.raises(errors.OffsetBeyondLog):
            consume(mq, shop, journal=False)
        assert realign(loss.broker, shop, "--without-journal", choice)[0] == 0
        mq.send("orders", {"n": 11})
        consume(mq, shop, journal=False)
        expected = {n: 2 if n in doubled else 1 for n in [*range(12), 100] if n not in left_out}
        assert effects(shop) == expected
