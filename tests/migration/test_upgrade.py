"""Upgrades to a later release that the tests make up: what changes, what does not, and who notices."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg import errors, migrate
from mqpg.schema.compatibility import EXIT_TOO_OLD, Installed, read, require_compatible
from mqpg.schema.source import RELEASE, Source, packaged
from mqpg.values.translation import translate
from tests.migration.catalog import catalog
from tests.support.processes import Process, Processes
from tests.support.releases import HEAD, ORIGIN, later_release, release_in
from tests.support.roles import Roles
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
Connection = psycopg.Connection[Any]


@pytest.fixture
def later(tmp_path: Path) -> Source:
    """Release 0.2.0 with one more migration."""
    return later_release(tmp_path / "sql")


@pytest.fixture
def breaking(tmp_path: Path) -> Source:
    """Release 0.2.0 with two more migrations, of which the second is breaking."""
    return later_release(tmp_path / "sql", breaking=True)


def normal(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Without the positions of columns, which come last in an upgraded table."""
    return [(kind, name, text.split(" ", 1)[1] if kind == "column" else text) for kind, name, text in found]


def test_an_upgraded_database_is_like_a_new_one(dsn: str, empty_dsn: str, breaking: Source) -> None:
    done = migrate.upgrade(dsn, source=breaking)
    assert (done.current, done.release, done.up_to_date) == (HEAD + 2, "0.2.0", True)
    migrate.upgrade(empty_dsn, source=breaking)
    assert normal(catalog(dsn)) == normal(catalog(empty_dsn))
    with psycopg.connect(dsn) as connection:
        assert read(connection) == Installed(HEAD + 2, HEAD + 2, "0.2.0", breaking.checksum)
        revision = connection.execute("select version_num from mqpg.alembic_version").fetchall()
        assert revision == [(f"{HEAD + 2:04}_mqpg",)]


def test_the_script_of_an_upgrade_gives_the_same(dsn: str, empty_dsn: str, later: Source) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update mqpg.alembic_version set version_num = '0005_mqpg'")
        complaint = f"upgrades from migration {HEAD}, and this database has migration 5"
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=complaint):
            connection.execute(migrate.script(HEAD, source=later).encode())
        connection.rollback()
        connection.execute("update mqpg.alembic_version set version_num = %s", (f"{HEAD:04}_mqpg",))
        for _ in range(2):  # the second one finds nothing to do
            connection.execute(migrate.script(HEAD, source=later).encode())
    migrate.upgrade(empty_dsn, source=later)
    assert normal(catalog(dsn)) == normal(catalog(empty_dsn))
    with pytest.raises(errors.ConfigurationError, match=f"migrations 1 to {HEAD + 1}, not {HEAD + 2}"):
        migrate.script(HEAD + 2, source=later)


def test_a_second_upgrade_does_nothing(dsn: str, db: Connection, later: Source) -> None:
    migrate.upgrade(dsn, source=later)
    functions = "select array_agg(xmin::text order by oid) from pg_proc where pronamespace = 'mqpg'::regnamespace"
    before = db.execute(functions).fetchone()
    migrate.upgrade(dsn, source=later)
    assert db.execute(functions).fetchone() == before


def test_only_the_code_changed(dsn: str, db: Connection, tmp_path: Path) -> None:
    """A patch release has no migration, but other functions."""
    later_release(tmp_path / "sql")
    (tmp_path / "sql" / ORIGIN).unlink()
    patch = release_in(tmp_path / "sql", "0.1.1")
    assert migrate.upgrade(dsn, source=patch).current == HEAD
    assert db.execute("select mqpg.append(null, reason => 'x')").fetchone() == (0,)
    assert db.execute("select release from mqpg.schema_version()").fetchone() == ("0.1.1",)
    # The release before may start again meanwhile, and does not put its own code back.
    assert migrate.upgrade(dsn) == migrate.Status(HEAD, HEAD, "0.1.1", False)


def test_roles_get_the_functions_that_their_rights_have_in_the_new_release(
    dsn: str, db: Connection, roles: Roles, later: Source, tmp_path: Path
) -> None:
    """A function that the right has now, and not one that the right no longer has."""
    role = roles("upgrade").name
    db.execute("select mqpg.grant_send('*', %s)", (role,))
    entries = tmp_path / "sql/functions/rights/_entry_points.sql"
    text = entries.read_text()
    for before, after in [
        (" recall'", " ready'"),
        (" unpin ready ", " unpin "),
        ("'adopt_promoted'", "'adopt_promoted recall'"),
    ]:
        assert text.count(before) == 1
        text = text.replace(before, after)
    entries.write_text(text)
    executable = (
        "select has_function_privilege(%s, 'mqpg.recall(bigint)', 'execute'),"
        " has_function_privilege(%s, 'mqpg.ready(text, bigint)', 'execute')"
    )
    assert db.execute(executable, (role, role)).fetchone() == (True, False)
    migrate.upgrade(dsn, source=release_in(tmp_path / "sql", "0.2.0"))
    assert db.execute(executable, (role, role)).fetchone() == (False, True)


