"""A checker function runs with the rights of its owner, and never with those of the compensator."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import namedtuple_row

from tests.support.broker import Broker, Session, refused, seconds

GRANTS = """
select mqpg.grant_operator({name});
create schema planted authorization {role};
grant usage on schema planted to public;
create table planted.loot (who text, grew boolean);
grant all on planted.loot to {role};
"""
BECOME_SUPERUSER = """
    insert into planted.loot select current_user, false;
    begin
        execute format('alter role %I superuser', '{role}');
        update planted.loot set grew = true;
    exception when others then null;
    end;
    begin
        set role {worker};
        update planted.loot set grew = true;
    exception when others then null;
    end;
    return 'commit';
"""


@pytest.fixture
def broker(dsn: str) -> Iterator[Broker]:
    broker = Broker(dsn)
    yield broker
    broker.close()


@pytest.fixture
def mq(broker: Broker) -> Session:
    session = broker.session()
    session.call("create_topic", "t", queues=1)
    return session


@pytest.fixture
def app(mq: Session, dsn: str) -> Iterator[Session]:
    """A session of an ordinary role that may make producer groups, and functions in schema planted."""
    role = f"mqpg_planter_{mq.pid}"
    name = sql.Identifier(role)
    mq.conn.execute(sql.SQL("create role {} login password 'nothing'").format(name))
    mq.conn.execute(sql.SQL(GRANTS).format(role=name, name=sql.Literal(role)))
    conn = psycopg.connect(
        make_conninfo(dsn, user=role, password="nothing"), autocommit=True, row_factory=namedtuple_row
    )
    yield Session(conn)
    conn.close()
    mq.conn.execute(sql.SQL("drop owned by {0} cascade; drop role {0}").format(name))


def role_of(session: Session) -> str:
    return str(session.conn.info.user)


def plant(session: Session, body: str, rights: str = "security definer", name: str = "planted.evil") -> None:
    session.conn.execute(
        f"create or replace function {name}(handle text, key text, headers jsonb, payload json)"  # type: ignore[arg-type]
        f" returns mqpg.verdict language plpgsql {rights} as $$ begin {body} end $$"
    )


def create(session: Session, target: str = "planted.evil") -> None:
    session.call("create_producer_group", "evil", check_after=seconds(0.01), checker="function", checker_target=target)


def compensate(mq: Session) -> str | None:
    """Check the one half message, and return why there was no verdict."""
    mq.prepare("t", "1", "evil")
    mq.execute("select pg_sleep(0.12)")
    mq.append()
    assert mq.value("compensate") == 1
    return reason(mq)


def reason(mq: Session) -> str | None:
    rows = mq.rows("select reason from mqpg.half_pending")
    return rows[0].reason if rows else None


def test_a_function_with_the_callers_rights_is_refused_when_it_is_named(mq: Session, app: Session) -> None:
    """The error names the statement that helps."""
    plant(app, "return 'commit';", "security invoker")
    with refused("MQ001", "alter function planted.evil(text,text,jsonb,json) security definer"):
        create(app)
    app.call("create_producer_group", "evil")
    with refused("MQ001", "security definer"):
        mq.call("alter_producer_group", "evil", checker="function", checker_target="planted.evil")


def test_it_runs_as_its_owner_and_gains_nothing(mq: Session, app: Session) -> None:
    plant(app, BECOME_SUPERUSER.format(role=role_of(app), worker=role_of(mq)))
    create(app)
    assert compensate(mq) is None
    assert mq.rows("select who, grew from planted.loot") == [(role_of(app), False)]
    assert not mq.scalar("select rolsuper from pg_roles where rolname = %s", role_of(app))


@pytest.mark.parametrize("how", ["alter", "replace"])
def test_it_is_not_run_with_the_workers_rights_after_a_change(mq: Session, app: Session, how: str) -> None:
    body = BECOME_SUPERUSER.format(role=role_of(app), worker=role_of(mq))
    plant(app, body)
    create(app)
    if how == "alter":
        app.execute("alter function planted.evil security invoker")
    else:
        plant(app, body, "security invoker")
    why = compensate(mq)
    assert why is not None
    assert "alter function planted.evil(text,text,jsonb,json) security definer" in why
    assert mq.rows("select * from planted.loot") == []


def test_nobody_names_a_function_of_a_role_with_more_rights(mq: Session, app: Session) -> None:
    mq.execute("grant usage, create on schema planted to public")
    plant(mq, "return 'commit';", name="planted.mighty")
    with refused("MQ001", role_of(mq)):
        create(app, "planted.mighty")
    create(mq, "planted.mighty")


def test_a_function_that_changed_its_owner_is_not_run(mq: Session, app: Session) -> None:
    """Neither one that was given away, nor another one under the name of a dropped one."""
    plant(app, "return 'commit';")
    create(app)
    app.execute("drop function planted.evil")
    plant(mq, "return 'commit';")
    why = compensate(mq)
    assert why is not None
    assert "alter_producer_group" in why


def test_a_change_while_it_runs_is_rolled_back(mq: Session, app: Session, broker: Broker) -> None:
    """The function is looked up again after the call: ALTER FUNCTION waits for no lock."""
    hold = "perform set_config('lock_timeout', '30 s', true); perform pg_advisory_xact_lock(77);"
    hold += " perform set_config('lock_timeout', '1s', true);"
    plant(app, f"{hold} insert into planted.loot values ('x', true); return 'commit';")
    create(app)
    mq.prepare("t", "1", "evil")
    mq.execute("select pg_sleep(0.12)")
    mq.append()
    gate = broker.session()
    worker = broker.session()
    gate.execute("select pg_advisory_lock(77)")
    checking = broker.background(worker.value, "compensate")
    broker.wait_blocked(worker)
    app.execute("alter function planted.evil security invoker")
    gate.execute("select pg_advisory_unlock(77)")
    assert checking.result() == 1
    why = reason(mq)
    assert why is not None
    assert "changed while it ran" in why
    assert mq.rows("select * from planted.loot") == []


@pytest.mark.parametrize(
    "change",
    [
        "perform set_config('search_path', 'planted, pg_catalog', false);",
        "perform set_config('search_path', 'planted, pg_catalog', true);",
        "set session characteristics as transaction read only;",
        "perform set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false);",
    ],
)
def test_it_leaves_the_session_of_the_worker_as_it_was(mq: Session, app: Session, change: str) -> None:
    mq.execute("set statement_timeout = '59 s'")
    settings = "select name, setting from pg_settings where context in ('user', 'superuser') order by 1"
    plant(app, f"{change} return 'commit';")
    create(app)
    before = mq.rows(settings)
    why = compensate(mq)
    assert why is not None
    assert "changed settings of the session" in why
    assert mq.rows(settings) == before


def test_due_checks_hands_out_halves_of_the_group_only(mq: Session) -> None:
    for group in ("mine", "theirs"):
        mq.call("create_producer_group", group, check_after=seconds(0.01))
    handles = {group: mq.prepare("t", "1", group) for group in ("mine", "theirs")}
    mq.execute("select pg_sleep(0.12)")
    mq.append()
    assert [row.handle for row in mq.call("due_checks", "mine")] == [handles["mine"]]


def test_a_dedup_id_gives_no_handle_of_another_group(mq: Session) -> None:
    for group in ("mine", "theirs"):
        mq.call("create_producer_group", group)
    handle = mq.prepare("t", "1", "theirs", dedup_id="order 7")
    assert mq.prepare("t", "1", "theirs", dedup_id="order 7") == handle
    with refused("MQ018"):
        mq.prepare("t", "1", "mine", dedup_id="order 7")
