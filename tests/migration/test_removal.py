"""`mqpg uninstall`, and what `mqpg doctor --schema` says of a database."""

import uuid
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

import mqpg
from mqpg import errors, migrate
from mqpg.cli.root import app
from mqpg.schema import removal
from tests.support.roles import Roles

Connection = psycopg.Connection[Any]
_SCHEMAS = (
    "select array_agg(nspname order by nspname) from pg_namespace where nspname in ('mqpg', 'mqpg_audit', 'pgmq')"
)


def schemas(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(_SCHEMAS).fetchone()
    return list(row[0] or []) if row else []


def test_uninstall_asks_and_leaves_nothing(dsn: str) -> None:
    extension = pgmq_is_an_extension(dsn)
    declined = CliRunner().invoke(app, ["uninstall", "--dsn", dsn], input="n\n")
    assert declined.exit_code == 1
    assert schemas(dsn) == ["mqpg", "mqpg_audit", "pgmq"]
    done = CliRunner().invoke(app, ["uninstall", "--dsn", dsn, "--yes"])
    assert done.exit_code == 0, done.output
    assert {"dropped the schema mqpg", "dropped the schema mqpg_audit"} <= set(done.output.splitlines())
    assert "mqpg_ledger" in done.output
    assert schemas(dsn) == (["pgmq"] if extension else [])
    with pytest.raises(errors.SchemaMissing), psycopg.connect(dsn) as connection:
        removal.remove(connection, force=True)
    migrate.upgrade(dsn)
    migrate.check(dsn)


def test_uninstall_refuses_while_messages_are_undelivered(dsn: str) -> None:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t")
        mq.subscribe("g", "t")
        mq.create_producer_group("pg")
        mq.send("t", 1)
        mq.append()
        mq.prepare("t", 2, "pg")
        mq.append()
    refused = CliRunner().invoke(app, ["uninstall", "--dsn", dsn, "--yes"])
    assert isinstance(refused.exception, errors.TopicInUse)
    assert "there are 1 undelivered messages, 1 undecided half messages" in str(refused.exception)
    assert "--force" in str(refused.exception)
    assert schemas(dsn) == ["mqpg", "mqpg_audit", "pgmq"]
    asked = CliRunner().invoke(app, ["uninstall", "--dsn", dsn, "--force"], input="y\n")
    assert asked.exit_code == 0, asked.output
    assert "1 undelivered messages" in asked.output
    assert "mqpg" not in schemas(dsn)


def test_uninstall_counts_what_no_tick_has_seen(dsn: str) -> None:
    """Sent, committed, delayed and returned messages. A recalled one is not delivered anyway."""
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.subscribe("g", "t", retry_delay="1 hour")
        mq.create_producer_group("pg")
        mq.send("t", 1)
        refuses(dsn, "there are 1 messages not yet appended: nothing")
        mq.append()
        delivery = mq.receive("g", "t")
        mq.nack(delivery[0], "later")
        handle = mq.prepare("t", 2, "pg")
        mq.append()
        mq.commit(handle)
        mq.send_batch("t", [3, 4])
        refuses(dsn, "there are 3 messages not yet appended, 1 messages not yet due: nothing")
        mq.append()
        delivery = mq.receive("g", "t")
        mq.ack(delivery)
        recalled = [mq.send("t", number, delay="1 day") for number in range(3)][1]
        mq.append()
        mq.recall(recalled)
        refuses(dsn, "there are 3 messages not yet due: nothing")


def test_uninstall_waits_for_senders(dsn: str, db: Connection) -> None:
    """Otherwise the message of an open transaction would be lost without a word."""
    db.execute("select mqpg.create_topic('t')")
    with psycopg.connect(dsn) as sender, psycopg.connect(dsn) as connection:
        sender.execute("select mqpg.send('t', '1'::text)")
        connection.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            removal.remove(connection, force=False)
        connection.rollback()
        sender.commit()
        with pytest.raises(errors.TopicInUse, match="1 messages not yet appended"):
            removal.remove(connection, force=False)


def test_uninstall_refuses_before_it_asks(dsn: str, db: Connection) -> None:
    db.execute("select mqpg.create_topic('t'); select mqpg.send('t', '1'::text)")
    refused = CliRunner().invoke(app, ["uninstall", "--dsn", dsn])
    assert isinstance(refused.exception, errors.TopicInUse)
    assert "Drop mqpg" not in refused.output


def test_a_schema_mqpg_audit_of_another_role_remains(dsn: str, db: Connection) -> None:
    db.execute("drop schema mqpg_audit cascade; create schema mqpg_audit")
    with psycopg.connect(dsn) as connection:
        assert "dropped the schema mqpg_audit" not in removal.remove(connection, force=False)
    assert "mqpg_audit" in schemas(dsn)


@pytest.mark.parametrize("pgmq_before", [False, True])
def test_the_owner_can_be_dropped_afterwards(empty_dsn: str, pgmq_before: bool) -> None:
    """And a schema pgmq that was there before stays."""
    owner = f"owner_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(empty_dsn, autocommit=True) as boss:
        if pgmq_before:
            text = migrate.script().split("$mqpg_pgmq_bundled$")[1]
            boss.execute(text.encode())
        migrate.upgrade(empty_dsn, owner=owner)
        extension = pgmq_is_an_extension(empty_dsn)
        with psycopg.connect(empty_dsn) as connection:
            removal.remove(connection, force=False)
        assert schemas(empty_dsn) == (["pgmq"] if pgmq_before or extension else [])
        boss.execute(f"drop role {owner}".encode())


def test_other_queues_of_pgmq_remain(dsn: str, db: Connection) -> None:
    db.execute("select pgmq.create('mine')")
    with psycopg.connect(dsn) as connection:
        assert any(line.startswith("the schema pgmq remains") for line in removal.remove(connection, force=False))
    assert schemas(dsn) == ["pgmq"]
    assert db.execute("select queue_name from pgmq.meta").fetchall() == [("mine",)]


def test_nothing_is_wrong_with_a_new_database(dsn: str) -> None:
    assert migrate.problems(dsn) == []
    assert CliRunner().invoke(app, ["doctor", "--schema", "--dsn", dsn]).exit_code == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("update mqpg.broker set system_identifier = 1", "another cluster"),
        ("update mqpg.broker set timeline = '000000FF'", "promoted or recovered"),
        ("drop function mqpg.reconcile", "functions are missing, such as mqpg.reconcile"),
        ("drop view mqpg_audit.pending", "1 views are missing, such as mqpg_audit.pending"),
        ("update mqpg.installation set checksum = ''", "run mqpg migrate"),
    ],
)
def test_what_is_wrong_is_said(dsn: str, db: Connection, change: str, words: str) -> None:
    db.execute(change.encode())
    assert any(words in line for line in migrate.problems(dsn))
    done = CliRunner().invoke(app, ["doctor", "--schema", "--dsn", dsn])
    assert done.exit_code == 1
    assert words in done.output


