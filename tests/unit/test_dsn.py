"""DSNs: notations, order of resolution, no passwords shown."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg.conninfo
import pytest
from sqlalchemy import create_engine, make_url

import mqpg
from mqpg import errors
from mqpg.connection import dsn
from mqpg.connection.settings import Settings, ledger_url
from mqpg.embedded import locate


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PG", "MQPG_")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)


NOTATIONS = [
    "postgresql://u:p%40ss@h:5433/db?sslmode=disable",
    "postgres://u@h/db",
    "host=a user=u dbname=x password='s p'",
    "postgresql+psycopg://u:p%40ss@h:5433/db",
    "postgresql+psycopg:///db?host=/tmp&port=5555",
    "host=/tmp port=5555 dbname=q",
    "host=a,b port=1,2 dbname=z user=u",
    "postgresql+psycopg://u@/db?host=a:1&host=b:2",
    "",
]


def test_something_else_than_text_is_refused() -> None:
    for convert in (locate.resolve, dsn.to_sqlalchemy):
        with pytest.raises(errors.ConfigurationError, match="a DSN must be text or a SQLAlchemy URL, not int"):
            convert(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", NOTATIONS)
def test_both_conversions_keep_every_parameter(text: str) -> None:
    libpq = dsn.to_libpq(text)
    wanted = psycopg.conninfo.conninfo_to_dict(libpq)
    url = dsn.to_sqlalchemy(text)
    assert url.drivername == "postgresql+psycopg"
    assert psycopg.conninfo.conninfo_to_dict(dsn.to_libpq(url)) == wanted
    positional, used = create_engine(url).dialect.create_connect_args(url)
    seen = {name: str(value) for name, value in used.items() if name != "context"}
    assert seen == {name: str(value) for name, value in wanted.items()}
    assert positional in ([], [""])


def test_other_databases_get_the_driver_for_the_library() -> None:
    assert str(dsn.to_sqlalchemy("sqlite:////tmp/x.db", asynchronous=True)) == "sqlite+aiosqlite:////tmp/x.db"
    assert str(dsn.to_sqlalchemy("sqlite+aiosqlite:////tmp/x.db")) == "sqlite:////tmp/x.db"


@pytest.mark.parametrize(
    "text", ["mysql://h/x", "nonsense", "postgresql://[bad", "host", "postgresql+psycopg://u:p@h:x/y"]
)
def test_unreadable_dsns_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"(postgresql|driver)://") as caught:
        dsn.to_libpq(text)
    assert "\n" not in str(caught.value)


def test_a_parameter_of_another_driver_is_named() -> None:
    """Prisma and poolers' consoles print such URLs. What may be a part of a password is not shown."""
    with pytest.raises(errors.ConfigurationError, match=r"does not know: pgbouncer$"):
        dsn.to_libpq("postgresql://u:secret@h/db?pgbouncer=true&connection_limit=1")
    for text in ("postgresql://h/db?secret=1@2", "host=h password=a secret=1", "postgresql://h/db?password=a&secret=1"):
        with pytest.raises(errors.ConfigurationError) as caught:
            dsn.to_libpq(text)
        assert "secret" not in str(caught.value)


def test_passwords_are_not_shown() -> None:
    for text in (
        "postgresql://u:secret@h/db",
        "host=h password=secret dbname=db",
        "postgresql+psycopg://u:secret@h/db",
    ):
        assert dsn.describe(text) == "host=h port=5432 dbname=db"
    assert "secret" not in dsn.describe(dsn.to_sqlalchemy("mysql://u:secret@h/x"))
    assert "secret" not in repr(Settings(database_url="postgresql://u:secret@h/db"))


def test_resolution_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "libpq")
    monkeypatch.setenv("PGDATABASE", "a b")
    assert locate.resolve() == "host=libpq dbname='a b'"
    assert locate.resolve(locate.resolve()) == locate.resolve()  # a worker hands it to its children
    monkeypatch.setenv("PGSERVICE", "queue")
    assert locate.resolve() == "service=queue"
    monkeypatch.setenv("DATABASE_URL", "postgresql://second/db")
    assert locate.resolve() == "postgresql://second/db"
    monkeypatch.setenv("MQPG_DATABASE_URL", "postgresql+psycopg://first/db")
    assert locate.resolve() == "host=first dbname=db"
    assert locate.resolve("postgresql://argument/db") == "postgresql://argument/db"


