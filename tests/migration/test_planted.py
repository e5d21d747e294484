"""What other roles have put into a database, or made of the role mqpg_owner, before the first `mqpg migrate`."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mqpg import errors, migrate
from mqpg.schema.source import packaged
from tests.support.alembic_app import App
from tests.support.releases import release_with_steps
from tests.support.roles import Roles

Connection = psycopg.Connection[Any]
LOOT = """
create table public.loot (who text);
grant all on public.loot to public;
"""
STEAL = "begin insert into public.loot values (current_user); return null; end"
PGMQ = f"""
create schema pgmq;
create table pgmq.meta (queue_name text);
create function pgmq.create(queue_name text) returns void language plpgsql as $$ begin
    insert into public.loot values (current_user);
end $$;
create function pgmq.create(queue_name name) returns text language plpgsql as $$ {STEAL} $$;
"""
INSTALLATION = """
create schema mqpg;
create table mqpg.broker ();
create function mqpg.schema_version() returns table (migration int, breaking int, release text, checksum text)
language plpgsql as $$ begin
    insert into public.loot values (current_user);
    return query select 1, 0, '0.1.0', '';
end $$;
"""


@pytest.fixture
def boss(empty_dsn: str) -> Iterator[Connection]:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(LOOT)
        yield connection


@pytest.fixture
def planter(empty_dsn: str, boss: Connection) -> Iterator[Connection]:
    """A role that may log in and create schemas, and nothing more."""
    role = f"planter_{uuid.uuid4().hex[:8]}"
    name, database = sql.Identifier(role), sql.Identifier(boss.info.dbname)
    boss.execute(sql.SQL("create role {} login password 'x'").format(name))
    boss.execute(sql.SQL("grant create on database {} to {}").format(database, name))
    with psycopg.connect(make_conninfo(empty_dsn, user=role, password="x"), autocommit=True) as connection:
        yield connection
    boss.execute(sql.SQL("drop owned by {0} cascade; drop role {0}").format(name))


def refused(dsn: str, words: str, **options: str) -> None:
    with pytest.raises(errors.DatabaseError, match=words):
        migrate.upgrade(dsn, **options)  # type: ignore[arg-type]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select who from public.loot").fetchall() == []


@pytest.mark.parametrize("planted", [PGMQ, "create schema pgmq"], ids=["functions", "empty"])
def test_a_planted_pgmq_is_not_used(empty_dsn: str, planter: Connection, planted: str) -> None:
    planter.execute(planted.encode())
    refused(empty_dsn, f"pgmq.* belongs to {planter.info.user}, so mqpg does not use it")


def test_a_function_planted_in_pgmq_is_not_used(empty_dsn: str, boss: Connection, planter: Connection) -> None:
    boss.execute(f"create schema pgmq; grant create on schema pgmq to {planter.info.user}".encode())
    refused(empty_dsn, f"the schema pgmq grants CREATE to {planter.info.user}")
    planter.execute("create function pgmq.create(name) returns text language plpgsql as 'begin end'")
    boss.execute(f"revoke create on schema pgmq from {planter.info.user}".encode())
    refused(empty_dsn, rf"the function pgmq\.\"create\"\(name\) belongs to {planter.info.user}")


def test_a_planted_installation_is_not_called(empty_dsn: str, planter: Connection) -> None:
    """By the scripts neither."""
    planter.execute(INSTALLATION)
    refused(empty_dsn, f"the schema mqpg of this database belongs to {planter.info.user}")
    for text in (migrate.script(), migrate.script(1)):
        with (
            psycopg.connect(empty_dsn) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match=str(planter.info.user)),
        ):
            connection.execute(text.encode())
    assert planter.execute("select count(*) from public.loot").fetchone() == (0,)


# Functions and a type that take the place of PostgreSQL's where the path leads to them first.
_SHADOWS = f"""
create schema shadow;
create domain shadow.text as pg_catalog.text;
create function shadow.steal() returns boolean language plpgsql as $$ begin
    insert into public.loot values (current_user);
    return true;
