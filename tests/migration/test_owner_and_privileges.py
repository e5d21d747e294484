"""What the catalog says of every object: owner, privileges, SECURITY DEFINER and search_path of every object."""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

Connection = psycopg.Connection[Any]

SQL = Path(__file__).resolve().parents[2] / "sql"
PINNED = "search_path=pg_catalog, pg_temp"
# They add what their caller may see of other sessions.
_AS_CALLER = re.compile(r"mqpg\.(why|_session_facts)\(.*\)")
_CASTS = re.compile(r"mqpg\.((send|prepare)(_batch)?|commit)\(text,jsonb?(\[\])?(,.*)?\)")

_FUNCTIONS = """
    select p.oid::regprocedure::text as signature, p.proname as name, p.prosecdef as definer,
        coalesce(p.proconfig, '{}') as config, l.lanname as language, p.prorettype = 'trigger'::regtype as is_trigger
    from pg_proc p join pg_language l on l.oid = p.prolang where p.pronamespace = 'mqpg'::regnamespace
"""
# Every object of the three schemas with its owner, and what PUBLIC or another role than the owner may do with it.
# It belongs to a role without rights and calls functions that are somebody else's.
LENDS_NOTHING = "_call_checker"
_OBJECTS = """
    with object (name, owner, acl) as (
        select 'schema ' || nspname, nspowner, coalesce(nspacl, acldefault('n', nspowner)) from pg_namespace
        where nspname in ('mqpg', 'mqpg_audit', 'pgmq')
        union all
        select oid::regprocedure::text, proowner, coalesce(proacl, acldefault('f', proowner)) from pg_proc
        where pronamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace, 'pgmq'::regnamespace)
        union all
        select oid::regclass::text, relowner,
            coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner)) from pg_class
        where relnamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace, 'pgmq'::regnamespace) and relkind not in ('i', 'I', 'c')
        union all
        select oid::regtype::text, typowner, '{}' from pg_type
        where typnamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace, 'pgmq'::regnamespace) and typacl is not null
        union all
        select a.attrelid::regclass || '.' || a.attname, c.relowner, a.attacl
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace, 'pgmq'::regnamespace) and a.attacl is not null
    )
    select o.name, o.owner::regrole::text, array(
        select distinct case a.grantee when 0 then 'PUBLIC' else a.grantee::regrole::text end
        from aclexplode(o.acl) a where a.grantee <> o.owner) from object o
"""
# What a default, a CHECK, a generated column, an index or a trigger's condition calls runs with the path of the writer.
_CALLED_BY_TABLES = """
    select distinct d.classid::regclass::text, p.oid::regprocedure::text
    from pg_depend d join pg_proc p on p.oid = d.refobjid
    where d.refclassid = 'pg_proc'::regclass and p.pronamespace <> 'pg_catalog'::regnamespace
        and d.classid in ('pg_attrdef'::regclass, 'pg_constraint'::regclass, 'pg_class'::regclass)
"""
_CALLED_BY_VIEWS = """
    select distinct r.ev_class::regclass::text, p.proname
    from pg_depend d join pg_proc p on p.oid = d.refobjid join pg_rewrite r on r.oid = d.objid
    where d.refclassid = 'pg_proc'::regclass and d.classid = 'pg_rewrite'::regclass
        and p.pronamespace = 'mqpg'::regnamespace
"""


@pytest.fixture
def entries(db: Connection) -> dict[str, str]:
    """The functions that may be called from outside, and by whom."""
    return dict(db.execute("select name, used_by from mqpg._entry_points()").fetchall())


def test_the_entry_points_are_the_public_functions_and_a_few_more(db: Connection, entries: dict[str, str]) -> None:
    names = {row[1] for row in db.execute(_FUNCTIONS)}
    assert {name for name in names if not name.startswith("_")} == {name for name in entries if name[0] != "_"}
    assert set(entries) <= names
    words = {word for used_by in entries.values() for word in used_by.split(" ")}
    assert words <= {"send", "produce", "receive", "operator", "worker", "auditor", "client", "owner"}


