"""T6 with Spark: whole ledgers against whole brokers, also while databases do not answer."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import create_engine

import mqpg
from mqpg import errors, protocols
from mqpg.spark.jobs.reconcile import ReconcileOptions, missing_commits, reconcile_in
from mqpg.spark.read.session import own_session
from tests.support.business import delivered
from tests.support.proxied import proxied
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

AT_ONCE = timedelta(0)


@pytest.fixture
def mq(dsn: str) -> Iterator[mqpg.Client]:
    with mqpg.connect(dsn) as client:
        client.create_topic("orders", queues=1)
        client.create_producer_group("shop")
        client.subscribe("readers", "orders")
        yield client


@contextmanager
def shop(mq: mqpg.Client, url: str) -> Iterator[mqpg.TransactionalProducer]:
    """A producer. `lose` patches it so that a decision is lost."""
    engine = create_engine(url)
    with mqpg.TransactionalProducer(mq, group="shop", ledger=engine) as producer:
        producer.create_ledger()
        yield producer
    engine.dispose()


def lose(producer: mqpg.TransactionalProducer, payload: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch:
        patch.setattr("mqpg._sync.producer.transactional.decide", lambda *_: None)
        with producer.transaction("orders", payload, key=f"k{payload}") as tx:
            tx.commit_payload({"final": payload})
    return str(tx.handle)


@pytest.fixture
def other_database(new_database: Callable[..., str]) -> str:
    """URL of a ledger in another PostgreSQL database."""
    return new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)


def test_the_set_difference(spark: SparkSession) -> None:
    with own_session(spark) as own:
        compare_sets(own)
    assert SparkSession.active() is spark


def compare_sets(own: SparkSession) -> None:
    halves = [(n * 1024, 1, "h", [sha256(n)]) for n in (1, 2, 3)] + [(4 * 1024, 1, "h", [sha256(99)])]
    views = {
        "body": ("first_id bigint, n int, kind string, handle_hashes array<string>, topic_id int",
                 [(*half, 1) for half in halves] + [(5 * 1024, 1, "n", [None], 1)]),
        "decision": ("message_id bigint, stage int, op string",
                     [(2 * 1024, 0, "c"), (3 * 1024, 0, "b"), (8 * 1024, 0, "c"), (9 * 1024, 0, "b")]),
        "local_commit": ("ledger string, handle string, message_id bigint, nonce string",
                         [("0", f"h{n}", n * 1024, f"{n:032x}") for n in range(1, 11)]),
        "horizon": ("dropped_ids array<struct<low: bigint, high: bigint>>", [([(8 * 1024, 11 * 1024)],)]),
        "topic": ("topic_id int, topic string", [(1, "orders")]),
    }  # fmt: skip
    for name, (schema, rows) in views.items():
        own.createDataFrame(rows, schema).createOrReplaceTempView(name)
    found = missing_commits(own).collect()
    # Retention has dropped the messages 8 (committed) and 9 (rolled back). For 10 it has dropped
    # the decision too.
    assert {row["handle"]: row["state"] for row in found} == {
        "h1": "undecided", "h3": "rolled_back", "h4": "absent", "h5": "absent", "h6": "absent", "h7": "absent",
        "h9": "rolled_back",
    }  # fmt: skip
    assert {row["topic"] for row in found if row["handle"] in ("h1", "h3")} == {"orders"}


def sha256(number: int) -> str:
    """The hash that the log shows of a nonce."""
    return hashlib.sha256(number.to_bytes(16)).hexdigest()


def test_ledgers_of_several_kinds_with_another_job(
    spark: SparkSession, mq: mqpg.Client, dsn: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no false positives, and two jobs at once commit nothing twice."""
    light = f"sqlite:///{tmp_path / 'ledger.db'}"
    with shop(mq, other_database) as one, shop(mq, light) as two:
        lost = [lose(one, 1, monkeypatch), lose(one, 2, monkeypatch), lose(two, 3, monkeypatch)]
        contradicted = lose(two, 4, monkeypatch)
        mq.settle(contradicted, "rollback", "by mistake")
        for producer in (one, two):
            with producer.transaction("orders", "decided"):
                pass
        options = ReconcileOptions((dsn,), (other_database, light), older_than=AT_ONCE)
        with one.transaction("orders", "open") as tx:  # It is open while the ledger is read.
            listed = reconcile_in(spark, ReconcileOptions((dsn,), (other_database, light), AT_ONCE, settle=False))
            tx.rollback()
        assert {hit.handle: hit.state for hit in listed} == dict.fromkeys(lost, "undecided") | {
            contradicted: "rolled_back"
        }
        young = reconcile_in(spark, ReconcileOptions((dsn,), (other_database, light)))
        assert young == []
        outcomes: dict[str, list[Any]] = {handle: [] for handle in [*lost, contradicted]}

        def reconcile_each() -> None:
            for ledger in (other_database, light):
                with protocols.Reconciler(mq, ledger, older_than=AT_ONCE) as reconciler:
                    for hit in reconciler.step():
                        outcomes[hit.handle].append(hit.outcome)

        thread = threading.Thread(target=reconcile_each)
        thread.start()
        for hit in reconcile_in(spark, options):
            outcomes[hit.handle].append(hit.outcome)
        thread.join()
        for handle in lost:
            assert outcomes[handle].count(mqpg.Outcome.COMMITTED) == 1
        assert set(outcomes[contradicted]) == {None}
    assert sorted(map(str, delivered(mq, "orders"))) == sorted(
        ["decided", "decided", *(str({"final": number}) for number in (1, 2, 3))]
    )