def test_row_level_security_is_said_if_it_hides_the_rows_from_their_owner(empty_dsn: str) -> None:
    owner = f"owner_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(empty_dsn, autocommit=True) as boss:
        migrate.upgrade(empty_dsn, owner=owner)
        boss.execute("alter table mqpg.subscription enable row level security, force row level security")
        (line,) = migrate.problems(empty_dsn)
        assert "row level security hides the rows of mqpg.subscription" in line
        boss.execute(f"alter role {owner} bypassrls".encode())
        assert migrate.problems(empty_dsn) == []
        with psycopg.connect(empty_dsn) as connection:
            removal.remove(connection, force=False)
        boss.execute(f"drop role {owner}".encode())


def test_a_column_without_compression_is_said_where_the_server_has_lz4(dsn: str, db: Connection) -> None:
    row = db.execute(
        "select 'lz4' = any(enumvals) from pg_settings where name = 'default_toast_compression'"
    ).fetchone()
    db.execute("alter table mqpg.commit_log alter column payloads set compression default")
    assert any("payloads" in line for line in migrate.problems(dsn)) == (row == (True,))


@pytest.mark.parametrize("name", ["view mqpg.topics", "view mqpg_audit.topic", "schema mqpg_audit"])
def test_an_object_of_another_owner_is_said(dsn: str, db: Connection, name: str) -> None:
    role = f"other_owner_{db.info.backend_pid}"
    db.execute(f"create role {role}".encode())
    try:
        db.execute(f"alter {name} owner to {role}".encode())
        assert any(role in line for line in migrate.problems(dsn))
    finally:
        db.execute(f"drop owned by {role} cascade".encode())
        db.execute(f"drop role {role}".encode())


def test_a_role_that_is_not_the_owner_migrates_and_checks(db: Connection, roles: Roles) -> None:
    """There is nothing to do for it, and it cannot look at the tables."""
    role = roles("other")
    db.execute("select mqpg.create_topic('t'), mqpg.grant_send('t', %s)", [role.name])
    done = CliRunner().invoke(app, ["migrate", "--dsn", role.dsn])
    assert (done.exit_code, done.exception) == (0, None)
    checked = CliRunner().invoke(app, ["doctor", "--schema", "--dsn", role.dsn])
    assert checked.exit_code == 1
    assert "check as a superuser or a member of mqpg_owner" in checked.output


def test_the_owner_may_stand_before_the_command(empty_dsn: str) -> None:
    owner = f"owner_{uuid.uuid4().hex[:8]}"
    assert CliRunner().invoke(app, ["migrate", "--owner", owner, "sql"]).output == migrate.script(owner=owner)
    done = CliRunner().invoke(app, ["migrate", "--owner", owner, "up", "--dsn", empty_dsn])
    assert done.exit_code == 0, done.output
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        found = connection.execute("select nspowner::regrole::text from pg_namespace where nspname = 'mqpg'")
        assert found.fetchone() == (owner,)
        connection.execute(f"drop owned by {owner} cascade; drop role {owner}".encode())


def refuses(dsn: str, words: str) -> None:
    with psycopg.connect(dsn) as connection, pytest.raises(errors.TopicInUse, match=words):
        removal.remove(connection, force=False)


def pgmq_is_an_extension(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        return bool(connection.execute("select from pg_extension where extname = 'pgmq'").rowcount)
