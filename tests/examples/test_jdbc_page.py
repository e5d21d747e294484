"""The page about the views of auditors: its queries, its lines for spark-shell, and its notebook."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pyspark
import pytest
from psycopg.conninfo import conninfo_to_dict

import mqpg
from mqpg.spark.read.jdbc_jar import find_jdbc_jar
from tests.examples.pages import run_page, saved_files
from tests.support.roles import Roles

PAGE = Path(__file__).parents[2] / "docs" / "prove" / "jdbc.md"
SPARK_HOME = Path(pyspark.__file__).parent
LOST = re.compile(r"```sql\n(select e\.queue_id.*?);\n```", re.DOTALL)
JOURNAL = "create table mqpg_applied (consumer_group text, message_id bigint)"


@pytest.fixture
def auditor(db: psycopg.Connection, roles: Roles) -> str:
    """A role that may do nothing but audit."""
    role = roles("auditor")
    db.execute("select mqpg.grant_auditor(%s)", (role.name,))
    return role.name


@pytest.fixture
def history(dsn: str) -> None:
    """Forty messages of topic orders in eight batches; group billing has finished ten."""
    with mqpg.connect(dsn) as mq:
        mq.create_topic("orders", queues=1)
        mq.subscribe("billing", "orders")
        for number in range(8):
            mq.send_batch("orders", [{"order": number}] * 5)
            mq.append()
        mq.ack(mq.receive("billing", "orders", max_messages=10))


def filled(text: str, dsn: str, auditor: str) -> str:
    """An example with the address, the role and the driver of this machine."""
    server, jar = conninfo_to_dict(dsn), find_jdbc_jar(os.environ).path
    for example, here in (
        ("localhost:5432/shop", f"{server['host']}:{server['port']}/{server['dbname']}"),
        ('"auditor"', f'"{auditor}"'),
        ('"secret"', '"x"'),
        ("postgresql-42.7.4.jar", str(jar)),
    ):
        assert example in text or example.endswith(".jar")
        text = text.replace(example, here)
    return text


def run(command: list[str], text: str | None = None, **environment: str) -> str:
    done = subprocess.run(
        command, input=text, env=os.environ | environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_queries(db: psycopg.Connection, history: None) -> None:
    db.execute(JOURNAL)
    run_page(PAGE, db)


def test_what_is_not_applied_has_a_reason_or_is_lost(dsn: str, db: psycopg.Connection, history: None) -> None:
    (query,) = LOST.findall(PAGE.read_text())
    db.execute(JOURNAL)
    with mqpg.connect(dsn) as mq:
        delivery = mq.receive("billing", "orders", max_messages=3)
        mq.nack(delivery[0], "no", delay="1 hour")
        mq.ack(delivery[1:])
    offsets = "select message_id from mqpg_audit.queue_entry where queue_offset = any(%s)"
    db.execute(f"insert into mqpg_applied select 'billing', m.* from ({offsets}) m", ([*range(9), 11, 12],))
    found = {row[1]: row[3] for row in db.execute(query.encode())}
    assert found == {9: "LOST", 10: "retry"} | dict.fromkeys(range(13, 40), "waiting")


@pytest.mark.spark
@pytest.mark.audits
@pytest.mark.timeout(300)
def test_spark_shell(dsn: str, auditor: str, history: None, tmp_path: Path) -> None:
    (code,) = re.findall(r"```scala\n(.*?)```", PAGE.read_text(), re.DOTALL)
    command = [str(SPARK_HOME / "bin" / "spark-shell"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    command += ["--jars", str(find_jdbc_jar(os.environ).path)]
    (tmp_path / "page.scala").write_text(filled(code, dsn, auditor))
    lines = f":paste {tmp_path}/page.scala\nprintln(message.rdd.getNumPartitions)\n:quit\n"
    said = run(command, lines, SPARK_HOME=str(SPARK_HOME))
    assert re.search(r"\| *orders\| *normal\|committed\| *40\|", said), said
    assert "scala> 4\n" in said, "not read in four parts"


@pytest.mark.spark
@pytest.mark.audits
@pytest.mark.timeout(300)
def test_notebook(dsn: str, auditor: str, history: None, tmp_path: Path) -> None:
    ((name, code),) = saved_files(PAGE).items()
    (tmp_path / name).write_text(filled(code, dsn, auditor))
    said = run([sys.executable, str(tmp_path / name)], PYSPARK_PYTHON=sys.executable)
    assert re.search(r"\| *orders\| *40\| *\d+\.\d+\|", said), said
    assert re.search(r"\| *billing\| *orders\| *waiting\| *30\|", said), said
