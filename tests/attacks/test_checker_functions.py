"""A checker function runs with the rights of its owner, and never with those of the compensator."""

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
create table planted.loot (what text);
grant all on planted.loot to {role};
"""
TELL = "raise exception 'I am %', current_user;"
ALTERATIONS = """
do $$ begin
    for i in 1 .. 4000 loop
        alter function planted.evil(text, text, jsonb, json) security invoker;
        commit;
        alter function planted.evil(text, text, jsonb, json) security definer;
        commit;
    end loop;
end $$
"""
GROW = """
create function planted.grow() returns int language plpgsql security invoker as $$
begin
    execute 'alter role {role} superuser';
    return 1;
end $$;
"""
BECOME_THE_WORKER = """
    begin
        set role {worker};
        return 'rollback';
    exception when others then null;
    end;
"""


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
        f"create or replace function {name}(handle text, key text, headers jsonb, payload json)"
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


def overdue_again(mq: Session) -> None:
    """Make the entry due at once, and check again."""
    mq.execute("update pgmq.q_mqpg_oplog set vt = clock_timestamp()")
    assert mq.value("compensate") == 1


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
    plant(app, BECOME_THE_WORKER.format(worker=role_of(mq)) + TELL)
    create(app)
    assert f"I am {role_of(app)}" in str(compensate(mq))


def test_what_it_writes_is_an_error(mq: Session, app: Session) -> None:
    plant(app, "insert into planted.loot values ('mine'); return 'commit';")
    create(app)
    assert "cannot execute INSERT in a read-only transaction" in str(compensate(mq))
    plant(app, "set transaction_read_only = off; insert into planted.loot values ('mine'); return 'commit';")
    overdue_again(mq)
    assert "cannot set transaction read-write mode inside a read-only transaction" in str(reason(mq))


def test_nothing_of_it_runs_when_the_worker_commits(mq: Session, app: Session) -> None:
    """A cursor WITH HOLD calls its functions at the commit, with the rights of the session."""
    app.execute(GROW.format(role=role_of(app)))
    plant(app, "execute 'declare later cursor with hold for select planted.grow()'; return 'commit';")
    create(app)
    assert compensate(mq) is None
    assert not mq.scalar("select rolsuper from pg_roles where rolname = %s", role_of(app))
    assert mq.rows("select name from pg_cursors") == []


@pytest.mark.parametrize(
    "call",
    [
        "select count(*) from mqpg.fetch('secrets', 0, 0)",
        "select count(*) from mqpg.find_by_key('secrets', 'k')",
        "select count(*) from mqpg.receive('readers', 'secrets')",
        "select count(*) from mqpg.dead_letters('readers', 'secrets')",
        "select count(*) from mqpg.due_checks('others')",
        "select count(*) from mqpg.half_pending",
        "select count(*) from mqpg.subscription_lag",
    ],
)
def test_it_reads_nothing_of_mqpg_with_the_workers_rights(mq: Session, app: Session, call: str) -> None:
    """Its owner may call these functions for a topic of its own, and the worker may for all."""
    name = sql.Literal(role_of(app))
    mq.call("create_topic", "secrets", queues=1)
    mq.call("create_producer_group", "others")
    mq.call("subscribe", "readers", "secrets")
    mq.call("subscribe", "mine", "t")
    for grant in ("grant_receive('mine', 't', {})", "grant_produce('evil', {})"):
        if "produce" in grant:
            plant(app, f"perform ({call}); return 'commit';")
            create(app)
        mq.conn.execute(sql.SQL("select mqpg." + grant).format(name))
    mq.call("send", "secrets", '"the code"', key="k")
    why = str(compensate(mq))
    assert "mqpg is not open to a checker function" in why or "in a read-only transaction" in why


@pytest.mark.parametrize("how", ["alter", "replace"])
def test_it_is_not_run_with_the_workers_rights_after_a_change(mq: Session, app: Session, how: str) -> None:
    plant(app, TELL)
    create(app)
    if how == "alter":
        app.execute("alter function planted.evil security invoker")
    else:
        plant(app, TELL, "security invoker")
    why = compensate(mq)
    assert why is not None
    assert "alter function planted.evil(text,text,jsonb,json) security definer" in why
    assert "I am" not in why


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
    plant(app, f"{hold} return 'commit';")
    create(app)
    mq.prepare("t", "1", "evil")
    mq.execute("select pg_sleep(0.12)")
    mq.append()
    gate = broker.session()
    worker = broker.session()
    gate.execute("select pg_advisory_lock(77)")
    checking = broker.blocked(worker, worker.value, "compensate")
    app.execute("alter function planted.evil security invoker")
    gate.execute("select pg_advisory_unlock(77)")
    assert checking.result() == 1
    why = reason(mq)
    assert why is not None
    assert "changed while it ran" in why


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
    assert compensate(mq) is None
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


TELL_IF_OWNER = """
    if pg_has_role(current_user, 'mqpg_owner', 'usage') then
        raise exception 'loot: %', (select max(length(s.receipt_secrets[1])) from mqpg.subscription s);
    end if;
    return 'wait';
"""


def test_an_author_who_alters_it_at_the_moment_of_the_call_gains_nothing(
    mq: Session, app: Session, broker: Broker
) -> None:
    """ALTER FUNCTION waits for nothing, so now and then the function runs without SECURITY DEFINER."""
    plant(app, TELL_IF_OWNER)
    create(app)
    mq.call("alter_producer_group", "evil", max_checks=1000)
    mq.prepare("t", "1", "evil")
    mq.execute("select pg_sleep(0.12)")
    mq.append()
    author = broker.background(app.execute, ALTERATIONS)
    reasons = set()
    for _ in range(900):
        overdue_again(mq)
        reasons.add(reason(mq))
        if author.done():
            break
    author.result()
    assert not [why for why in reasons if why and "loot" in why]
    assert any("alter function" in why or "changed while" in why for why in reasons if why)


def test_it_leaves_no_statement_that_the_worker_would_run(mq: Session, app: Session) -> None:
    """PREPARE and DEALLOCATE are not undone by a rollback."""
    replace = "execute 'deallocate harmless'; execute 'prepare harmless as select planted.grow()';"
    app.execute(GROW.format(role=role_of(app)))
    plant(app, f"{replace} return 'commit';")
    create(app)
    mq.execute("prepare harmless as select 1")
    assert "prepared or deallocated statements" in str(compensate(mq))
    with refused("26000"):
        mq.execute("execute harmless")
    plant(app, f"{replace.replace('deallocate harmless', 'select 1')} raise query_canceled;")
    with pytest.raises(psycopg.errors.QueryCanceled):
        overdue_again(mq)
    assert mq.rows("select name from pg_prepared_statements where name = 'harmless'") == []


def test_it_is_called_by_a_role_without_rights(mq: Session) -> None:
    owner = "select pg_get_userbyid(proowner) from pg_proc where proname = '_call_checker'"
    assert mq.scalar(owner) == "mqpg_asker"
    attributes = (
        "select rolcanlogin or rolsuper or rolcreaterole or rolbypassrls from pg_roles where rolname = 'mqpg_asker'"
    )
    assert mq.scalar(attributes) is False
    assert mq.scalar("select has_schema_privilege('mqpg_asker', 'mqpg', 'usage')") is False