@pytest.fixture
def never_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty folder, where no server may be started."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def test_without_a_dsn_no_server_is_started(never_started: Path) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        locate.resolve()
    for way in ("MQPG_DATABASE_URL", "--dsn", "mqpg up", "'embedded'"):
        assert way in str(caught.value)


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize("variable", ["MQPG_DATABASE_URL", "DATABASE_URL", None])
def test_an_empty_dsn_is_an_error(
    never_started: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, empty: str
) -> None:
    """A variable that a deployment did not fill in must not lead to another broker."""
    monkeypatch.setenv("PGHOST", "libpq")
    if variable is None:
        with pytest.raises(errors.ConfigurationError, match=r"^the DSN \(--dsn\) is empty: .*MQPG_DATABASE_URL"):
            locate.resolve(empty)
        return
    monkeypatch.setenv(variable, empty)
    with pytest.raises(errors.ConfigurationError, match=f"^{variable} is empty: "):
        locate.resolve()
    assert locate.resolve("postgresql://argument/db") == "postgresql://argument/db"


def test_ledger_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_LEDGER_SHOP_EU_1", "sqlite://")
    assert ledger_url("shop-eu.1") == "sqlite://"
    assert ledger_url("other") is None


@pytest.mark.parametrize(
    ("given", "synchronous", "asynchronous"),
    [
        ("postgresql+asyncpg://u@h/db?ssl=require&prepared_statement_cache_size=0",
         "postgresql+psycopg://u@h/db?sslmode=require", None),
        ("postgresql+psycopg_async://u@h/db", "postgresql+psycopg://u@h/db", None),
        ("postgresql+psycopg2://u@h/db", None, "postgresql+psycopg://u@h/db"),
        ("postgresql+pg8000://u@h/db", None, "postgresql+psycopg://u@h/db"),
        ("mysql+aiomysql://u@h/db", "mysql+pymysql://u@h/db", None),
        ("mysql+asyncmy://u@h/db", "mysql+pymysql://u@h/db", None),
        ("mariadb+pymysql://u@h/db", None, "mariadb+aiomysql://u@h/db"),
        ("sqlite+pysqlite:///x.db", None, "sqlite+aiosqlite:///x.db"),
        ("sqlite+aiosqlite:///x.db", "sqlite:///x.db", None),
    ],
)  # fmt: skip
def test_drivers_of_the_other_library_are_mapped(given: str, synchronous: str | None, asynchronous: str | None) -> None:
    """None: the URL stays as it is."""
    assert dsn.to_sqlalchemy(given) == make_url(synchronous or given)
    assert dsn.to_sqlalchemy(given, asynchronous=True) == make_url(asynchronous or given)


def test_parameters_of_asyncpg_in_the_brokers_url() -> None:
    found = dsn.to_libpq("postgresql+asyncpg://u@h/db?ssl=verify-full&prepared_statement_cache_size=0&timeout=3")
    assert psycopg.conninfo.conninfo_to_dict(found) == {
        "user": "u", "host": "h", "dbname": "db", "sslmode": "verify-full", "connect_timeout": "3"
    }  # fmt: skip


def test_an_engine_of_the_other_library_is_refused() -> None:
    make: Callable[[Any], object] = mqpg.Ledger
    for url in ("sqlite+aiosqlite://", "mysql+aiomysql://u@h/db"):
        with pytest.raises(
            errors.ConfigurationError, match=r"aio\w+ is asynchronous, and this needs a synchronous one"
        ):
            make(create_engine(url))
    with pytest.raises(errors.ConfigurationError, match="oracle"):
        make("oracle+oracledb_async://u@h/db")


@pytest.mark.parametrize("text", ["host=h port=x dbname=d", "host=h port=1,2 dbname=d", "postgresql://h:x/d"])
def test_a_port_that_is_no_number(text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="the port must be a number"):
        dsn.to_sqlalchemy(text)
