"""Every function that may be called from outside refuses a role without its right.

The functions come from the catalogue, so a new one without a check fails here. The roles may
execute all of them, as after a careless GRANT, so that it is mqpg that refuses and not PostgreSQL.
"""

import re

import psycopg
import pytest

from tests.support.company import Company, Connection, refusal, value

# They tell the library nothing about topics or groups, or only what the caller may receive.
# `_path_matches` reads nothing but its arguments. `_lost_halves` says of handles, which are secret,
# whether they are lost. `_session_facts` says what PostgreSQL itself shows to its caller.
OPEN = {
    "_broker", "schema_version", "_newest", "_touched", "_ledgers_served", "_path_matches", "_lost_halves",
    "_session_facts",
}  # fmt: skip
# It answers with the caller's own half messages only.
OWN = {"reconcile"}
# An argument of the call by its name, or else by its type.
BY_NAME = {
    "topic": "'theirs'",
    "consumer_group": "'theirs'",
    "producer_group": "'theirs'",
    "name": "'theirs'",
    "target": "'earliest'",
    "key": "'k'",
    "role": "'postgres'",
    "only_group": "'theirs'",
    "only_topic": "'theirs'",
    "reason": "'because'",
    "consumer": "'c'",
    "kind": "'normal'",
    "checker": "'due_checks'",
    "detail": """'{"consumer_group": "theirs", "topic": "theirs"}'""",
}
BY_TYPE = {
    "text": "'1'",
    "json": "'1'::json",
    "jsonb": "'1'::jsonb",
    "integer": "1",
    "bigint": "1",
    "numeric": "1",
    "interval": "'1 s'",
    "jsonpath": "null",
    "timestamp with time zone": "null",
    "boolean": "true",
    "text[]": "array['1']",
    "json[]": "array['1'::json]",
    "jsonb[]": "array['1'::jsonb]",
    "bigint[]": "array[1]::bigint[]",
    "integer[]": "array[1]",
    "mqpg.verdict": "'commit'",
    "double precision": "1",
}


def calls(boss: Connection) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every overload of every entry point: its name, and the names and types of its arguments."""
    rows = boss.execute(
        "select p.proname, coalesce(p.proargnames[1:p.pronargs], '{}'), "
        "array(select format_type(t, null) from unnest(p.proargtypes) with ordinality u(t, o) order by o) "
        "from pg_proc p where p.pronamespace = 'mqpg'::regnamespace "
        "and (p.proname !~ '^_' or p.proname in (select e.name from mqpg._entry_points() e)) and p.prokind = 'f' "
        "and p.prorettype <> 'trigger'::regtype order by 1, 3"
    ).fetchall()
    return [(name, list(zip(arguments, types, strict=True))) for name, arguments, types in rows]


def call(name: str, arguments: list[tuple[str, str]], known: dict[str, str]) -> str:
    given = {argument: known.get(argument) or BY_NAME.get(argument) or BY_TYPE[kind] for argument, kind in arguments}
    if "through" in given:
        given["offsets"] = "null"
    typed = ", ".join(f"{argument} => {given[argument]}::{kind}" for argument, kind in arguments)
    return f"select mqpg.{name}({typed})"


@pytest.fixture(scope="module")
def careless(company: Company) -> Connection:
    """A role that may execute everything and has no right."""
    role = company.role()
    company.boss.execute(
        f"grant usage on schema mqpg to {role}; grant execute on all functions in schema mqpg to {role}"
    )
    return company.session(role)


def known(company: Company) -> dict[str, str]:
    return {
        "handle": f"'{company.handle}'",
        "handles": f"array['{company.handle}']",
        "receipt": f"'{company.receipt}'",
        "message_id": str(company.message_id),
        "message_ids": f"array[{company.message_id}]::bigint[]",
    }


def unknown(company: Company) -> dict[str, str]:
    stranger = "0123456789ab.1.1024." + "0" * 32
    return {
        "topic": "'nowhere'",
        "consumer_group": "'nobody'",
        "producer_group": "'nobody'",
        "only_group": "'nobody'",
        "only_topic": "'nowhere'",
        "handle": f"'{stranger}'",
        "receipt": "'" + re.sub(r"^\d+", "999", company.receipt) + "'",
        "handles": f"array['{stranger}']",
        "message_id": "999999999999",
        "detail": """'{"consumer_group": "nobody", "topic": "nowhere"}'""",
    }


def answered(session: Connection, queries: list[str]) -> dict[str, str]:
    """The calls that are not refused, and what came of them."""
    found = {}
    for query in queries:
        try:
            session.execute(query.encode()).fetchall()
            found[query] = "an answer"
        except psycopg.Error as error:
            if error.sqlstate != "MQ025":
                found[query] = f"{error.sqlstate} {error}"
    return found


def test_no_function_answers_a_role_without_rights(company: Company, careless: Connection) -> None:
    things = (known(company), unknown(company))
    asked = [call(*one, each) for one in calls(company.boss) if one[0] not in OPEN for each in things]
    assert answered(careless, asked) == {}
    assert len(asked) > 150


def test_the_refusal_does_not_say_what_exists(company: Company, careless: Connection) -> None:
    """For each function the error about something that exists differs only in the names that were given."""
    names = {"nowhere": "theirs", "nobody": "theirs"}
    for name, arguments in calls(company.boss):
        if name in OPEN:
            continue
        there = refusal(careless, call(name, arguments, known(company)))
        nowhere = refusal(careless, call(name, arguments, unknown(company)))
        texts = [
            (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
            for error in (there, nowhere)
        ]
        for old, new in names.items():
            texts[1] = tuple(text and text.replace(old, new) for text in texts[1])  # type: ignore[assignment]
        assert texts[0] == texts[1], name


def test_no_right_of_an_application_reaches_the_things_of_another(company: Company) -> None:
    """An application with rights of its own, and EXECUTE on everything, is refused on others' things."""
    role = company.application()
    company.boss.execute(f"grant execute on all functions in schema mqpg to {role}")
    asked = [call(*one, known(company)) for one in calls(company.boss) if one[0] not in OPEN | OWN]
    assert answered(company.session(role), asked) == {}


