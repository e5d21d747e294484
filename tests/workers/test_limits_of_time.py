"""Limits of time that a platform sets for every session: workers and consumers go on, however often they are hit."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

import mqpg
from mqpg.connection.text_session import text_session
from mqpg.schema import apply, migrate
from mqpg.workers import session
from tests.support.ledgers import postgresql_ledger
from tests.support.processes import Processes, workers
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

pytestmark = pytest.mark.waits

LIMITS = ["statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout"]
LIMIT = 2.0  # of which no statement here needs more than a part, on a slow machine either
HANDLERS = """
import os
import mqpg
from sqlalchemy import text

@mqpg.consumer("t", group="c1")
def same(message, conn):
    conn.execute("insert into effect values ('c1', %s)", [message.message_id])

@mqpg.consumer("t", group="c2", database=os.environ["OWN"], consumer="one")
def own(message, conn):
    conn.execute(text("insert into effect values ('c2', :id)"), {"id": message.message_id})

@mqpg.consumer("t", group="c3", effect="external", lease=2)
def elsewhere(message):
    with open("c3", "a") as out:
        out.write(f"{message.message_id} ")
"""


@pytest.fixture(params=LIMITS)
def limited(request: pytest.FixtureRequest, new_database: Callable[..., str]) -> tuple[str, str]:
    """A broker and a database of users, in which each session has the limit."""
    broker, own = new_database(), new_database(empty=True)
    for dsn in (broker, own):
        with psycopg.connect(dsn, autocommit=True) as conn:
            if request.param == "transaction_timeout" and conn.info.server_version < 170000:
                pytest.skip("PostgreSQL has it from 17 on")
            conn.execute("create table effect (kind text, message_id bigint)")
            statement = SQL("alter database {} set {} = {}")
            conn.execute(statement.format(Identifier(conn.info.dbname), Identifier(request.param), f"{LIMIT}s"))
    return broker, own


@pytest.mark.parametrize(
    "connect",
    [
        lambda dsn: session.connect(dsn, "appender"),
        migrate._connect,
        apply._connect,
        lambda dsn: text_session(dsn, "mqpg audit"),
    ],
    ids=["worker", "adopt", "migrate", "audit"],
)
def test_what_takes_long_is_not_cut_off_each_time(limited: tuple[str, str], connect: Callable[..., Connection]) -> None:
    """What these do in one statement, or with one snapshot, may take longer than a query should."""
    with connect(limited[0]) as conn:
        found = conn.execute(
            "select string_agg(distinct setting, ' ') as settings from pg_settings"
            " where name in ('statement_timeout', 'transaction_timeout')"
        ).fetchone()
    assert found in (("0",), {"settings": "0"})


def applied(broker: Connection, own: Connection, mailed: Path) -> dict[str, list[int]]:
    """The ids of the messages that took effect, by consumer group."""
    query = "select message_id from effect order by 1"
    return {
        "c1": [row[0] for row in broker.execute(query)],
        "c2": [row[0] for row in own.execute(query)],
        "c3": sorted(int(number) for number in mailed.read_text().split()) if mailed.exists() else [],
    }


def test_all_go_on(limited: tuple[str, str], tmp_path: Path, processes: Processes) -> None:
    dsn, url = limited
    (tmp_path / "handlers.py").write_text(HANDLERS)
    free = {"options": "-c statement_timeout=0 -c idle_session_timeout=0"}
    with (
        mqpg.connect(dsn) as mq,
        psycopg.connect(dsn, autocommit=True, **free) as broker,  # type: ignore[arg-type]
        psycopg.connect(url, autocommit=True, **free) as own,  # type: ignore[arg-type]
    ):
        ledger = postgresql_ledger(url, own)
        mq.create_topic("t")
        mq.create_producer_group("shop", check_after=0.1, checker="url", checker_target="shop")
        for group in ("c1", "c2", "c3"):
            mq.subscribe(group, "t", "pinned" if group == "c2" else "exclusive")
        supervisor = processes.start("worker", "--heartbeat", "0.2", dsn=dsn, MQPG_LEDGER_SHOP=ledger.url)
        processes.start("consume", "handlers", "--heartbeat", "0.2", dsn=dsn, OWN=ledger.url)
        sent = []
        for n in range(3):
            # The session may end at this very moment. With a dedup id the client sends once more.
            sent += [mq.send("t", {}, dedup_id=f"{n} now"), mq.send("t", {}, delay=0.1, dedup_id=f"{n} later")]
            handle = mq.prepare("t", {}, "shop")
            ledger.commit(handle)  # and the producer dies
            sent.append(int(handle.split(".")[2]))
            time.sleep(1.5 * LIMIT)
        wanted = dict.fromkeys(("c1", "c2", "c3"), sorted(sent))
        eventually(lambda: applied(broker, own, tmp_path / "c3") == wanted, 60, why=processes.logs)
        assert "child ended" not in supervisor.log()
        assert processes.start("worker", "--health", dsn=dsn).wait() == 0, processes.logs()
        (detail,) = workers(broker, "consumer", "active").values()
        assert detail.get("failing") is None