end $$;
alter domain shadow.text add check (shadow.steal());
create function shadow.set_config(pg_catalog.text, pg_catalog.text, boolean) returns pg_catalog.text
language plpgsql as $$ {STEAL} $$;
create function shadow.current_setting(pg_catalog.text) returns pg_catalog.text language plpgsql as $$ {STEAL} $$;
create function shadow.current_schema() returns name language plpgsql as $$ {STEAL} $$;
create function shadow.version() returns pg_catalog.text language plpgsql as $$ {STEAL} $$;
create function shadow.pg_advisory_lock(int, int) returns boolean language plpgsql as $$ {STEAL} $$;
create function shadow.pg_advisory_xact_lock(int, int) returns boolean language plpgsql as $$ {STEAL} $$;
create function shadow.equal(name, name) returns boolean language plpgsql as $$ {STEAL} $$;
create operator shadow.= (leftarg = name, rightarg = name, function = shadow.equal);
"""


@pytest.fixture
def shadowed(empty_dsn: str, boss: Connection) -> str:
    """A database whose path leads to functions of another role before it leads to PostgreSQL's."""
    boss.execute(_SHADOWS.encode())
    database = sql.Identifier(boss.info.dbname)
    boss.execute(sql.SQL("alter database {} set search_path = shadow, pg_catalog, public").format(database))
    boss.execute("grant usage on schema shadow to public")
    return empty_dsn


def test_a_path_that_leads_to_others_is_not_followed(
    shadowed: str, boss: Connection, tmp_path: Path, psql: Callable[[str, str], None]
) -> None:
    """By what `mqpg migrate` and the revisions remember before they set their own, neither."""
    source = release_with_steps(tmp_path / "sql")
    for again in range(2):
        migrate.upgrade(shadowed, source=source if again else None)
        assert boss.execute("select * from public.loot").fetchall() == []
        psql(shadowed, App(tmp_path / f"app{again}", shadowed, source=source).script())
        boss.execute("drop table shadow.alembic_version")
        assert boss.execute("select * from public.loot").fetchall() == []
        psql(shadowed, migrate.script(source=source))
        assert boss.execute("select * from public.loot").fetchall() == []


def test_a_schema_that_is_made_meanwhile_is_not_used(empty_dsn: str, planter: Connection) -> None:
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(packaged().trusted(None).encode())
        planter.execute("create schema mqpg")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="made or dropped the schema mqpg just now"):
            connection.execute(packaged().install("owner", role="").encode())


def test_an_empty_schema_of_another_role_is_not_used(empty_dsn: str, planter: Connection) -> None:
    planter.execute("create schema mqpg")
    refused(empty_dsn, f"the schema mqpg of this database belongs to {planter.info.user}")


def test_a_schema_with_other_objects_is_not_used(empty_dsn: str, boss: Connection, planter: Connection) -> None:
    boss.execute(f"create schema mqpg; grant create, usage on schema mqpg to {planter.info.user}".encode())
    planter.execute("create function mqpg._topic(varchar) returns int language sql as 'select 1'")
    refused(empty_dsn, r"not of mqpg, and it is not empty: it has function mqpg\._topic")


VIEWS = "create schema mqpg_audit; create view mqpg_audit.message as select 1 as message_id"


@pytest.mark.parametrize("planted", ["create schema mqpg_audit", VIEWS], ids=["empty", "view"])
def test_a_planted_schema_of_auditors_is_not_used(empty_dsn: str, planter: Connection, planted: str) -> None:
    planter.execute(planted.encode())
    refused(empty_dsn, f"the schema mqpg_audit of this database belongs to {planter.info.user}")


def test_a_view_planted_in_the_schema_of_auditors_is_not_used(
    empty_dsn: str, boss: Connection, planter: Connection
) -> None:
    """Neither by the installation, nor by an upgrade that finds the schema dropped and made again."""
    grant = f"grant create, usage on schema mqpg_audit to {planter.info.user}"
    boss.execute(f"create schema mqpg_audit; {grant}".encode())
    planter.execute("create view mqpg_audit.message as select 1 as message_id")
    refused(empty_dsn, r"not of mqpg, and it is not empty: it has view mqpg_audit\.message")
    planter.execute("drop view mqpg_audit.message")
    migrate.upgrade(empty_dsn)
    allowed = "select has_schema_privilege('mqpg_audit', 'create') or has_schema_privilege('mqpg_audit', 'usage')"
    assert planter.execute(allowed).fetchone() == (False,)
    boss.execute("drop schema mqpg_audit cascade; update mqpg.installation set checksum = ''")
    planter.execute(VIEWS)
    refused(empty_dsn, f"the schema mqpg_audit of this database belongs to {planter.info.user}")
    boss.execute("drop schema mqpg_audit cascade")
    boss.execute(f"create schema mqpg_audit authorization mqpg_owner; {grant}".encode())
    planter.execute("create table mqpg_audit.other ()")
    refused(empty_dsn, r"mqpg_audit\.other does not belong to mqpg_owner")
    planter.execute("drop table mqpg_audit.other; create view mqpg_audit.message as select 1 as message_id")
    refused(empty_dsn, "must be owner of view message")