def test_grants_give_what_they_name_and_no_more(company: Company) -> None:
    """PostgreSQL lets each role execute exactly the entry points of its rights, and read no table."""
    grants = {
        "send": "mqpg.grant_send('*', %s)",
        "produce": "mqpg.grant_produce('*', %s)",
        "receive": "mqpg.grant_receive('*', '*', %s)",
        "operator": "mqpg.grant_operator(%s)",
        "auditor": "mqpg.grant_auditor(%s)",
        "worker": "mqpg.grant_worker(%s)",
    }
    for right, grant in grants.items():
        role = company.role()
        company.boss.execute(f"select {grant}".encode(), (role,))
        executable = value(
            company.boss,
            "select array_agg(distinct p.proname::text order by p.proname::text) from pg_proc p "
            "where p.pronamespace in ('mqpg'::regnamespace, 'pgmq'::regnamespace) "
            "and has_function_privilege(%s, p.oid, 'execute')",
            role,
        )
        wanted = value(
            company.boss,
            "select array_agg(distinct e.name order by e.name) from mqpg._entry_points() e "
            "where string_to_array(e.used_by, ' ') && array[%s, 'client']",
            right,
        )
        assert executable == wanted
        tables = value(
            company.boss,
            "select array_agg(c.oid::regclass::text) from pg_class c "
            "where c.relnamespace in ('mqpg'::regnamespace, 'pgmq'::regnamespace) and c.relkind in ('r', 'p') "
            "and has_table_privilege(%s, c.oid, 'select,insert,update,delete,truncate,references,trigger')",
            role,
        )
        assert tables is None
        views = value(
            company.boss,
            "select count(*) filter (where has_table_privilege(%s, c.oid, 'select')) * 100 / count(*) from pg_class c "
            "where c.relnamespace = 'mqpg_audit'::regnamespace and c.relkind = 'v'",
            role,
        )
        assert views == (100 if right == "auditor" else 0), right
        company.boss.execute(f"select {grant.replace('grant_', 'revoke_')}".encode(), (role,))
        left = value(
            company.boss,
            "select array_agg(n.nspname) from pg_namespace n where n.nspname in ('mqpg', 'mqpg_audit') "
            "and (has_schema_privilege(%s, n.oid, 'usage') or exists (select from pg_class c "
            "where c.relnamespace = n.oid and c.relkind = 'v' and has_table_privilege(%s, c.oid, 'select')))",
            role,
            role,
        )
        assert left is None, f"{right}: something is left after revoke"


def test_pairs_of_rights_share_what_both_need(company: Company) -> None:
    role = company.role()
    company.boss.execute("select mqpg.grant_operator(%(r)s), mqpg.grant_worker(%(r)s)", {"r": role})
    company.boss.execute("select mqpg.revoke_worker(%s)", (role,))
    session = company.session(role)
    assert value(session, "select count(*) from mqpg.blocked_segments") == 0
    for worker in ("append()", "_keep(false)"):
        assert refusal(session, f"select mqpg.{worker}").sqlstate == "42501"
