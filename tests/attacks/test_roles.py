"""Attacks with roles, sessions and names: whoever calls is the session's role, and only its rights count."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

import mqpg
from mqpg.errors import NotGranted
from tests.support.company import Company, Connection, refusal, value

SEND = "select mqpg.send('theirs', '1'::text)"
RECEIVE = "select * from mqpg.receive('theirs', 'theirs')"


@pytest.fixture(scope="module")
def attacker(company: Company) -> Connection:
    """An application whose calls are all refused."""
    return company.session(company.application())


@pytest.fixture
def app(company: Company) -> Connection:
    return company.session(company.application())


def test_an_application_does_its_own_work(app: Connection, company: Company) -> None:
    value(app, "select mqpg.send('mine', '1'::text)")
    handle = value(app, "select mqpg.prepare('mine', '2'::text, 'mine')")
    assert value(app, "select mqpg.commit(%s)", handle) == "committed"
    company.boss.execute("select mqpg.append()")
    receipt = value(app, "select receipt from mqpg.receive('mine', 'mine')")
    app.execute("select mqpg.ack(%s)", (receipt,))
    assert value(app, "select count(*) from mqpg.find_by_key('mine', 'k')") == 0


@pytest.mark.parametrize(
    "attack",
    [
        "select payloads from mqpg.commit_log",
        "select nonce from mqpg.commit_log",
        "insert into mqpg.cursor select * from mqpg.cursor",
        "insert into mqpg.tick select * from mqpg.tick",
        "insert into mqpg.role_right (role, privilege, granted_by) values (session_user::regrole, 'operator', 'x')",
        "update mqpg.topic set senders = readers",
        "delete from mqpg.op_log",
        "select nextval('mqpg.batch_id')",
        "select message from pgmq.q_mqpg_oplog",
        "select * from mqpg.half_pending",
        "select * from mqpg.rights",
        "select * from mqpg_audit.record_batch",
        "select * from mqpg_audit.message",
        "select mqpg._half_by_id(1)",
        "select mqpg._decide('x', 'c', 'admin')",
        "select mqpg._grant(session_user::text, 'operator')",
        "select mqpg._note_holders()",
    ],
)
def test_no_table_view_or_inner_function_is_reachable(attacker: Connection, attack: str) -> None:
    assert refusal(attacker, attack).sqlstate == "42501"


@pytest.mark.parametrize(
    "attack",
    [
        RECEIVE,
        SEND,
        "select mqpg.receive('other', 'mine')",
        "select mqpg.fetch('theirs', 0, 0)",
        "select mqpg.dead_letters('theirs', 'theirs')",
        "select mqpg.find_by_key('theirs', 'k')",
        "select mqpg.trace({message_id})",
        "select mqpg.ready('theirs')",
        "select mqpg.unpin('theirs', 'theirs')",
        "select mqpg.ack('{receipt}')",
        "select mqpg.nack('{receipt}', array[{message_id}]::bigint[])",
        "select mqpg.extend('{receipt}', '1 s')",
        "select mqpg.release('{receipt}')",
        "select mqpg.commit('{handle}')",
        "select mqpg.commit('{handle}', '5'::text)",
        "select mqpg.rollback('{handle}')",
        "select mqpg.commit_batch(array['{handle}'])",
        "select mqpg.rollback_batch(array['{handle}'])",
        "select mqpg.check_wait('{handle}')",
        "select mqpg.local_begin('{handle}')",
        "select mqpg.half_states(array['{handle}'])",
        "select mqpg.due_checks('theirs')",
        "select mqpg.prepare('theirs', '1'::text, 'mine')",
        "select mqpg.prepare('mine', '1'::text, 'theirs')",
    ],
)
def test_a_known_name_handle_or_receipt_of_others_is_no_right(
    attacker: Connection, company: Company, attack: str
) -> None:
    query = attack.format(message_id=company.message_id, handle=company.handle, receipt=company.receipt)
    error = refusal(attacker, query)
    assert error.sqlstate == "MQ025"
    text = f"{error} {error.diag.message_detail} {error.diag.message_hint}"
    assert "s3cret" not in text
    assert "secret" not in text


def test_a_commit_with_another_body_needs_the_right_to_send(company: Company) -> None:
    role = company.role()
    company.boss.execute("select mqpg.grant_produce('theirs', %s)", (role,))
    session = company.session(role)
    handle = value(company.boss, "select mqpg.prepare('theirs', '1'::text, 'theirs')")
    assert refusal(session, "select mqpg.commit(%s, '2'::text)", handle).sqlstate == "MQ025"
    assert refusal(session, "select mqpg.commit_batch(array[%s], array['2'])", handle).sqlstate == "MQ025"
    assert value(session, "select mqpg.rollback(%s)", handle) == "rolled_back"


def test_a_run_of_half_messages_of_others_is_no_right(app: Connection, company: Company) -> None:
    """Its handles are compared all at once, so its rights are looked at there too."""
    query = "select array_agg(h) from mqpg.prepare_batch('theirs', array['1', '2', '3'], 'theirs') as h"
    handles = value(company.boss, query)
    for attack in ("commit_batch", "rollback_batch"):
        assert refusal(app, f"select mqpg.{attack}(%s)", handles).sqlstate == "MQ025"
    company.boss.execute("select mqpg.commit_batch(%s)", (handles,))
    assert refusal(app, "select mqpg.commit_batch(%s)", handles).sqlstate == "MQ025"
    own = value(app, query.replace("theirs", "mine"))
    assert value(app, "select array_agg(outcome::text) from mqpg.rollback_batch(%s)", own) == ["rolled_back"] * 3


@pytest.mark.parametrize(
    "how", ["set role {}", "select set_config('role', '{}', false)", "set session authorization {}"]
)
def test_nobody_becomes_another_role(app: Connection, company: Company, how: str) -> None:
    for role in (
        company.victim,
        "postgres",
        value(company.boss, "select nspowner::regrole::text from pg_namespace where nspname = 'mqpg'"),
    ):
        assert refusal(app, how.format(role)).sqlstate in ("42501", "22023")
    assert refusal(app, SEND).sqlstate == "MQ025"


def test_a_setting_with_a_name_like_ours_is_no_right(app: Connection) -> None:
    for name in ("mqpg.role", "mqpg.caller", "request.jwt.claims", "application_name"):
        app.execute("select set_config(%s, 'postgres', false)", (name,))
    assert refusal(app, SEND).sqlstate == "MQ025"


def test_set_role_counts_and_reset_takes_it_back(company: Company) -> None:
    """As through a pooler that logs in as one role and takes the role of each request."""
    pooler = company.role("noinherit")
    mine, theirs = company.application(), company.victim
    company.boss.execute(f"grant {mine}, {theirs} to {pooler}")
    session = company.session(pooler)
    session.execute(f"set role {mine}")
    assert refusal(session, SEND).sqlstate == "MQ025"
    value(session, "select mqpg.send('mine', '1'::text)")
    session.execute(f"set role {theirs}")
    value(session, SEND)
    assert refusal(session, "select mqpg.send('mine', '1'::text)").sqlstate == "MQ025"
    with session.transaction():
        session.execute(f"set local role {mine}")
        value(session, "select mqpg.send('mine', '1'::text)")
    session.execute("reset role")
    assert refusal(session, SEND).sqlstate == "42501"


def test_membership_counts_unless_it_is_not_inherited(company: Company) -> None:
    member, stranger = company.role("inherit"), company.role("noinherit")
    company.boss.execute(f"grant {company.victim} to {member}; grant {company.victim} to {stranger}")
    value(company.session(member), SEND)
    company.boss.execute(
        f"grant usage on schema mqpg to {stranger}; grant execute on all functions in schema mqpg to {stranger}"
    )
    assert refusal(company.session(stranger), SEND).sqlstate == "MQ025"


def test_many_roles_on_one_topic_all_count(company: Company) -> None:
    roles = [company.role() for _ in range(5)]
    for role in roles:
        company.boss.execute("select mqpg.grant_send('theirs', %s)", (role,))
    for role in roles:
        value(company.session(role), SEND)
    company.boss.execute("select mqpg.revoke_send('theirs', %s)", (roles[3],))
    assert refusal(company.session(roles[3]), SEND).sqlstate == "42501"
    value(company.session(roles[4]), SEND)


@pytest.mark.parametrize("name", ['Quo"ted', "a b; drop schema mqpg", "ALL CAPS", "public.x", "*", "ünï"])
def test_names_of_roles_are_data(company: Company, name: str) -> None:
    role = company.role(name=f"{name}{uuid.uuid4().hex[:4]}")
    company.boss.execute("select mqpg.grant_send('mine', %s)", (role,))
    session = company.session(role)
    value(session, "select mqpg.send('mine', '1'::text)")
    assert role in str(refusal(session, SEND)).replace('""', '"')
    assert value(company.boss, "select mqpg.revoke_send('mine', %s)", role)
    assert refusal(session, "select mqpg.send('mine', '1'::text)").sqlstate == "42501"


def test_public_is_no_role(company: Company) -> None:
    assert refusal(company.boss, "select mqpg.grant_send('mine', 'public')").sqlstate == "MQ001"


def test_temporary_tables_and_overloads_of_the_caller_are_not_used(company: Company, app: Connection) -> None:
    company.boss.execute("grant create on schema public to public")
    app.execute("create temp table role_right as select 'send' as privilege; create temp table topic (name text)")
    app.execute("create function public.pg_has_role(name, oid, text) returns boolean language sql as 'select true'")
    app.execute("create function public.pg_has_role(name, name, text) returns boolean language sql as 'select true'")
    app.execute("create function pg_temp.pg_get_userbyid(oid) returns name language sql as 'select session_user'")
    app.execute("set search_path = pg_temp, public, mqpg, pg_catalog")
    assert refusal(app, SEND).sqlstate == "MQ025"
    value(app, "select mqpg.send('mine', '1'::text)")
    app.execute("drop function public.pg_has_role(name, oid, text); drop function public.pg_has_role(name, name, text)")
    company.boss.execute("revoke create on schema public from public")


def test_default_privileges_of_others_open_nothing(company: Company) -> None:
    attacker = company.session(company.role())
    attacker.execute("alter default privileges grant all on tables to public")
    attacker.execute("alter default privileges grant execute on functions to public")
    assert refusal(attacker, SEND).sqlstate == "42501"
    assert refusal(attacker, "select * from mqpg.topic").sqlstate == "42501"


def test_a_function_of_an_application_does_not_lend_its_rights(company: Company) -> None:
    """A SECURITY DEFINER function runs with the PostgreSQL privileges of its owner. The caller stays the session's role."""
    schema = f"s_{uuid.uuid4().hex[:8]}"
    company.boss.execute(f"create schema {schema} authorization {company.victim}")
    company.boss.execute(f"grant usage on schema {schema} to public")
    victim = company.session(company.victim)
    victim.execute(
        f"create function {schema}.lend() returns bigint language sql security definer as "
        f"$$select mqpg.send('theirs', '1'::text)$$"
    )
    stranger = company.session(company.application())
    assert refusal(stranger, f"select {schema}.lend()").sqlstate == "MQ025"
    value(victim, f"select {schema}.lend()")


