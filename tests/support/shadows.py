"""Functions, aggregates and operators that take the place of PostgreSQL's own where a path lets them."""

import re
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["plant"]

SQL = Path(__file__).resolve().parents[2] / "sql"
RAN = "shadow ran"

# Types whose values mqpg handles. A shadow for one of them matches better than one for any type.
_TYPES = ("bigint", "integer", "smallint", "boolean", "text", "xid8", "timestamptz", "interval", "jsonb", "json")
_ANY = {"anyelement", "anynonarray", "anycompatible", "anycompatiblenonarray", '"any"'}
_ANY_ARRAY = {"anyarray", "anycompatiblearray"}
_OPERATORS = ["=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "&", "||", "->", "->>", "#>>", "~", "!~", "@>"]

_FUNCTIONS = """
    select p.proname, p.prokind, p.proretset, format_type(p.prorettype, null),
        array(select format_type(t, null) from unnest(p.proargtypes) with ordinality as a(t, i) order by i)
    from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace and p.proname = any(%s)
"""
_OPERATORS_OF = """
    select o.oprname, format_type(o.oprleft, null), format_type(o.oprright, null), format_type(o.oprresult, null)
    from pg_operator o
    where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprname = any(%s) and o.oprleft <> 0
"""


def plant(db: psycopg.Connection[Any], schema: str) -> int:
    """Put a shadow of every function and operator that sql/ may use into a schema; each raises `RAN`.

    Those for PostgreSQL's exact types win where the schema stands before pg_catalog. Those that make a polymorphic one
    concrete win wherever the schema is in the path at all. Returns how many there are.
    """
    code = "\n".join(path.read_text("utf-8") for path in (SQL / "functions").rglob("*.sql"))
    used = sorted(set(re.findall(r"\b([a-z_][a-z0-9_]*) *\(", re.sub(r"--[^\n]*", "", code))))
    planted = 0
    for name, kind, is_set, returns, arguments in db.execute(_FUNCTIONS, (used,)).fetchall():
        for of in _TYPES if {returns, *arguments} & (_ANY | _ANY_ARRAY) else ("",):
            planted += _create(
                db, schema, name, kind, [_made(a, of) for a in arguments], _made(returns, of), is_set=is_set
            )
    for number, (name, left, right, result) in enumerate(db.execute(_OPERATORS_OF, (_OPERATORS,)).fetchall()):
        if _create(db, schema, f"operator_{number}", "f", [left, right], result, is_set=False):
            planted += _try(
                db,
                f"create operator {schema}.{name}"
                f" (function = {schema}.operator_{number}, leftarg = {left}, rightarg = {right})",
            )
    return planted


def _made(kind: str, of: str) -> str:
    return of if kind in _ANY else f"{of}[]" if kind in _ANY_ARRAY else kind


def _create(
    db: psycopg.Connection[Any], schema: str, name: str, kind: str, arguments: list[str], returns: str, *, is_set: bool
) -> bool:
    types, body = ", ".join(arguments), f"begin raise exception '{RAN}: {name}'; end"
    if kind == "f":
        of = "setof " if is_set else ""
        return _try(
            db, f'create function {schema}."{name}"({types}) returns {of}{returns} language plpgsql as $${body}$$'
        )
    if len(arguments) != 1:
        return False
    step = f'{schema}."{name}_step"'
    return _try(
        db,
        f"create or replace function {step}(bigint, {types}) returns bigint language plpgsql as $${body}$$;"
        f' create aggregate {schema}."{name}"({types}) (sfunc = {step}, stype = bigint, initcond = 0)',
    )


def _try(db: psycopg.Connection[Any], statement: str) -> bool:
    """Some cannot be made: what takes or returns a pseudo-type, or is there already."""
    try:
        with db.transaction():
            db.execute(statement.encode())
    except psycopg.Error:
        return False
    return True
