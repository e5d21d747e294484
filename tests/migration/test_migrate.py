"""`mqpg migrate`: from nothing, again, by two at once, as a script; older and newer schemas are refused."""

import importlib.resources
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg import errors, migrate
from mqpg.schema.assemble import assemble
from mqpg.schema.source import RELEASE, packaged
from tests.migration.catalog import catalog, undocumented


def test_upgrade_from_nothing_installs_this_release(empty_dsn: str) -> None:
    assert migrate.status(empty_dsn) == migrate.Status(None, migrate.head(), None, False)
    assert migrate.upgrade(empty_dsn) == migrate.Status(migrate.head(), migrate.head(), RELEASE, True)
    migrate.check(empty_dsn)


def test_concurrent_migrators_wait_for_each_other(empty_dsn: str, dsn: str) -> None:
    gate = threading.Barrier(3)

    def run(_: int) -> None:
        gate.wait()
        migrate.upgrade(empty_dsn)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    assert catalog(empty_dsn) == catalog(dsn)


def test_a_migrator_waits_for_the_lock(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as holder:
        holder.execute(migrate.LOCK)
        waiter = threading.Thread(target=migrate.upgrade, args=[empty_dsn])
        waiter.start()
        _wait_for_lock(empty_dsn)
        assert migrate.status(empty_dsn).current is None
        holder.rollback()
        waiter.join()
    migrate.check(empty_dsn)


def test_a_failing_migration_leaves_nothing(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = packaged().whole + "\nselect 1 / 0;"
    monkeypatch.setitem(vars(packaged()), "whole", whole)
    with pytest.raises(errors.InvalidArgument, match="division by zero"):
        migrate.upgrade(empty_dsn)
    with psycopg.connect(empty_dsn) as connection:
        names = connection.execute("select nspname from pg_namespace where nspname in ('mqpg', 'pgmq')").fetchall()
    assert names == []


def test_a_database_that_reads_backslashes(empty_dsn: str, dsn: str, server_version: int) -> None:
    """The script takes effect there, too, and leaves the setting."""
    if server_version >= 190000:
        pytest.skip("standard_conforming_strings cannot be switched off")
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(f'alter database "{connection.info.dbname}" set standard_conforming_strings = off')
    for _ in range(2):
        with psycopg.connect(empty_dsn, autocommit=True) as connection:
            connection.execute(migrate.script())
            assert connection.execute("show standard_conforming_strings").fetchone() == ("off",)
            connection.execute("update mqpg.installation set checksum = ''")
    migrate.upgrade(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as connection:  # the catalog shows backslashes by it
        connection.execute(f'alter database "{connection.info.dbname}" reset standard_conforming_strings')
    assert catalog(empty_dsn) == catalog(dsn)


def test_the_plain_file_says_how_to_bring_pgmq_along(empty_dsn: str) -> None:
    """Where PGMQ is missing on the server, the numbered file alone fails before it has done anything."""
    text = assemble(importlib.resources.files("mqpg.sql"))
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        offered = connection.execute("select from pg_available_extensions where name = 'pgmq'").rowcount
        if offered:
            connection.execute(text)
            assert connection.execute("select from pg_extension where extname = 'pgmq'").rowcount == 1
            return
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="neither installed nor available") as caught:
            connection.execute(text)
        assert "mqpg migrate" in (caught.value.diag.message_hint or "")
        assert connection.execute("select from pg_namespace where nspname = 'mqpg'").rowcount == 0


def test_the_package_pgmq_is_read_and_not_imported() -> None:
    """It imports SQLAlchemy's ORM: 0.3 s, and 18 MB of memory."""
    code = "import sys; from mqpg import migrate; migrate.script(); print('pgmq' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_pgmq_that_is_there_already_is_left_alone(empty_dsn: str) -> None:
    bundled = re.search(r"\$mqpg_pgmq_bundled\$(.*)\$mqpg_pgmq_bundled\$", migrate.script(), re.DOTALL)
    assert bundled is not None
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(bundled.group(1))
        connection.execute("select pgmq.create('mine'); select pgmq.send('mine', '{}')")
        migrate.upgrade(empty_dsn)
        assert connection.execute("select count(*) from pgmq.q_mine").fetchone() == (1,)


def test_a_schema_from_before_the_first_release_is_named(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("create schema mqpg; create table mqpg.broker (); create table mqpg.alembic_version ()")
    for call in (migrate.check, migrate.upgrade, mqpg.connect):
        with pytest.raises(errors.SchemaTooOld, match=r"from before mqpg 0\.1\.0 and cannot be upgraded"):
            call(empty_dsn)


def test_nothing_installed_says_what_to_run(empty_dsn: str) -> None:
    with pytest.raises(errors.SchemaMissing, match="run mqpg migrate"):
        migrate.check(empty_dsn)


def test_no_server_is_one_clear_line() -> None:
    with pytest.raises(errors.ConnectionFailed) as caught:
        migrate.upgrade("host=127.0.0.1 port=1 dbname=nowhere connect_timeout=2")
    assert "\n" not in str(caught.value)


def test_every_object_has_a_comment(db: psycopg.Connection[Any]) -> None:
    assert undocumented(db) == []


def _wait_for_lock(dsn: str) -> None:
    waiting = "select from pg_locks where locktype = 'advisory' and not granted"
    with psycopg.connect(dsn, autocommit=True) as connection:
        while connection.execute(waiting).rowcount == 0:
            threading.Event().wait(0.01)