def test_a_schema_of_auditors_that_is_missing_is_made_again(dsn: str, db: Connection, roles: Roles) -> None:
    """As in a database of a release without it, also by a role that may not create schemas."""
    views = "select count(*) from pg_class where relnamespace = to_regnamespace('mqpg_audit')"
    before = db.execute(views).fetchone()
    member = roles("member")
    db.execute(f"grant mqpg_owner to {member.name}".encode())
    db.execute("drop schema mqpg_audit cascade")
    assert any("views are missing, such as mqpg_audit.bound" in line for line in migrate.problems(dsn))
    db.execute("update mqpg.installation set checksum = ''")
    with pytest.raises(errors.DatabaseError, match="may not create the schema mqpg_audit"):
        migrate.upgrade(member.dsn)
    db.execute("create schema mqpg_audit authorization mqpg_owner")
    migrate.upgrade(member.dsn)
    assert db.execute(views).fetchone() == before
    assert migrate.problems(dsn) == []


def test_privileges_on_an_empty_schema_do_not_stay(empty_dsn: str, boss: Connection, planter: Connection) -> None:
    boss.execute(f"create schema mqpg; grant all on schema mqpg to {planter.info.user} with grant option".encode())
    planter.execute("grant all on schema mqpg to public")
    migrate.upgrade(empty_dsn)
    allowed = "select has_schema_privilege('mqpg', 'create') or has_schema_privilege('mqpg', 'usage')"
    assert planter.execute(allowed).fetchone() == (False,)


def test_an_upgrade_takes_privileges_away_and_refuses_objects_of_others(dsn: str, db: Connection, roles: Roles) -> None:
    role = roles("planter").name
    db.execute(f"grant all on schema mqpg to {role}; update mqpg.installation set checksum = ''".encode())
    with db.transaction():
        db.execute(f"set local role {role}".encode())
        db.execute("create table mqpg.other ()")
    with pytest.raises(errors.DatabaseError, match=r"mqpg\.other does not belong to mqpg_owner"):
        migrate.upgrade(dsn)
    db.execute("drop table mqpg.other")
    migrate.upgrade(dsn)
    assert db.execute("select has_schema_privilege(%s, 'mqpg', 'usage')", [role]).fetchone() == (False,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("grant mqpg_owner to {}", "{} can become it"),
        ("alter role mqpg_owner login", "it can log in"),
        ("alter role mqpg_owner createrole", "it has attributes such as CREATEROLE"),
    ],
)
def test_an_owner_that_others_can_become_is_named_explicitly(
    empty_dsn: str, template: str, change: str, words: str
) -> None:
    """All in a transaction that is rolled back, because other databases use the role, too."""
    role = f"member_{uuid.uuid4().hex[:8]}"
    text, named = (migrate.script(owner=owner).removesuffix("COMMIT;\n\n").encode() for owner in (None, "mqpg_owner"))
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(f"create role {role}; {change.format(role)}".encode())
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege, match=words.format(role)) as refusal,
            connection.transaction(),
        ):
            connection.execute(text)
        assert "--owner" in str(refusal.value.diag.message_hint)
        connection.execute(named)
        connection.rollback()


def test_a_superuser_is_never_the_owner(empty_dsn: str, boss: Connection) -> None:
    refused(empty_dsn, "must not belong to the superuser", owner=boss.info.user)


def test_a_stranger_in_the_role_that_calls_checkers_is_refused(empty_dsn: str, boss: Connection) -> None:
    """It could alter the function that the owner of the schema calls."""
    stranger = f"stranger_{uuid.uuid4().hex[:8]}"
    migrate.upgrade(empty_dsn)
    boss.execute(f"create role {stranger} login; grant mqpg_asker to {stranger}".encode())
    try:
        boss.execute("update mqpg.installation set checksum = ''")
        refused(empty_dsn, f"role {stranger} is a member of mqpg_asker")
    finally:
        boss.execute(f"drop role {stranger}".encode())
