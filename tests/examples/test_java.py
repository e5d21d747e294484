"""The example in Java: a transactional producer with its check-back, and a transactional consumer, over JDBC."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest

from mqpg.spark.read.jdbc_jar import find_jdbc_jar
from tests.support.waiting import eventually

SHOP = Path(__file__).parents[2] / "examples" / "java" / "Shop.java"
DIED = 9

pytestmark = pytest.mark.jdk


def jdbc_url(dsn: str) -> str:
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    login = {"user": str(given["user"]), "password": str(given.get("password") or "")}
    return f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}?{urlencode(login)}"


@pytest.fixture
def shop_dsn(new_database: Callable[..., str]) -> str:
    return new_database(empty=True)


@pytest.fixture
def shop(dsn: str, shop_dsn: str) -> Callable[..., list[str]]:
    """`shop("sell", "7")`: the lines that it prints. `status` is the exit status that is expected."""
    jar = find_jdbc_jar()
    assert jar.path is not None, f"no JDBC driver on this machine, only {jar}"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    environment = os.environ | {"BROKER_JDBC_URL": jdbc_url(dsn), "SHOP_JDBC_URL": jdbc_url(shop_dsn)}

    def call(*arguments: str, status: int = 0) -> list[str]:
        command = [java, "-cp", str(jar.path), str(SHOP), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout.splitlines()

    return call


@pytest.mark.timeout(400)
def test_producer_and_check_back(shop: Callable[..., list[str]], db: psycopg.Connection[Any], shop_dsn: str) -> None:
    shop("setup")
    shop("setup")  # changes nothing
    assert shop("sell", "1") == ["1 committed"]
    shop("sell", "2", "after", status=DIED)
    shop("sell", "3", "before", status=DIED)
    shop("sell", "1", status=1)  # a duplicate key, rolled back at both
    with psycopg.connect(shop_dsn) as local:
        ((handle,),) = db.execute("select mqpg.prepare('shop-java', '{\"id\": 4}'::text, 'shop-java')").fetchall()
        local.execute("insert into ledger values (%s, 'local')", [handle])
        time.sleep(0.7)  # check_after, which the server's clock measures
        assert sorted(shop("check")) == ["2 commit", "3 rollback", "4 wait"]
    assert eventually(lambda: shop("check")) == ["4 commit"]
    with psycopg.connect(shop_dsn) as local:
        (fenced,) = local.execute("select handle from ledger where entry = 'fence'").fetchall()
        with pytest.raises(psycopg.errors.UniqueViolation):
            local.execute("insert into ledger values (%s, 'local')", fenced)
    db.execute("select mqpg.append()")
    assert sorted(shop("bill")) == ["1 billed", "2 billed", "4 billed"]


@pytest.mark.timeout(400)
def test_consumer(shop: Callable[..., list[str]], db: psycopg.Connection[Any]) -> None:
    shop("setup")
    for body in ('{"id": 1}', '{"id": "no number"}', '{"id": 2}'):
        db.execute("select mqpg.send('shop-java', %s::text)", [body])
    db.execute("select mqpg.append()")
    tried = ["1 billed", "no number failed", "2 billed"]
    assert shop("bill", "before", status=DIED) == tried
    assert db.execute("select from invoices").rowcount == 0  # undone with its transaction
    assert shop("bill") == tried
    assert db.execute("select order_id from invoices order by 1").fetchall() == [(1,), (2,)]

    def comes_again() -> list[str]:
        db.execute("select mqpg.append()")
        return shop("bill")

    assert eventually(comes_again) == ["no number failed"]
    assert db.execute("select order_id from invoices order by 1").fetchall() == [(1,), (2,)]