def test_one_transaction_with_business_tables_of_another_owner(company: Company) -> None:
    schema = f"s_{uuid.uuid4().hex[:8]}"
    company.boss.execute(f"create schema {schema} authorization {company.victim}")
    victim = company.session(company.victim)
    victim.execute(f"create table {schema}.orders (id int primary key)")
    role = company.application()
    victim.execute(f"grant usage on schema {schema} to {role}; grant insert, select on {schema}.orders to {role}")
    app = company.session(role)
    with app.transaction():
        app.execute(f"insert into {schema}.orders values (1)")
        sent = value(app, "select mqpg.send('mine', '1'::text)")
    with pytest.raises(psycopg.errors.UniqueViolation), app.transaction():
        app.execute(
            f"with sent as (select mqpg.send('mine', '2'::text)) insert into {schema}.orders select 1 from sent"
        )
    assert value(app, f"select count(*) from {schema}.orders") == 1
    company.boss.execute("select mqpg.append()")
    assert value(app, "select count(*) from mqpg.trace(%s)", sent) >= 2


class TestGranting:
    """Who may give rights, and what becomes of them."""

    @pytest.fixture
    def operator(self, company: Company) -> Connection:
        role = company.role()
        company.boss.execute("select mqpg.grant_operator(%s)", (role,))
        return company.session(role)

    def test_operators_give_the_rights_of_applications_only(self, company: Company, operator: Connection) -> None:
        role = company.role()
        operator.execute("select mqpg.grant_send('mine', %s)", (role,))
        value(company.session(role), "select mqpg.send('mine', '1'::text)")
        company.boss.execute(f"grant execute on all functions in schema mqpg to {operator.info.user}")
        for right in ("operator", "auditor", "worker"):
            for verb in ("grant", "revoke"):
                assert refusal(operator, f"select mqpg.{verb}_{right}(%s)", role).sqlstate == "MQ025"

    def test_operators_read_no_bodies(self, company: Company, operator: Connection) -> None:
        company.boss.execute(f"grant execute on all functions in schema mqpg to {operator.info.user}")
        for reading in (RECEIVE, "select mqpg.find_by_key('theirs', 'k')", "select mqpg.fetch('theirs', 0, 0)"):
            assert refusal(operator, reading).sqlstate == "MQ025"
        assert value(operator, "select count(*) from mqpg.topics") >= 2
        assert value(operator, "select count(*) from mqpg.subscription_lag") > 0
        assert value(operator, "select count(*) from mqpg.half_pending") >= 0

    def test_an_application_gives_nothing(self, company: Company, app: Connection) -> None:
        company.boss.execute(f"grant execute on all functions in schema mqpg to {app.info.user}")
        for grant in ("send('mine', %s)", "produce('mine', %s)", "receive('mine', 'mine', %s)", "operator(%s)"):
            assert refusal(app, f"select mqpg.grant_{grant}", app.info.user).sqlstate == "MQ025"

    def test_a_dropped_role_leaves_nothing(self, company: Company) -> None:
        name = f"again_{uuid.uuid4().hex[:8]}"
        company.role(name=name)
        company.boss.execute("select mqpg.grant_send('theirs', %s)", (name,))
        company.boss.execute(f"drop owned by {name}; drop role {name}")
        assert value(company.boss, "select count(*) from mqpg.rights where role = %s", name) == 0
        company.role(name=name)
        company.boss.execute(
            f"grant usage on schema mqpg to {name}; grant execute on all functions in schema mqpg to {name}"
        )
        assert refusal(company.session(name), SEND).sqlstate == "MQ025"
        company.boss.execute("select mqpg._forget_workers()")
        assert value(company.boss, "select count(*) from mqpg.role_right r where r.role::text ~ '^[0-9]+$'") == 0
        assert (
            value(company.boss, "select count(*) from mqpg.topic t, unnest(t.senders) g where g.name = %s", name) == 0
        )

    @pytest.mark.parametrize(
        "holding",
        ["select mqpg.grant_send('mine', current_user)", "select mqpg.alter_topic('theirs', retention => '2 d')"],
    )
    def test_the_keeper_waits_for_no_open_transaction_to_forget_a_role(self, company: Company, holding: str) -> None:
        """A grant that is left open locks the list of rights, and a change of a topic its row."""
        name = company.role()
        company.boss.execute("select mqpg.grant_send('theirs', %s)", (name,))
        company.boss.execute(f"drop owned by {name}; drop role {name}")
        left = "select count(*) from mqpg.topic t, unnest(t.senders) g where g.name = %s"
        company.boss.execute("update mqpg.settings set value = '10 ms' where name = 'lock_timeout'")
        try:
            with psycopg.connect(company.dsn) as other, company.boss.transaction():
                company.boss.execute("set local lock_timeout = '3 s'")
                other.execute(holding.encode())
                company.boss.execute("select mqpg._forget_workers()")
                assert value(company.boss, left, name) == 1
                other.rollback()
            company.boss.execute("select mqpg._forget_workers()")
            assert value(company.boss, left, name) == 0
        finally:
            company.boss.execute("update mqpg.settings set value = '5 s' where name = 'lock_timeout'")

    def test_a_consumer_takes_no_name_of_a_worker(self, company: Company, app: Connection) -> None:
        report = "select mqpg._heartbeat(%s, 'consumer', 'host', 1, 'active', %s)"
        detail = '{"consumer_group": "mine", "topic": "mine"}'
        for taken in ("compensator-0123456789ab", "appender-1", "", "Consumer-1", None):
            assert refusal(app, report, taken, detail).sqlstate == "MQ025"
        value(app, report, f"consumer-{uuid.uuid4().hex[:12]}", detail)

    def test_a_right_follows_a_renamed_role(self, company: Company) -> None:
        old, new = company.role(), f"renamed_{uuid.uuid4().hex[:8]}"
        company.boss.execute("select mqpg.grant_send('mine', %s)", (old,))
        company.boss.execute(f"alter role {old} rename to {new}")
        company.boss.execute(f"alter role {new} password 'x'")
        company.roles.append(new)
        company.role(name=old)
        company.boss.execute(
            f"grant usage on schema mqpg to {old}; grant execute on all functions in schema mqpg to {old}"
        )
        assert refusal(company.session(old), "select mqpg.send('mine', '1'::text)").sqlstate == "MQ025"
        value(company.session(new), "select mqpg.send('mine', '1'::text)")

    @pytest.mark.parametrize("star", [False, True])
    def test_a_name_used_again_inherits_only_what_was_granted_for_all(self, company: Company, star: bool) -> None:
        name, role = f"t{uuid.uuid4().hex[:8]}", company.role()
        boss = company.boss
        for _ in range(2):
            boss.execute("select mqpg.create_topic(%s), mqpg.create_producer_group(%s)", (name, name))
            boss.execute("select mqpg.subscribe(%s, %s)", (name, name))
            if not value(boss, "select count(*) from mqpg.rights where role = %s", role) and _ == 0:
                what = "*" if star else name
                boss.execute("select mqpg.grant_send(%s, %s)", (what, role))
                boss.execute("select mqpg.grant_produce(%s, %s)", (what, role))
                boss.execute("select mqpg.grant_receive(%s, %s, %s)", (what, what, role))
                boss.execute(f"grant execute on all functions in schema mqpg to {role}")
            if _ == 0:
                boss.execute("select mqpg.drop_topic(%s, true), mqpg.drop_producer_group(%s)", (name, name))
        boss.execute(f"grant usage on schema mqpg to {role}")
        session = company.session(role)
        for query in (
            f"select mqpg.send('{name}', '1'::text)",
            f"select mqpg.receive('{name}', '{name}')",
            f"select mqpg.prepare('{name}', '1'::text, '{name}')",
        ):
            if star:
                session.execute(query.encode())
            else:
                assert refusal(session, query).sqlstate == "MQ025"

    def test_a_group_that_subscribes_again_inherits_nothing(self, company: Company) -> None:
        role, boss = company.role(), company.boss
        boss.execute("select mqpg.subscribe('again', 'mine')")
        boss.execute("select mqpg.grant_receive('again', 'mine', %s)", (role,))
        session = company.session(role)
        session.execute("select mqpg.receive('again', 'mine')")
        boss.execute("select mqpg.unsubscribe('again', 'mine')")
        boss.execute("select mqpg.subscribe('again', 'mine')")
        assert refusal(session, "select mqpg.receive('again', 'mine')").sqlstate == "MQ025"
        boss.execute("select mqpg.unsubscribe('again', 'mine')")

    def test_a_revoke_ends_a_right_at_once(self, company: Company) -> None:
        role = company.role()
        for topic in ("mine", "*"):
            company.boss.execute("select mqpg.grant_send(%s, %s)", (topic, role))
        session = company.session(role)
        value(session, SEND)
        assert value(company.boss, "select mqpg.revoke_send('*', %s)", role)
        assert not value(company.boss, "select mqpg.revoke_send('*', %s)", role)
        assert refusal(session, SEND).sqlstate == "MQ025"
        value(session, "select mqpg.send('mine', '1'::text)")

    def test_a_grant_needs_a_fresh_snapshot(self, company: Company) -> None:
        with company.boss.transaction():
            company.boss.execute("set transaction isolation level repeatable read")
            with pytest.raises(psycopg.Error, match="READ COMMITTED") as caught, company.boss.transaction():
                company.boss.execute("select mqpg.grant_send('mine', %s)", (company.victim,))
        assert caught.value.sqlstate == "MQ015"