def test_the_ledger_at_the_broker(spark: SparkSession, mq: mqpg.Client, dsn: str) -> None:
    handle = mq.prepare("orders", 1, "shop", key="k")
    with psycopg.connect(dsn) as conn:
        mq.local_begin(handle, conn=conn)
        assert reconcile_in(spark, ReconcileOptions((dsn,), older_than=AT_ONCE)) == []
    (hit,) = reconcile_in(spark, ReconcileOptions((dsn,), older_than=AT_ONCE))
    assert (hit.handle, hit.topic, hit.key, hit.state, hit.outcome) == (handle, "orders", "k", "undecided", "committed")
    assert delivered(mq, "orders") == [1]


def test_more_than_one_pass_commits(spark: SparkSession, mq: mqpg.Client, dsn: str, tmp_path: Path) -> None:
    """What a broker rolled back fills no pass, and is listed once."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    handles = [mq.prepare("orders", number, "shop", key="k") for number in range(7)]
    engine = create_engine(url)
    with mqpg.Ledger(engine) as ledger:
        ledger.create()
        with engine.begin() as conn:
            for handle in handles:
                ledger.begin(conn, handle)
    engine.dispose()
    for handle in handles[:2]:
        mq.settle(handle, "rollback", "by mistake")
    hits = reconcile_in(spark, ReconcileOptions((dsn,), (url,), older_than=AT_ONCE, max_messages=2))
    assert sorted(hit.handle for hit in hits) == sorted(handles)
    assert {hit.handle: hit.outcome for hit in hits} == dict.fromkeys(handles[:2]) | dict.fromkeys(
        handles[2:], mqpg.Outcome.COMMITTED
    )
    assert delivered(mq, "orders") == [2, 3, 4, 5, 6]


def test_errors(spark: SparkSession, mq: mqpg.Client, dsn: str, other_database: str) -> None:
    with pytest.raises(errors.LedgerError, match="no table mqpg_ledger"):
        reconcile_in(spark, ReconcileOptions((dsn,), (other_database,)))
    with pytest.raises(errors.ConnectionFailed):
        reconcile_in(spark, ReconcileOptions(("postgresql://nobody@127.0.0.1:1/none",)))


@pytest.mark.audits
def test_the_command_waits_for_a_broker_that_is_away(
    mq: mqpg.Client, dsn: str, other_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop(mq, other_database) as producer, proxied(dsn) as (between, behind):
        lose(producer, 1, monkeypatch)
        between.down = True
        arguments = ["--dsn", behind, "--ledger", other_database, "--older-than", "0", "--local-threads", "1", "--json"]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG", "DATABASE"))
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "mqpg", "reconcile", *arguments, "--watch", "0.5"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        try:
            time.sleep(1)
            assert delivered(mq, "orders") == []
            assert process.stderr is not None
            assert "cannot connect" in _line(process.stderr, "cannot connect")
            between.down = False
            eventually(lambda: delivered(mq, "orders") == [{"final": 1}], 300)
        finally:
            process.terminate()
        out, _ = process.communicate(timeout=60)
    assert [hit["outcome"] for hit in json.JSONDecoder().raw_decode(out)[0]] == ["committed"]


def _line(stream: Any, wanted: str) -> str:
    for line in stream:
        if wanted in line:
            return str(line)
    return ""