def test_a_long_reader_does_not_block_an_upgrade_of_functions(dsn: str, db: Connection, tmp_path: Path) -> None:
    later_release(tmp_path / "sql")
    (tmp_path / "sql" / ORIGIN).unlink()
    patch = release_in(tmp_path / "sql", "0.1.1")
    with psycopg.connect(dsn) as reader:
        reader.execute("select count(*) from mqpg.commit_log, mqpg.half_pending")
        old = reader.execute("select 'mqpg._awaits_members(mqpg.topic)'::regprocedure::oid").fetchone()
        migrate.upgrade(dsn, source=patch)
        # The reader may have planned a call of a function that is gone, so that one still exists.
        kept = "select p.pronamespace::regnamespace::text from pg_proc p where p.oid = %s"
        assert db.execute(kept, old).fetchone() == ("mqpg_retired",)
        owner = "select nspowner::regrole::text from pg_namespace where nspname = 'mqpg_retired'"
        assert db.execute(owner).fetchone() == ("mqpg_owner",)
    db.execute("update mqpg.installation set checksum = 'another'")
    migrate.upgrade(dsn, source=patch)
    assert db.execute(kept, old).fetchone() is None


def test_a_held_lock_of_migrators_ends_with_an_error(dsn: str) -> None:
    """Everybody can take it."""
    with psycopg.connect(dsn) as holder:
        holder.execute(migrate.LOCK)
        release = threading.Timer(10, holder.close)  # so that a migration without a limit ends, too
        release.start()
        try:
            with pytest.raises(errors.LockTimeout):
                migrate.upgrade(dsn, patience=0)
        finally:
            release.cancel()