class TestBroadcast:
    """A member of a broadcast group has a row of its own, which notes the same roles."""

    def test_members_that_join_before_and_after_a_grant(self, company: Company) -> None:
        boss, role = company.boss, company.role()
        boss.execute("select mqpg.subscribe('all', 'mine', mode => 'broadcast', start => 'latest')")
        boss.execute("select mqpg.receive('all', 'mine', consumer => 'one')")
        boss.execute("select mqpg.grant_receive('all', 'mine', %s)", (role,))
        boss.execute("select mqpg.send('mine', '1'::text)")
        boss.execute("select mqpg.append()")
        session = company.session(role)
        receipt = value(session, "select receipt from mqpg.receive('all', 'mine', consumer => 'one')")
        session.execute("select mqpg.ack(%s)", (receipt,))
        receipts = [value(session, "select receipt from mqpg.receive('all', 'mine', consumer => 'two')")]
        boss.execute("select mqpg.send('mine', '2'::text)")
        boss.execute("select mqpg.append()")
        receipts.append(value(session, "select receipt from mqpg.receive('all', 'mine', consumer => 'one')"))
        boss.execute("select mqpg.revoke_receive('all', 'mine', %s)", (role,))
        boss.execute("select mqpg.grant_receive('mine', 'mine', %s)", (role,))
        for receipt in receipts:
            assert refusal(session, "select mqpg.ack(%s)", receipt).sqlstate == "MQ025"


