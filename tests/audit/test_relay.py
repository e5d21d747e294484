"""Relay topics: each phase is a message, and a ledger is compared with the COMMITs."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

import mqpg
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from tests.audit.judged import found, require_valid

RunAudit = Callable[[AuditOptions], Report]


@pytest.fixture
def stage(dsn: str, tmp_path: Path) -> Iterator[tuple[mqpg.Client, mqpg.TransactionalProducer, mqpg.Consumer, str]]:
    """A relay topic, a producer and a consumer, with all their tables in SQLite."""
    ledger, inbox = f"sqlite:///{tmp_path / 'ledger.db'}", create_engine(f"sqlite:///{tmp_path / 'inbox.db'}")
    with inbox.begin() as conn:
        conn.execute(text("create table business (id int)"))
    with mqpg.connect(dsn) as mq:
        mq.create_topic("relayed", queues=2, kind="relay")
        mq.create_producer_group("shop")
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=ledger)
        producer.create_ledger()

        @mqpg.consumer("relayed", group="board", database=inbox, journal=True, consumer="one")
        def handle(message: mqpg.Message, conn: Any) -> None:
            conn.execute(text("insert into business values (:id)"), {"id": message.payload})

        for number in range(12):
            with producer.transaction("relayed", number, key=None if number % 2 else str(number)) as tx:
                if number % 4 == 3:
                    tx.rollback()
                elif number % 4 == 1:
                    tx.commit_payload(number)
        with producer.transaction("relayed", 100) as tx:
            tx.add("relayed", 101)
            tx.add("relayed", 102, delay="10 ms")
        mq.send("relayed", 200)
        idle = threading.Event()
        while mq.append() + handle.step(mq) or not idle.wait(0.05):
            if handle.step(mq) + mq.append() == 0:
                idle.set()
        producer.close()
        yield mq, producer, handle, ledger
        handle.close()
    inbox.dispose()


def audit(run_audit: RunAudit, dsn: str, ledger: str, tmp_path: Path) -> Any:
    inbox = f"sqlite:///{tmp_path / 'inbox.db'}"
    options = AuditOptions(dsn=dsn, ledgers={"shop": ledger}, applied={"board": inbox}, drained=True)
    return run_audit(options)


def test_a_clean_relay_topic_is_valid(run_audit: RunAudit, dsn: str, stage: Any, tmp_path: Path) -> None:
    with psycopg.connect(dsn) as conn:
        phases = conn.execute("select count(*) from mqpg.commit_log where headers[1] ? 'mqpg-phase'").fetchone()
    assert phases == (30,)
    report = require_valid(audit(run_audit, dsn, stage[3], tmp_path))
    (topic,) = report.topics
    assert (topic["prepared"], topic["decided_commit"], topic["rolled_back"]) == (15, 12, 3)
    # Each of the 15 has a PREPARE and a decision, and there is one plain message.
    assert topic["committed"] == topic["queued"] == 31
    (relation,) = report.relations
    assert (relation.confirmed, relation.consumed, relation.ids_equal) == (12, 12, True)


def test_a_commit_without_effect_and_one_for_nothing_are_found(
    run_audit: RunAudit, dsn: str, stage: Any, tmp_path: Path
) -> None:
    """The journal lacks one COMMIT, and the ledger lacks the row of another."""
    with psycopg.connect(dsn) as conn:
        decided = conn.execute(
            "select o.message_id, o.deliver_id from mqpg.op_log o where o.op = 'c' and o.stage = 0 order by 1 limit 2"
        ).fetchall()
    engine = create_engine(f"sqlite:///{tmp_path / 'inbox.db'}")
    with engine.begin() as local:
        local.execute(text("delete from mqpg_applied where message_id = :id"), {"id": decided[0][1]})
    engine.dispose()
    engine = create_engine(stage[3])
    with engine.begin() as local:
        local.execute(text("delete from mqpg_ledger where handle like :id"), {"id": f"%.{decided[1][0]}.%"})
    engine.dispose()
    report = audit(run_audit, dsn, stage[3], tmp_path)
    assert found(report) == {"lost": 1, "phantom": 1}
    assert {example["message_id"] for example in report.examples} == {decided[0][1], decided[1][1]}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (
            "update mqpg.op_log a set deliver_id = b.deliver_id from mqpg.op_log b "
            "where a.message_id = any(%(ids)s) and b.message_id = any(%(ids)s) and a.message_id <> b.message_id",
            "corrupt",
        ),
        ("update mqpg.op_log set op = 'b' where message_id = any(%(ids)s)", "phantom"),
        ("update mqpg.op_log set deliver_id = deliver_id + 1 where message_id = any(%(ids)s)", "corrupt"),
    ],
    ids=["two commits exchanged", "commits turned into rollbacks", "commits of messages that are not there"],
)
def test_a_decision_that_is_not_what_its_phase_says(
    run_audit: RunAudit, dsn: str, stage: Any, tmp_path: Path, change: str, kind: str
) -> None:
    with psycopg.connect(dsn) as conn:
        ids = conn.execute(
            "select array_agg(q.id) from (select min(o.message_id) as id from mqpg.op_log o where o.op = 'c' "
            "and o.stage = 0 group by o.xid order by 1 limit 2) as q"
        ).fetchone()
        assert ids is not None
        assert conn.execute(change.encode(), {"ids": ids[0]}).rowcount == 2
    report = audit(run_audit, dsn, stage[3], tmp_path)
    assert found(report) == {kind: 2}
