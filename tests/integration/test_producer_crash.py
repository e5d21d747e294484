"""A producer is killed with SIGKILL at each step of protocol T2.

The message follows the local transaction.
"""

import time
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import create_engine, text

import mqpg
from tests.support.crash import crash_at

pytestmark = pytest.mark.shared_database

STEPS = [
    ("before", "prepare_half", False),
    ("after", "prepare_half", False),
    ("after", "begin_local", False),
    ("before", "commit_local", False),
    ("after", "commit_local", True),
    ("before", "decide", True),
    ("after", "decide", True),
    ("after", "mark_done", True),
]


@pytest.mark.chaos
@pytest.mark.parametrize(("when", "step", "committed"), STEPS)
def test_killed_producer(
    mq: mqpg.Client, dsn: str, local_url: str, orders: str, when: str, step: str, committed: bool
) -> None:
    """Recovery comes before the check-back if the ledger is in SQLite."""
    mq.alter_producer_group("shop", check_after="10 ms", checker="url", checker_target="shop")
    mq.subscribe("readers", orders)
    engine = create_engine(local_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id int primary key)"))
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    producer.create_ledger()

    crash_at("producer", dsn, local_url, when, step)

    if local_url.startswith("sqlite"):
        producer.recover(older_than=timedelta(0))
    _check_back(mq, dsn, producer.ledger)
    with engine.connect() as conn:
        ids = list(conn.execute(text("select id from business")).scalars())
    mq.append()
    received = mq.receive("readers", orders)
    assert ids == ([1] if committed else [])
    assert [message.payload for message in received] == ([{"id": 1}] if committed else [])
    with psycopg.connect(dsn) as direct:
        assert direct.execute("select count(*) from mqpg.half_pending").fetchone() == (0,)
    engine.dispose()


def _check_back(mq: mqpg.Client, dsn: str, ledger: mqpg.Ledger) -> None:
    """Run the compensator until no half is undecided."""
    with psycopg.connect(dsn, autocommit=True) as direct:
        while direct.execute("select exists (select from mqpg.half_pending)").fetchone() == (True,):
            for due in mq.due_checks("shop", lease=1):
                verdict = ledger.verdict(due.handle)
                if verdict is mqpg.Verdict.COMMIT:
                    mq.commit(due.handle, ledger.final_payload(due.handle))
                elif verdict is mqpg.Verdict.ROLLBACK:
                    mq.rollback(due.handle)
                else:
                    mq.check_wait(due.handle, "10 ms")
            time.sleep(0.05)