@pytest.fixture
def client(company: Company) -> Iterator[mqpg.Client]:
    role = company.application()
    dsn = psycopg.conninfo.make_conninfo(company.dsn, user=role, password="x")
    with mqpg.connect(dsn) as mq:
        yield mq


def test_the_library_raises_one_exception(client: mqpg.Client) -> None:
    client.send("mine", 1)
    for attack in (
        lambda: client.send("theirs", 1),
        lambda: client.receive("theirs", "theirs"),
        lambda: client.create_topic("new"),
        lambda: client.append(),
        lambda: client.rights(),
        lambda: client.grant_send("theirs", "postgres"),
        lambda: client.queries.topic_kind("theirs"),
    ):
        with pytest.raises(NotGranted):
            attack()


def test_a_role_without_any_right_is_told_so(company: Company) -> None:
    dsn = psycopg.conninfo.make_conninfo(company.dsn, user=company.role(), password="x")
    with pytest.raises(NotGranted, match="permission denied for schema mqpg"):
        mqpg.connect(dsn)


def test_identifiers_are_quoted(company: Company) -> None:
    role = company.role(name=f'{uuid.uuid4().hex[:6]}"; --')
    company.boss.execute("select mqpg.grant_operator(%s)", (role,))
    assert value(company.boss, "select count(*) from mqpg.rights where role = %s", role) == 1
    company.boss.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role)))
