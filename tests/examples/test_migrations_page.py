"""The page about migrations: what it says about Alembic, in an app that `alembic init` makes."""

import configparser
import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from mqpg import migrate
from tests.support.forking import run_forked

PAGE = (Path(__file__).parents[2] / "docs" / "migrations.md").read_text()
SECTION = PAGE.split("\n## With Alembic\n")[1].split("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    run(tmp_path, "init", "migrations")
    ini = tmp_path / "alembic.ini"
    text = ini.read_text().replace("path_separator = os", blocks("ini")[0])
    ini.write_text(text.replace("driver://user:pass@localhost/dbname", "%(url)s"))
    parser = configparser.ConfigParser({"here": "", "url": ""})
    parser.read_string(text)
    assert parser["alembic"]["path_separator"] == "newline"
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    done = run_forked([arguments], function="alembic.config:main", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def at(app: Path, dsn: str) -> None:
    """Name the database in alembic.ini."""
    ini = app / "alembic.ini"
    url = dsn.replace("postgresql://", "postgresql+psycopg://", 1)
    ini.write_text(re.sub(r"^sqlalchemy.url = .*$", f"sqlalchemy.url = {url}", ini.read_text(), flags=re.M))


def test_app_and_broker_in_one_database(
    app: Path, new_database: Callable[..., str], psql: Callable[[str, str], None]
) -> None:
    """Upgraded online, and by the script, and taken back."""
    (app / "migrations" / "versions" / "first.py").write_text(blocks("python")[0])
    for way in ("online", "script"):
        dsn = new_database(empty=True)
        at(app, dsn)
        if way == "online":
            run(app, "upgrade", "heads")
        else:
            psql(dsn, run(app, "upgrade", "heads", "--sql"))
        assert migrate.status(dsn).up_to_date
        with psycopg.connect(dsn) as connection:
            assert connection.execute("select topic, queues from mqpg.topics").fetchall() == [("orders", 4)]
            assert connection.execute("select count(*) from orders").fetchone() == (0,)
        run(app, "downgrade", "shop@base")
        assert migrate.status(dsn).up_to_date
    run(app, *["revision", "-m", "more", "--head", "shop@head"])
    assert len(list((app / "migrations" / "versions").glob("*.py"))) == 2


def test_the_branch_of_an_app(app: Path, empty_dsn: str) -> None:
    """The commands that begin it and go on."""
    at(app, empty_dsn)
    for line in blocks("sh")[0].splitlines():
        run(app, *line.replace('"', "").split()[1:])
    run(app, "upgrade", "heads")
    heads = run(app, "heads")
    assert "(shop) (head)" in heads
    assert f"{migrate.head():04}_mqpg" in heads
