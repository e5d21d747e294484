"""What `docs/howto/questions.md` lets an operator do by hand with a consumer's own database (C2)."""

from typing import Any

import pytest
from sqlalchemy import Engine, text

import mqpg
from tests.support import consuming
from tests.support.business import business
from tests.support.forking import run_mqpg

pytestmark = [pytest.mark.shared_database, pytest.mark.usefixtures("topic")]


def consumer(engine: Engine, group: str, *, failing: int = -1, **options: Any) -> mqpg.Consumer:
    @mqpg.consumer("orders", group=group, database=engine, consumer="one", journal=True, retry_delay=0.01, **options)
    def apply(message: mqpg.Message, conn: Any) -> None:
        if message.payload["id"] == failing and message.attempt == 1:
            raise ValueError("noch nicht verfügbar")
        conn.execute(text("insert into business values (:id)"), {"id": message.payload["id"]})

    return apply


def send(mq: mqpg.Client, *numbers: int) -> None:
    for number in numbers:
        mq.send("orders", {"id": number})
    mq.append()


def test_a_renamed_group_repeats_nothing(mq: mqpg.Client, dsn: str, engine: Engine, local_url: str) -> None:
    """Although its last acknowledgements did not reach the broker, where the new group begins too early."""
    send(mq, 0, 1, 2, 3)
    consuming.drain(consumer(engine, "stock"), mq)
    mq.subscribe("depot", "orders", mode="pinned")
    mq.seek("depot", "orders", "2", queue_id=0)
    mq.unsubscribe("stock", "orders")
    with engine.begin() as conn:
        for table in ("mqpg_offsets", "mqpg_inbox", "mqpg_applied"):
            conn.execute(text(f"update {table} set consumer_group = 'depot' where consumer_group = 'stock'"))
    send(mq, 4)
    consuming.drain(consumer(engine, "depot"), mq)
    assert business(engine) == [0, 1, 2, 3, 4]
    done = run_mqpg("audit", "--dsn", dsn, "--applied", f"depot={local_url}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_replay_moves_the_offset_there_too(mq: mqpg.Client, engine: Engine) -> None:
    send(mq, 0, 1, 2, 3)
    consuming.drain(consumer(engine, "stock"), mq)
    mq.seek("stock", "orders", "2", queue_id=0)
    consuming.drain(consumer(engine, "stock"), mq)
    assert business(engine) == [0, 1, 2, 3], "a seek alone repeats nothing"
    mq.seek("stock", "orders", "2", queue_id=0)
    with engine.begin() as conn:
        conn.execute(text("update mqpg_offsets set next_offset = 2, last_message_id = null"))
    consuming.drain(consumer(engine, "stock"), mq)
    assert business(engine) == [0, 1, 2, 2, 3, 3]


def test_a_replay_of_a_message_that_fails_once_more(mq: mqpg.Client, engine: Engine) -> None:
    """Its inbox row of the first time is in the database already."""
    send(mq, 0, 1)
    for _ in range(3):
        consuming.drain(consumer(engine, "stock", failing=1), mq)
        mq.seek("stock", "orders", "0", queue_id=0)
        with engine.begin() as conn:
            conn.execute(text("update mqpg_offsets set next_offset = 0, last_message_id = null"))
    assert business(engine) == [0, 0, 0, 1, 1, 1]
    with engine.connect() as conn:
        assert conn.execute(text("select reason from mqpg_inbox")).all() == [("ValueError: noch nicht verfügbar",)]


def test_a_group_that_subscribes_again_is_told_what_it_leaves_out(
    mq: mqpg.Client, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and with the statement that lets it apply them again."""
    send(mq, 0, 1, 2, 3)
    consuming.drain(consumer(engine, "stock"), mq)
    assert not caplog.records
    mq.unsubscribe("stock", "orders")
    consuming.drain(consumer(engine, "stock"), mq)
    assert business(engine) == [0, 1, 2, 3]
    (told,) = caplog.messages
    assert "stock/orders queue 0: offsets 0 to 3 are left out" in told
    mq.unsubscribe("stock", "orders")
    with engine.begin() as conn:
        conn.execute(text("update mqpg_offsets set broker = 'another'"))
        assert conn.execute(text(told.partition("stop it, ")[2])).rowcount == 0, "a topic of another broker"
        conn.execute(text("update mqpg_offsets set broker = :it"), {"it": mq.info().broker_id})
        conn.execute(text(told.partition("stop it, ")[2]))
    consuming.drain(consumer(engine, "stock"), mq)
    assert business(engine) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_what_was_just_applied_from_the_log_is_not_left_out(
    mq: mqpg.Client, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody moved the group back: the database was restored, and a filter leaves a gap in the delivery."""
    stock = consumer(engine, "stock", tags=["x"])
    assert stock.step(mq) == 0
    consuming.send(mq, [0, 1], tags=["x", "x"])
    consuming.drain(stock, mq)
    with engine.begin() as conn:
        conn.execute(text("update mqpg_offsets set next_offset = 1, last_message_id = null"))
        conn.execute(text("delete from business where id = 1"))
        conn.execute(text("delete from mqpg_applied"))
    consuming.send(mq, [2, 3, 4], tags=["x", "y", "x"])
    consuming.drain(consumer(engine, "stock", tags=["x"]), mq)
    assert business(engine) == [0, 1, 2, 4]
    assert [message for message in caplog.messages if "left out" in message] == []


def test_what_a_commit_in_doubt_has_applied_is_not_told(
    mq: mqpg.Client, engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody moved the group back: the messages were given back, because the answer to the commit was lost."""
    stock = consumer(engine, "stock")
    assert stock.step(mq) == 0
    send(mq, 0, 1)
    commit = engine.dialect.do_commit

    def lost(connection: Any) -> None:
        commit(connection)
        monkeypatch.undo()
        raise engine.dialect.loaded_dbapi.OperationalError("lost")

    monkeypatch.setattr(engine.dialect, "do_commit", lost)
    with pytest.raises((mqpg.errors.ConnectionFailed, mqpg.errors.DatabaseError)):
        stock.step(mq)
    consuming.drain(stock, mq)
    assert business(engine) == [0, 1]
    assert [message for message in caplog.messages if "left out" in message] == []
