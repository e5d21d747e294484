"""Pinned queues whose owner is gone: the consumer that comes instead says so, and names the way out."""

import logging
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg.values.messages import AbandonedQueues
from tests.support.consuming import running, sent
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

WORKER = """
insert into mqpg.worker as w (worker_id, role, host, pid, state, detail, seen_at)
values ('w', 'consumer', 'h', 1, %s, '{"consumer": "bill-1", "consumer_group": "g", "topic": "orders"}',
    clock_timestamp() + %s::interval)
on conflict (worker_id) do update set state = excluded.state, seen_at = excluded.seen_at
"""


@pytest.fixture
def held(mq: mqpg.Client) -> str:
    """A topic of two queues. The consumer bill-1 owns queue 0, where one message waits."""
    mq.create_topic("orders", queues=2)
    mq.subscribe("g", "orders", "pinned")
    key = next(key for key in map(str, range(99)) if _queue(mq, key) == 0)
    sent(mq, "orders", {"id": 1}, key=key)
    mq.receive("g", "orders", consumer="bill-1").release()
    return "orders"


def _queue(mq: mqpg.Client, key: str) -> int:
    with mq.transaction() as conn:
        row = conn.execute("select mqpg._queue_of(%s::text, 2)", [key]).fetchone()
    assert row is not None
    return int(row[0])


def gone(mq: mqpg.Client, silence: float = 30, consumer: str = "bill-2") -> list[tuple[str, tuple[int, ...], int]]:
    found = mq.queries.gone_owners("g", "orders", consumer, silence)
    assert all(isinstance(one, AbandonedQueues) for one in found)
    return [(one.consumer, one.queues, one.lag) for one in found]


HELD = [("bill-1", (0,), 1)]


def test_silence_is_what_shows_that_a_program_is_gone(mq: mqpg.Client, held: str) -> None:
    assert gone(mq, 30) == []
    assert gone(mq, 0) == HELD
    assert gone(mq, 0, consumer="bill-1") == []
    mq.unpin("g", held, consumer="bill-1")
    assert gone(mq, 0) == []


def test_a_worker_process_that_is_alive_is_not_gone(mq: mqpg.Client, held: str, db: psycopg.Connection[Any]) -> None:
    db.execute(WORKER, ["active", "0 s"])
    assert gone(mq, 0) == []
    db.execute(WORKER, ["stopped", "0 s"])
    assert gone(mq, 30) == HELD
    db.execute(WORKER, ["stopped", "-1 h"])  # its successor of the same name runs without a worker process
    assert gone(mq, 30) == []


def test_queues_without_messages_are_nobodys_trouble(mq: mqpg.Client, held: str) -> None:
    mq.receive("g", held, consumer="bill-1").ack()
    assert gone(mq, 0) == []


def test_the_new_name_logs_who_holds_the_queues_and_what_frees_them(
    mq: mqpg.Client, held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mqpg._sync.consumer.gone_owners._SILENCE", 0.0)
    monkeypatch.setattr("mqpg._sync.consumer.gone_owners._PAUSE", 0.1)
    caplog.set_level(logging.WARNING, "mqpg")
    handled = threading.Event()

    @mqpg.consumer(held, group="g", database=f"sqlite:///{tmp_path / 'bills.db'}", consumer="bill-2")
    def bill(message: mqpg.Message, conn: Any) -> None:
        handled.set()

    with running(bill, mq):
        eventually(lambda: bill.blocked_by)
        (line,) = eventually(lambda: [r.getMessage() for r in caplog.records if "belong to consumer" in r.getMessage()])
        assert line.startswith("g/orders: 1 messages wait in queues 0, which belong to consumer bill-1.")
        assert line.endswith("mqpg subscription unpin g orders --consumer bill-1")
        assert not handled.is_set()
        mq.unpin("g", "orders", consumer="bill-1")
        assert handled.wait(45)
        eventually(lambda: not bill.blocked_by)
    bill.close()
    assert len([r for r in caplog.records if "belong to consumer" in r.getMessage()]) == 1
