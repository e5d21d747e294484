"""What a database or a role may be set to: another encoding is refused in one line, another reading of strings does
not matter.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from mqpg import migrate
from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.migration.catalog import catalog


@pytest.fixture(params=["LATIN1", "SQL_ASCII"])
def narrow(request: pytest.FixtureRequest, server: Server, databases: Databases) -> Iterator[tuple[str, str]]:
    """DSN and encoding of a database that is not UTF8."""
    name = f"mqpg_test_{databases.mark}_{request.param.lower()}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(
            f"create database {name} template template0 encoding '{request.param}' lc_collate 'C' lc_ctype 'C'"
        )
    yield server.dsn(name), request.param
    databases.drop(name)


def run(*command: str, text: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG"))}
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False, env=kept | environment)


def nothing_there(dsn: str) -> bool:
    with psycopg.connect(dsn, client_encoding="utf8") as connection:
        return not connection.execute("select from pg_namespace where nspname in ('mqpg', 'pgmq')").rowcount


def test_mqpg_migrate_refuses_another_encoding_in_one_line(narrow: tuple[str, str]) -> None:
    dsn, encoding = narrow
    # by the environment, because a password among the arguments is worth a line of warning
    done = run(str(Path(sys.executable).with_name("mqpg")), "migrate", MQPG_DATABASE_URL=dsn)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("mqpg: mqpg needs a database with encoding UTF8")
    assert encoding in done.stderr
    assert done.stderr.count("\n") == 1
    assert nothing_there(dsn)


def test_the_script_refuses_another_encoding_in_one_line(
    narrow: tuple[str, str], server_bin: Callable[[str], str]
) -> None:
    dsn, encoding = narrow
    psql = shutil.which("psql") or server_bin("psql")
    done = run(psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, text=migrate.script())
    assert done.returncode == 3
    errors = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert len(errors) == 1
    assert "mqpg needs a database with encoding UTF8" in errors[0]
    assert encoding in errors[0]
    assert nothing_there(dsn)


def alter(dsn: str, change: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} {change}")


@pytest.mark.parametrize(
    "setting",
    ["client_encoding = LATIN1", "standard_conforming_strings = off", "default_transaction_isolation = serializable"],
)
def test_the_schema_is_the_same_whatever_the_session_is_set_to(
    empty_dsn: str, dsn: str, setting: str, server_version: int
) -> None:
    if "strings" in setting and server_version >= 190000:
        pytest.skip("standard_conforming_strings cannot be switched off")
    alter(empty_dsn, f"set {setting}")
    migrate.upgrade(empty_dsn)
    alter(empty_dsn, "reset all")  # for those who read the catalog
    assert catalog(empty_dsn) == catalog(dsn)


def test_the_script_gives_the_same_schema_whatever_strings_mean(
    empty_dsn: str, dsn: str, server_bin: Callable[[str], str], server_version: int
) -> None:
    if server_version >= 190000:
        pytest.skip("standard_conforming_strings cannot be switched off")
    alter(empty_dsn, "set standard_conforming_strings = off")
    psql = shutil.which("psql") or server_bin("psql")
    done = run(psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty_dsn, text=migrate.script())
    assert done.returncode == 0, done.stderr
    alter(empty_dsn, "reset all")
    assert catalog(empty_dsn) == catalog(dsn)