def test_entry_points_run_as_the_owner_with_a_fixed_path(db: Connection, entries: dict[str, str]) -> None:
    wrong = []
    for signature, name, definer, config, language, is_trigger in db.execute(_FUNCTIONS):
        pinned = PINNED in config
        if name == "work":
            right = not definer and not config  # it commits; the test of search paths calls it
        elif _CASTS.fullmatch(signature):
            # It calls the overload for text, as the caller; otherwise each call would become the owner's twice.
            right = not definer and not config
        elif _AS_CALLER.fullmatch(signature):
            right = not definer and pinned
        elif name in entries or name == LENDS_NOTHING:
            # A SQL function that is SECURITY DEFINER is planned again in every call.
            right = definer and pinned and language == "plpgsql"
        elif is_trigger:
            right = not definer and pinned
        else:
            # Inner ones run inside an entry point. A setting would keep the planner from inlining a SQL function.
            right = not definer and not pinned and not (language == "sql" and config)
        if not right:
            wrong.append(signature)
    assert wrong == []


def test_every_object_belongs_to_one_owner_who_cannot_log_in(db: Connection) -> None:
    others = {(name, owner) for name, owner, _ in db.execute(_OBJECTS) if owner != "mqpg_owner"}
    assert others == {("mqpg._call_checker(regprocedure,text,text,jsonb,json)", "mqpg_asker")}
    role = db.execute(
        "select rolsuper, rolcanlogin, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls"
        " from pg_roles where rolname = 'mqpg_owner'"
    ).fetchone()
    assert role == (False,) * 6


def test_nobody_else_may_do_anything(db: Connection) -> None:
    assert [(name, others) for name, _, others in db.execute(_OBJECTS) if others] == []


def test_what_a_later_migration_makes_is_closed_too(db: Connection) -> None:
    with db.transaction(force_rollback=True):
        db.execute("set local role mqpg_owner")
        db.execute("create function mqpg.later() returns int language sql as 'select 1'")
        db.execute("create table mqpg.later_table (x int generated always as identity)")
        db.execute("create view mqpg_audit.later as select 1 as x")
        assert [(name, others) for name, _, others in db.execute(_OBJECTS) if others] == []


def test_tables_call_only_functions_of_postgresql(db: Connection) -> None:
    assert db.execute(_CALLED_BY_TABLES).fetchall() == []


def test_views_call_only_entry_points(db: Connection, entries: dict[str, str]) -> None:
    """A view runs its functions as the role that reads it."""
    called = db.execute(_CALLED_BY_VIEWS).fetchall()
    assert len(called) > 5
    assert [(view, name) for view, name in called if "auditor" not in entries.get(name, "").split(" ")] == []


def test_views_of_auditors_call_no_function_of_mqpg(db: Connection) -> None:
    """They show rows, as the audit does, and so no bug of a function can hide from them.

    Only PL/pgSQL can evaluate a filter in spite of an error. That function shares no code with receive().
    """
    called = {(view, name) for view, name in db.execute(_CALLED_BY_VIEWS) if view.startswith("mqpg_audit.")}
    assert called == {("mqpg_audit.unmatched", "_path_matches")}


def test_views_of_auditors_need_no_other_view(db: Connection) -> None:
    """An upgrade replaces each of them alone."""
    needed = db.execute(
        "select distinct r.ev_class::regclass::text, c.oid::regclass::text from pg_depend d "
        "join pg_rewrite r on r.oid = d.objid join pg_class c on c.oid = d.refobjid and c.relkind = 'v' "
        "where d.classid = 'pg_rewrite'::regclass and r.ev_class <> c.oid "
        "and c.relnamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace)"
    ).fetchall()
    assert needed == []
