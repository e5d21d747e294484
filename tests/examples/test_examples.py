"""Every example runs against a real server and prints what its text promises."""

import os
import random
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mqpg
from mqpg.protocols import PostProducer, Result
from tests.support.forking import run_forked
from tests.support.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTED = {
    "same_database_send.py": [
        "rolled back: order 2 has no amount",
        "received: {'id': 1, 'amount': 90}",
        "orders in the table: [1]",
    ],
    "half_message.py": ["received: {'id': 1}", "orders in the table: [1]"],
    "consumer_same_transaction.py": ["invoices: [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]"],
    "consumer_external.py": [
        "mailed ann@example.org at attempt 1",
        "mailed busy@example.org at attempt 2",
        "dead letter: bob because no address: bob",
    ],
    "request_reply.py": ["reply: {'item': 'bolt', 'price': 40}", "no reply in time"],
    "consumer_local_database.py": ["stock: [('bolt', 70), ('nut', 80)]"],
    "relay_topic.py": ["shipped: [1]", "held back: 1", "shipped: [1, 3]"],
    "post_message.py": [
        "order 1: success, committed",
        "order 2: failure, rolled_back",
        "order 3: wait, not decided yet",
        "received: [1, 3]",
    ],
    "outbox.py": ["finished by recovery: 1", "received: [1, 2]", "left in the outbox: 0"],
    "several_topics.py": [
        "placed: [{'customer': 'Ada', 'order': 1}]",
        "invoices: [{'order': 1, 'amount': 90}]",
        "letters: [{'to': 'Ada', 'text': 'thank you'}]",
        "lost: []",
    ],
}


# The last lines of what psql says.
SAID_BY_PSQL = {"due_checks.sql": ["delivered|1", "COMMIT"], "plain_sql.sql": ["      1 | Basel", "(1 row)", ""]}


def run_example(name: str, dsn: str, folder: Path) -> list[str]:
    env = {**os.environ, "MQPG_DATABASE_URL": dsn}
    script = [str(EXAMPLES / name)]
    done = run_forked(script, function="tests.support.forking:as_script", env=env, cwd=folder, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_no_example_is_left_out() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)
    assert {path.name for path in EXAMPLES.glob("*.sql")} == set(SAID_BY_PSQL)


@pytest.mark.parametrize("name", PRINTED)
def test_example(name: str, dsn: str, tmp_path: Path) -> None:
    assert run_example(name, dsn, tmp_path) == PRINTED[name]


def test_one_after_another_in_one_database_and_one_folder(
    dsn: str, tmp_path: Path, server_bin: Callable[[str], str], rng: random.Random
) -> None:
    """As a reader tries them; in any order."""
    names = [*PRINTED, *SAID_BY_PSQL]
    rng.shuffle(names)
    for name in names:
        if name in PRINTED:
            assert run_example(name, dsn, tmp_path) == PRINTED[name]
        else:
            command = [server_bin("psql"), "-X", dsn, "-f", str(EXAMPLES / name)]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
            assert said[-len(SAID_BY_PSQL[name]) :] == SAID_BY_PSQL[name]


def test_post_message_asked_during_its_callback(dsn: str) -> None:
    """A payment that is not known yet may still happen; its message must not be dropped."""
    payments = runpy.run_path(str(EXAMPLES / "post_message.py"))["Payments"]()
    with mqpg.connect(dsn) as mq:
        mq.create_topic("paid", queues=1)
        mq.create_producer_group("cashier", check_after=0.01)
        producer = PostProducer(mq, group="cashier", check=payments.look)

        def pay_slowly(handle: str) -> Result:
            eventually(producer.answer)
            return payments.pay(handle, Result.SUCCESS)

        posted = producer.post("paid", {"order": 1}, pay_slowly)
    assert posted.outcome is mqpg.Outcome.COMMITTED
