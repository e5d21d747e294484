"""`mqpg subscription purge-journal`: journal and inbox shrink with the broker's retention."""

import json
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import create_engine, make_url, text

import mqpg
from tests.support.broker import Broker
from tests.support.consuming import drain
from tests.support.in_process import Run
from tests.support.retention import retain, roll


def purge(run: Run, url: str, dsn: str) -> int:
    command = ("subscription", "purge-journal", "g", "orders", "--database", url, "--days", "0", "--dsn", dsn, "--json")
    status, out, err = run(*command)
    assert status == 0, err
    found = json.loads(out)
    assert found["action"] == "purge_journal"
    return int(found["rows"])


def drop_everything(dsn: str) -> None:
    """Let retention drop what it may."""
    broker = Broker(dsn)
    mq = broker.session()
    mq.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    mq.execute("select mqpg.create_topic('other'), mqpg.subscribe('o', 'other')")
    for _ in range(2):
        retain(mq, "0 s")
        roll(mq)
        retain(mq, "1 day")
        mq.send("other")
        mq.delivered("other", group="o")
    retain(mq, "0 s")
    roll(mq)
    assert mq.scalar("select count(*) from mqpg.segment where family in ('log', 'tick') and dropped_at is not null") > 1
    retain(mq, "1 day")
    broker.close()


def test_own_database(mq: mqpg.Client, dsn: str, run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    engine = create_engine(url)
    mq.create_topic("orders", queues=1)
    fails = True

    @mqpg.consumer("orders", group="g", database=url, consumer="one", journal=True, max_attempts=1)
    def bill(message: mqpg.Message, conn: Any) -> None:
        if message.payload == 2 and fails:
            raise ValueError("not yet")

    assert bill.step(mq) == 0
    mq.send_batch("orders", list(range(5)))
    mq.append()
    drain(bill, mq)
    assert purge(run, url, dsn) == 0
    drop_everything(dsn)
    assert purge(run, url, dsn) == 3  # the newest row stays, and that of the dead letter in the inbox
    with engine.connect() as conn:
        assert list(conn.execute(text("select queue_offset from mqpg_applied")).scalars()) == [4]
        assert list(conn.execute(text("select state from mqpg_inbox")).scalars()) == ["deferred"]
    fails = False
    assert mq.redrive("g", "orders") == 1
    mq.append()
    drain(bill, mq)
    with engine.connect() as conn:
        assert list(conn.execute(text("select state from mqpg_inbox")).scalars()) == ["applied"]
    assert mq.dead_letters("g", "orders") == []
    bill.close()
    engine.dispose()


def test_database_of_the_queue(mq: mqpg.Client, dsn: str, db: psycopg.Connection[Any], run: Run) -> None:
    url = make_url(dsn).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    mq.create_topic("orders", queues=1)

    @mqpg.consumer("orders", group="g", journal=True)
    def bill(message: mqpg.Message, conn: Any) -> None:
        pass

    assert bill.step(mq) == 0
    assert purge(run, url, dsn) == 0
    mq.send_batch("orders", list(range(5)))
    mq.append()
    drain(bill, mq)
    drop_everything(dsn)
    assert purge(run, url, dsn) == 4
    assert db.execute("select queue_offset from mqpg_applied").fetchall() == [(4,)]


def test_what_it_refuses(mq: mqpg.Client, dsn: str, run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    command = ("subscription", "purge-journal", "g", "orders", "--dsn", dsn, "--database", url)
    assert "does not exist" in run(*command)[2] or "not subscribed" in run(*command)[2]
    mq.create_topic("orders")
    mq.subscribe("g", "orders")
    status, _, err = run(*command)
    assert status != 0
    assert "neither mqpg_applied nor mqpg_inbox" in err
    assert "--days" in run(*command, "--days", "-1")[2]
