"""The snippets of the documentation run and do what they say.

Those of the pages about protocols and of the README run against a fresh database each, those of the tutorial as a
reader would type them in an empty folder.
"""

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer import Context
from typer.main import get_command

from mqpg.cli.root import app
from mqpg.embedded import Home
from tests.examples.pages import run_page, run_shell_page, saved_files, snippets
from tests.fixtures.server import Server
from tests.support.waiting import eventually

README = Path(__file__).parents[2] / "README.md"
DOCS = README.with_name("docs")
PROTOCOLS = DOCS / "protocols"
MQPG = Path(sys.executable).with_name("mqpg")
PAGES = sorted(path.name for path in PROTOCOLS.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a page closes what matters to its reader
def test_snippets(name: str, db: psycopg.Connection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)
    monkeypatch.chdir(tmp_path)
    assert list(snippets(PROTOCOLS / name)), "a page without a snippet"
    run_page(PROTOCOLS / name, db)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes on a busy machine
def test_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MQPG_", "PG", "DATABASE_URL"))]:
        monkeypatch.delenv(name)
    programs = f"{MQPG.parent}{os.pathsep}{os.environ['PATH']}"
    try:
        run_shell_page(DOCS / "tutorial.md", tmp_path, timeout=840, PATH=programs)
    finally:
        Home(tmp_path / ".mqpg").down(remove=True)


def test_tables_of_the_migrations_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text((DOCS / "migrations.md").read_text().split("\n## Tables in your databases\n")[1].split("\n## ")[0])
    run_shell_page(page, tmp_path, timeout=150, PATH=f"{MQPG.parent}{os.pathsep}{os.environ['PATH']}")
    written = [path.read_text() for path in (tmp_path / "migrations" / "versions").glob("*.py")]
    assert len(written) == 2
    assert not any("drop_table('mqpg" in text.partition("def downgrade")[0] for text in written)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_crash_test_page(tmp_path: Path) -> None:
    """Its handler with the mistake, the mended one, and its producers."""
    run_shell_page(
        DOCS / "prove" / "crashtest.md", tmp_path, timeout=580, PATH=f"{MQPG.parent}{os.pathsep}{os.environ['PATH']}"
    )


def test_readme_in_python(dsn: str, db: psycopg.Connection, tmp_path: Path) -> None:
    """Its producer and its consumer, saved as a reader saves them."""
    for name, code in saved_files(README).items():
        (tmp_path / name).write_text(code)
    environment = os.environ | {"MQPG_DATABASE_URL": dsn}
    for _ in ("first", "again"):
        subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, env=environment, check=True, timeout=60)
    db.execute("select mqpg.append()")
    consumer = subprocess.Popen([MQPG, "consume", "billing:bill"], cwd=tmp_path, env=environment)
    try:
        eventually(lambda: db.execute("select from invoices").rowcount == 2)
        consumer.terminate()
        assert consumer.wait(30) == 0
    finally:
        consumer.kill()
        consumer.wait()
    assert db.execute("select id from orders").fetchall() == [(7,), (7,)]
    assert db.execute("select order_id from invoices").fetchall() == [(7,), (7,)]


def test_readme_in_sql(dsn: str, db: psycopg.Connection, server_bin: Callable[[str], str]) -> None:
    (code,) = [code for language, code in snippets(README) if language == "sql"]
    psql = [server_bin("psql"), "-X", "-v", "ON_ERROR_STOP=1", dsn]
    for _ in ("first", "again"):
        subprocess.run(psql, input=code, text=True, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert db.execute("select parcel from labels").fetchall() == [(7,), (7,)]
    assert db.execute("select lag from mqpg.subscription_lag where lag > 0").fetchall() == []


@pytest.mark.parametrize(
    "name", ["consumers.md", "checkers.md", "python.md", "processes.md", "sql.md", "why.md", "concepts.md"]
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_references(
    name: str, db: psycopg.Connection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)
    monkeypatch.chdir(tmp_path)
    run_page(DOCS / name, db)
    gc.collect()  # while the warnings about connections that the page left open are ignored


def test_commands_page_lists_every_command() -> None:
    page = (DOCS / "cli.md").read_text().replace("\\|", "|")
    group: Any = get_command(app)
    context = Context(group)
    for name in group.list_commands(context):
        mentioned = re.findall(rf"`mqpg {name}\b ?([a-z|-]*)", page)
        assert mentioned, name
        inner = getattr(group.get_command(context, name), "commands", {})
        assert set(inner) <= {word for words in mentioned for word in words.split("|")}, name


def test_tracing_page(dsn: str, tmp_path: Path) -> None:
    """In a process of its own, because a process configures OpenTelemetry once."""
    ((name, code),) = saved_files(DOCS / "tracing.md").items()
    assert len(code.splitlines()) <= 16  # its name, and 15 lines
    (tmp_path / name).write_text(code)
    environment = os.environ | {"MQPG_DATABASE_URL": dsn}
    done = subprocess.run(
        [sys.executable, name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert [line for line in printed if not line.startswith("Message(")] == [
        "send orders",
        "checkout",
        "receive orders",
        "process orders",
        "ack",
    ]
    assert len(printed) == 6


def test_billing_of_the_page_about_consumers(server: Server, tmp_path: Path) -> None:
    """Its handler and its test, saved and run with pytest."""
    for name, code in saved_files(DOCS / "consumers.md").items():
        (tmp_path / name).write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_billing.py"]
    environment = os.environ | {"MQPG_TEST_DSN": server.dsn()}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
