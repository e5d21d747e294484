"""Apps that use nothing but SQL: psql and JavaScript answer for their half messages (T3), JavaScript consumes (C1)."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
Connection = psycopg.Connection[Any]


def run(command: list[str], folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False
    )


def decisions(db: Connection) -> dict[int, str]:
    """Order number -> c or b, of the halves that are decided."""
    rows = db.execute(
        "select l.payloads[1] ->> 'id', o.op from mqpg.commit_log l join mqpg.op_log o"
        " on o.message_id = l.batch_id * 1024 and o.stage = 0 where l.kind = 'h'"
    )
    return {int(number): op for number, op in rows}


def test_psql(dsn: str, db: Connection, connect: Callable[..., Connection], server_bin: Callable[[str], str]) -> None:
    """The script's own two orders, and a third whose local transaction is open, then committed."""

    def psql() -> set[str]:
        done = run([str(server_bin("psql")), "-X", "-d", dsn, "-f", str(EXAMPLES / "due_checks.sql")])
        assert done.returncode == 0, done.stderr
        db.execute("truncate kiosk_orders")
        return set(done.stdout.splitlines())

    assert {"1|committed", "2|rolled_back", "delivered|1"} <= psql()
    assert decisions(db) == {1: "c", 2: "b"}
    ((handle,),) = db.execute("select mqpg.prepare('kiosk', '{\"id\": 3}'::text, 'kiosk')").fetchall()
    local = connect(autocommit=False)
    local.execute("insert into kiosk_ledger values (%s, 'local')", [handle])
    assert {"1|committed", "2|rolled_back", "3|wait"} <= psql()
    assert 3 not in decisions(db)
    local.commit()
    assert {"3|committed", "delivered|3"} <= psql()
    assert decisions(db)[3] == "c"


@pytest.fixture(scope="module")
def shop_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's folder, with its packages."""
    folder = tmp_path_factory.mktemp("examples") / "node"
    shutil.copytree(EXAMPLES / "node", folder, ignore=shutil.ignore_patterns("node_modules"))
    done = run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.node
def test_javascript(shop_node: Path, dsn: str, db: Connection, new_database: Callable[..., str]) -> None:
    shop = new_database(empty=True)

    def node(*arguments: str, dies: bool = False) -> list[str]:
        command = ["node", "check_back.mjs", *arguments]
        done = run(command, shop_node, MQPG_DATABASE_URL=dsn, SHOP_DATABASE_URL=shop)
        assert done.returncode == (-signal.SIGKILL if dies else 0), done.stderr
        return done.stdout.splitlines()

    node("setup")
    assert node("sell", "1") == ["1 committed"]
    node("sell", "2", "after", dies=True)
    node("sell", "3", "before", dies=True)
    with psycopg.connect(shop) as local:
        ((handle,),) = db.execute("select mqpg.prepare('shop-node', '{\"id\": 4}'::text, 'shop-node')").fetchall()
        local.execute("insert into ledger values (%s, 'local')", [handle])
        time.sleep(0.7)
        assert {"2 commit", "3 rollback", "4 wait"} <= set(node("poll", "3"))
        assert decisions(db) == {1: "c", 2: "c", 3: "b"}
    eventually(lambda: "4 commit" in node("poll", "3"))
    assert decisions(db) == {1: "c", 2: "c", 3: "b", 4: "c"}
    with psycopg.connect(shop) as local:
        (fenced,) = local.execute("select handle from ledger where entry = 'fence'").fetchall()
        with pytest.raises(psycopg.errors.UniqueViolation):
            local.execute("insert into ledger values (%s, 'local')", fenced)
    db.execute("select mqpg.subscribe('g', 'shop-node')")
    db.execute("select mqpg.append()")
    got = db.execute("select payload ->> 'id' from mqpg.receive('g', 'shop-node')").fetchall()
    assert sorted(got) == [("1",), ("2",), ("4",)]


@pytest.mark.node
def test_javascript_consumer(shop_node: Path, dsn: str, db: Connection) -> None:
    def bill(*arguments: str, dies: bool = False) -> list[str]:
        done = run(["node", "bill.mjs", *arguments], shop_node, MQPG_DATABASE_URL=dsn)
        assert done.returncode == (-signal.SIGKILL if dies else 0), done.stderr
        return done.stdout.splitlines()

    db.execute("select mqpg.create_topic('shop-node', queues => 1)")
    bill("setup")
    bill("setup")  # changes nothing
    for body in ('{"id": 1}', '{"id": "no number"}', '{"id": 2}'):
        db.execute("select mqpg.send('shop-node', %s::text)", [body])
    db.execute("select mqpg.append()")
    tried = ["1 billed", "no number failed", "2 billed"]
    assert bill("once", "before", dies=True) == tried
    assert db.execute("select from invoices").rowcount == 0  # undone with its transaction
    assert bill("once") == tried
    assert db.execute("select order_id from invoices order by 1").fetchall() == [(1,), (2,)]

    def comes_again() -> list[str]:
        db.execute("select mqpg.append()")
        return bill("once")

    assert eventually(comes_again) == ["no number failed"]