def test_the_script_of_an_older_release_changes_nothing(dsn: str, db: Connection) -> None:
    db.execute("update mqpg.installation set release = '0.10.0', checksum = 'another'")
    before = catalog(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(migrate.script().encode())
    assert catalog(dsn) == before


def test_a_statement_timeout_does_not_end_the_scripts(dsn: str) -> None:
    with psycopg.connect(dsn, options="-c statement_timeout=60000", autocommit=True) as connection:
        connection.execute(migrate.script(HEAD).removesuffix("COMMIT;\n\n").encode())
        assert connection.execute("show statement_timeout").fetchone() == ("0",)


def test_a_locked_table_is_waited_for_in_short_steps(dsn: str, later: Source) -> None:
    with psycopg.connect(dsn) as reader:
        reader.execute("select count(*) from mqpg.commit_log")
        with pytest.raises(errors.LockTimeout):
            migrate.upgrade(dsn, source=later, patience=0)
        assert migrate.status(dsn).current == HEAD
        with mqpg.connect(dsn) as mq:  # nobody waits behind it
            mq.create_topic("t")
            mq.send("t", 1)
    assert migrate.upgrade(dsn, source=later).current == HEAD + 1


def test_producers_and_consumers_work_during_an_upgrade(
    dsn: str, db: Connection, later: Source, processes: Processes
) -> None:
    """Real processes of the release before. Any error would end them."""
    with mqpg.connect(dsn) as mq:
        mq.create_topic("upgraded", queues=2)
        mq.subscribe("group", "upgraded")
        mq.create_producer_group("makers")
    db.execute("create table business (key text); create table effect (key text)")
    worker = processes.start("worker", "appender", "--log-level", "warning")
    producer = actor("producer", dsn, "p")
    consumer = actor("consumer", dsn, "c")
    reached(db, 10)
    migrate.upgrade(dsn, source=later)
    assert migrate.status(dsn, source=later).up_to_date
    assert db.execute("select from mqpg.foreign_locks").rowcount == 0  # the appender has a seat
    reached(db, len(effects(db)) + 10)
    # And once more, only the code: the argument and the column of the view go again.
    db.execute("update mqpg.alembic_version set version_num = %s", (f"{HEAD:04}_mqpg",))
    db.execute("update mqpg.installation set release = '0.1.0'")
    migrate.upgrade(dsn)
    reached(db, len(effects(db)) + 10)
    sent = {f"p-{number}" for number in range(finish(producer))}
    assert finish(consumer) == len(sent)
    found = effects(db)
    assert len(found) == len(set(found))
    assert set(found) == sent
    assert worker.process.poll() is None
    assert worker.log() == ""


def test_a_worker_too_old_for_the_schema_stops(
    dsn: str, db: Connection, breaking: Source, processes: Processes, tmp_path: Path
) -> None:
    """Supervisor, role and consumer stop with their own status, when it happens and at the start."""
    (tmp_path / "shop.py").write_text("import mqpg\n@mqpg.consumer('t', group='g')\ndef handle(message): pass\n")
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t")
        mq.subscribe("g", "t")
    commands = (["worker"], ["consume", "shop:handle"])
    running = [processes.start(*command, "--heartbeat", "0.2") for command in commands]
    alive = "select count(*) from mqpg.worker_status where alive"
    eventually(lambda: db.execute(alive).fetchone() == (4,))
    migrate.upgrade(dsn, source=breaking)
    for process in running:
        stopped_as_too_old(process)
    stopped_as_too_old(processes.start("worker", "keeper"))
    with pytest.raises(errors.SchemaTooNew, match="upgrade mqpg"):
        mqpg.connect(dsn)


def test_a_client_that_is_newer_by_one_works(dsn: str, db: Connection) -> None:
    """The schema is of the minor release before this one. What it does not have says what to run."""
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t")
        mq.subscribe("g", "t")
        mq.send("t", 1)
        db.execute("drop function mqpg.reconcile")
        with pytest.raises(errors.SchemaTooOld, match="run mqpg migrate"):
            errors_of(db, "select mqpg.reconcile('x')")


def test_what_the_schema_does_not_have_is_named_in_any_language(db: Connection) -> None:
    """As a server with lc_messages de_DE says it."""
    with pytest.raises(errors.SchemaTooOld, match="run mqpg migrate"):
        errors_of(
            db,
            "do $$ begin raise undefined_function using message = 'Funktion mqpg.reconcile(text) existiert nicht'; end $$",
        )


@pytest.mark.parametrize(
    ("schema", "client", "expected"),
    [
        ("0.1.0", "0.2.0", None),
        ("0.2.0", "0.1.0", None),
        ("0.2.9", "0.1.0", None),
        ("0.3.0", "0.1.0", errors.SchemaTooNew),
        ("0.1.0", "0.3.0", errors.SchemaTooOld),
        ("1.0.0", "0.9.0", errors.SchemaTooNew),
        ("0.9.0", "1.0.0", errors.SchemaTooOld),
    ],
)
def test_one_minor_release_apart(schema: str, client: str, expected: type[errors.Error] | None) -> None:
    installed = Installed(1, 0, schema, "")
    source = Source(packaged()._folder, client)
    if expected is None:
        require_compatible(installed, source)
        return
    with pytest.raises(expected, match=f"of mqpg {schema} and this is mqpg {client}"):
        require_compatible(installed, source)


def test_an_unknown_breaking_migration_is_refused() -> None:
    require_compatible(Installed(9, HEAD, "0.2.0", ""), packaged())
    with pytest.raises(
        errors.SchemaTooNew, match=rf"has migration {HEAD + 1}, which mqpg 0\.1\.0 cannot work with: upgrade"
    ):
        require_compatible(Installed(9, HEAD + 1, "0.2.0", ""), packaged())


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("0003_x.sql", "-- breaking: no\n", r"must be named 0002_what_it_does\.sql"),
        ("0002_x.sql", "select 1;\n", "must have a line -- breaking"),
    ],
)
def test_a_migration_that_is_not_complete_is_refused(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / name).write_text(text)
    with pytest.raises(errors.ConfigurationError, match=complaint):
        _ = Source(tmp_path).migrations


def test_an_upgrade_that_fails_changes_nothing(dsn: str, later: Source, tmp_path: Path) -> None:
    before = catalog(dsn)
    (tmp_path / "sql/functions/topic/create_topic.sql").write_text("create function mqpg.create_topic() nonsense;")
    with pytest.raises(errors.DatabaseError, match="syntax error"):
        migrate.upgrade(dsn, source=release_in(tmp_path / "sql", "0.2.0"))
    assert catalog(dsn) == before
    with psycopg.connect(dsn) as connection:
        assert read(connection) == Installed(HEAD, 0, RELEASE, packaged().checksum)


def actor(role: str, dsn: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.migration_actors", role, dsn, name]
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def finish(one: subprocess.Popen[str]) -> int:
    out, _ = one.communicate("", timeout=120)
    assert one.returncode == 0
    return int(json.loads(out))


def effects(db: Connection) -> list[str]:
    return [row[0] for row in db.execute("select key from effect")]


def reached(db: Connection, count: int) -> None:
    eventually(lambda: len(effects(db)) >= count)


def stopped_as_too_old(process: Process) -> None:
    assert process.wait() == EXIT_TOO_OLD, process.log()
    assert "upgrade mqpg" in process.log()
    assert process.log().count("child started") <= 3


def errors_of(db: Connection, query: str) -> None:
    try:
        db.execute(query.encode())
    except psycopg.Error as error:
        raise translate(error) from error
