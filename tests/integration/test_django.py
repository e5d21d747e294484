"""`mqpg.contrib.django` in a Django project on the real server."""

import gzip
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mqpg import migrate
from tests.support.django_project import CREATE_TOPIC, DjangoProject

FROZEN = Path(__file__).parents[1] / "migration" / "frozen" / "0.1.0.sql.gz"
OURS = "select table_name from information_schema.tables where table_name like 'mqpg%' and table_schema = 'public' order by 1"


@pytest.fixture
def project(empty_dsn: str, tmp_path: Path) -> DjangoProject:
    """A project whose database has nothing yet."""
    return DjangoProject(tmp_path / "project", empty_dsn)


@pytest.fixture
def conn(empty_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the project's database."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        yield connection


def tables_of(conn: psycopg.Connection[Any]) -> list[str]:
    return [name for (name,) in conn.execute(OURS)]


def test_migrate_installs_the_broker_and_the_tables(project: DjangoProject, conn: psycopg.Connection[Any]) -> None:
    project.manage("makemigrations", "shop")
    (project.folder / "shop" / "migrations" / "0002_topic.py").write_text(CREATE_TOPIC)
    assert "[ ] 0001_initial" in project.manage("showmigrations", "mqpg")
    project.manage("migrate")
    assert migrate.status(project.dsn).up_to_date
    assert tables_of(conn) == ["mqpg_outbox", "mqpg_outbox_count"]
    assert conn.execute("select topic, queues from mqpg.topics").fetchall() == [("orders", 2)]
    assert "No changes detected" in project.manage("makemigrations", "--check")
    assert "No migrations to apply" in project.manage("migrate")

    project.manage("migrate", "mqpg", "--database", "ledgers")
    with sqlite3.connect(project.folder / "ledgers.db") as ledgers:
        found = ledgers.execute("select name from sqlite_master where type = 'table' and name like 'mqpg%'").fetchall()
    assert [name for (name,) in found] == ["mqpg_ledger"]
    ledgers.close()

    # The setting names more: it comes with the next migrate.
    project.settings(default=["broker", "outbox", "consumer"])
    project.manage("migrate", "shop")
    assert tables_of(conn) == ["mqpg_applied", "mqpg_inbox", "mqpg_offsets", "mqpg_outbox", "mqpg_outbox_count"]


def test_migrate_upgrades_the_broker_of_an_earlier_release(
    project: DjangoProject, conn: psycopg.Connection[Any]
) -> None:
    project.settings()
    project.manage("migrate", "mqpg")
    conn.execute(gzip.decompress(FROZEN.read_bytes()))
    assert migrate.status(project.dsn).current == 1
    project.settings(default=["broker"])
    project.manage("migrate", "mqpg")
    assert migrate.status(project.dsn).up_to_date


TRANSACTIONS = """
import django
django.setup()
import mqpg
from django.db import connection, transaction
from mqpg.contrib.django import dsn
from shop.models import Order

mq = mqpg.connect(dsn())

def place(amount):
    with transaction.atomic():
        order = Order.objects.create(amount=amount)
        mq.send("orders", {"id": order.id, "amount": amount}, conn=connection.connection)
        if amount <= 0:
            raise ValueError

place(90)
try:
    place(0)
except ValueError:
    pass
mq.append()
print([message.payload["amount"] for message in mq.receive("billing", "orders")], Order.objects.count())
mq.close()
"""


def test_an_atomic_block_and_its_messages_are_one(project: DjangoProject) -> None:
    project.manage("makemigrations", "shop")
    (project.folder / "shop" / "migrations" / "0002_topic.py").write_text(CREATE_TOPIC)
    project.manage("migrate")
    assert project.manage("shell", "-v", "0", "--no-imports", "-c", TRANSACTIONS).strip() == "[90] 1"


TESTS = """
import mqpg
from django.db import connection
from django.test import TestCase, TransactionTestCase
from mqpg.contrib.django import dsn

class Sending(TransactionTestCase):
    databases = {"default"}

    def test_sends(self):
        assert connection.settings_dict["NAME"] in dsn()
        with mqpg.connect(dsn()) as mq:
            mq.create_topic("tested", queues=1)
            mq.send("tested", 1)

    def test_sends_again(self):
        self.test_sends()

class Rolling(TestCase):
    def test_rolls_back(self):
        with connection.cursor() as cursor:
            cursor.execute("select mqpg.create_topic('rolled_back')")
"""


def test_the_test_database_is_a_broker(project: DjangoProject, conn: psycopg.Connection[Any]) -> None:
    """`manage.py test` runs the migrations in a database of its own, and flushes it between tests."""
    project.manage("makemigrations", "shop")
    (project.folder / "shop" / "tests.py").write_text(TESTS)
    project.manage("test")
    assert conn.execute("select to_regnamespace('mqpg')").fetchone() == (None,)


def test_the_statements_can_be_read_before(project: DjangoProject, conn: psycopg.Connection[Any]) -> None:
    script = project.manage("sqlmigrate", "mqpg", "0001")
    conn.execute(script.encode())
    assert migrate.status(project.dsn).up_to_date
    assert tables_of(conn) == ["mqpg_outbox", "mqpg_outbox_count"]
    project.manage("migrate", "mqpg")  # nothing is made twice


def test_nothing_is_dropped(project: DjangoProject, conn: psycopg.Connection[Any]) -> None:
    project.manage("migrate", "mqpg")
    assert "IrreversibleError" in project.fails("migrate", "mqpg", "zero")
    assert migrate.status(project.dsn).up_to_date


def test_the_broker_may_be_elsewhere(project: DjangoProject, conn: psycopg.Connection[Any]) -> None:
    project.settings()
    project.manage("migrate", "mqpg")
    assert conn.execute("select to_regnamespace('mqpg')").fetchone() == (None,)
    assert tables_of(conn) == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"other": ["broker"]}, "MQPG names 'other', which is not among DATABASES"),
        ({"default": ["brokers"]}, "MQPG['default'] must be a list of broker, ledger, ledger_message, outbox"),
        ({"default": "broker"}, "MQPG['default'] must be a list of broker"),
        ({"ledgers": ["broker"]}, "MQPG['ledgers'] has the broker, which needs PostgreSQL"),
    ],
)
def test_a_wrong_setting_is_said_at_the_start(project: DjangoProject, setting: dict[str, Any], message: str) -> None:
    project.settings(**setting)
    assert message in project.fails("check")


def test_a_missing_setting_is_said_at_the_start(project: DjangoProject) -> None:
    path = project.folder / "settings.py"
    path.write_text(path.read_text().partition("MQPG =")[0])
    assert "MQPG must say what mqpg has in which database, such as" in project.fails("check")
