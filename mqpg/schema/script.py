"""The SQL text that installs or upgrades the schema. psql and `mqpg migrate` run the same one."""

from __future__ import annotations

import re

from mqpg.schema.source import Migration, Source
from mqpg.values.errors import ConfigurationError

__all__ = ["LOCK", "RETIRED", "install", "upgrade"]

# Migrators that run at the same time wait for each other on this transaction-level lock.
LOCK = "select pg_advisory_xact_lock(1836150836, 0)"

RETIRED = "mqpg_retired"
"""The schema where functions that are gone wait until no transaction can still call them."""

_QUOTE = "$mqpg_item$"

# A function that is gone, or has another signature, is not dropped: a call that another session has
# planned already would fail. It moves to another schema, where that call still finds it.
_REPLACE = """\
do $mqpg_code$
declare
    v_kinds text [] := array[
{kinds}];
    v_schemas text [] := array[
{schemas}];
    v_names text [] := array[
{names}];
    v_definitions text [] := array[
{definitions}];
    v_comments text [] := array[
{comments}];
    v_before text [];
    v_gone regprocedure;
    v_view regclass;
    v_new text;
    v_same boolean;
    v_keeps boolean := coalesce(has_schema_privilege(to_regnamespace('mqpg_retired'), 'create'), false);
    v_retire text := case when v_keeps then 'alter function %s set schema mqpg_retired' else 'drop function %s' end;
begin
    perform set_config('search_path', 'pg_catalog, pg_temp', true);
    perform set_config('check_function_bodies', 'off', true);
    v_before := array(
        select p.oid || ' ' || p.xmin from pg_proc p where p.pronamespace = 'mqpg'::regnamespace);

    for i in 1 .. cardinality(v_kinds) loop
        continue when v_kinds[i] <> 'function';
        begin
            execute v_definitions[i];
        exception when invalid_function_definition then
            -- Its result or the names of its arguments have changed.
            for v_gone in
                select p.oid from pg_proc p
                where p.pronamespace = 'mqpg'::regnamespace and p.proname = v_names[i]
            loop
                execute format(v_retire, v_gone);
            end loop;
            execute v_definitions[i];
        end;
    end loop;

    -- Before the views, which must not find two candidates. A drop must wait until no view needs it.
    for v_gone in
        select p.oid from pg_proc p
        where v_keeps and p.pronamespace = 'mqpg'::regnamespace and p.oid || ' ' || p.xmin = any(v_before)
    loop
        execute format(v_retire, v_gone);
    end loop;

    -- Replacing a view waits for its readers, so a view that stays the same is left alone.
    for i in 1 .. cardinality(v_kinds) loop
        continue when v_kinds[i] <> 'view';
        v_same := false;
        v_view := to_regclass(format('%s.%s', v_schemas[i], v_names[i]));
        if v_view is not null then
            v_new := format('%s._new_%s', v_schemas[i], v_names[i]);
            execute replace(
                v_definitions[i], format('view %s.%s', v_schemas[i], v_names[i]), format('view %s', v_new));
            select pg_get_viewdef(v_view) = pg_get_viewdef(n.oid)
                and array(select a.attname from pg_attribute a where a.attrelid = v_view order by a.attnum)
                = array(select a.attname from pg_attribute a where a.attrelid = n.oid order by a.attnum)
            into v_same
            from pg_class n where n.oid = v_new::regclass;
            execute format('drop view %s', v_new);
        end if;
        if not v_same then
            begin
                execute v_definitions[i];
            exception when invalid_table_definition then
                execute format('drop view %s', v_view);
                execute v_definitions[i];
            end;
        end if;
        execute v_comments[i];
    end loop;
    for v_view in
        select c.oid from pg_class c inner join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('mqpg', 'mqpg_audit') and c.relkind = 'v' and not exists (
            select from unnest(v_kinds, v_schemas, v_names) as w (kind, schema, name)
            where w.kind = 'view' and w.schema = n.nspname and w.name = c.relname)
    loop
        execute format('drop view %s', v_view);
    end loop;

    for i in 1 .. cardinality(v_kinds) loop
        if v_kinds[i] = 'trigger' then
            execute v_definitions[i];
        end if;
    end loop;

    for v_gone in
        select p.oid from pg_proc p
        where not v_keeps and p.pronamespace = 'mqpg'::regnamespace and p.oid || ' ' || p.xmin = any(v_before)
    loop
        execute format(v_retire, v_gone);
    end loop;
end $mqpg_code$;
"""

# What the upgrade before this one could not drop.
_EMPTY_RETIRED = """\
do $mqpg_code$
declare
    v_gone regprocedure;
begin
    for v_gone in
        select p.oid from pg_proc p
        where p.pronamespace = to_regnamespace('mqpg_retired') and p.proowner = current_user::regrole
    loop
        execute format('drop function %s', v_gone);
    end loop;
end $mqpg_code$;
"""


def install(source: Source, owner: str | None = None) -> str:
    """The script, without begin and commit, that installs a release into a database without mqpg.

    The owner None stands for `mqpg_owner` if that is possible.
    """
    rows = [_row(migration, source) for migration in source.migrations]
    return f"{source.owner(owner)}\n{source.whole}\n{_note(rows)}{_insert_installation(source)}\n{source.privileges}"


def upgrade(source: Source, current: int, owner: str | None = None) -> str:
    """The script, without begin and commit, that upgrades an installed schema to a release.

    Args:
        current: The number of the last migration that was applied.
        owner: The role that is expected to own the schema. None: any role may.
    """
    parts = [source.owner(owner), _EMPTY_RETIRED]
    for migration in source.migrations[current:]:
        parts.append(f"\n-- migration {migration.number:04}_{migration.name}\n{migration.sql.strip()}\n")
        parts.append(_note([_row(migration, source)]))
    return "".join([*parts, _code(source), _update_installation(source), source.privileges])


def _code(source: Source) -> str:
    """The statement that replaces functions, views and triggers."""
    text = _REPLACE
    for place, values in (
        ("{kinds}", [item.kind for item in source.code]),
        ("{schemas}", [item.schema for item in source.code]),
        ("{names}", [item.name for item in source.code]),
        ("{definitions}", [item.definition for item in source.code]),
        ("{comments}", [item.comments or "select" for item in source.code]),
    ):
        text = text.replace(place, ",\n".join(map(_literal, values)))
    return text


def _literal(text: str) -> str:
    if _QUOTE in text or "$mqpg_code$" in text:
        raise ConfigurationError(f"a file of the code must not contain {_QUOTE}: {text[:60]!r}")
    return f"{_QUOTE}{text}{_QUOTE}"


def _row(migration: Migration, source: Source) -> str:
    breaking = "true" if migration.breaking else "false"
    return f"({migration.number}, {_quoted(migration.name)}, {breaking}, {_quoted(source.release)})"


def _note(rows: list[str]) -> str:
    return f"insert into mqpg.migration (migration_no, name, breaking, release) values {', '.join(rows)};\n"


def _insert_installation(source: Source) -> str:
    values = f"{_quoted(source.release)}, {_quoted(source.checksum)}"
    return f"insert into mqpg.installation (release, checksum) values ({values});\n"


def _update_installation(source: Source) -> str:
    return (
        f"update mqpg.installation set release = {_quoted(source.release)}, checksum = {_quoted(source.checksum)}, "
        "replaced_at = clock_timestamp();\n"
    )


def _quoted(text: str) -> str:
    if not re.fullmatch(r"[\w.+-]+", text):
        raise ConfigurationError(f"a name in the schema's version has letters, digits, dots and dashes, not {text!r}")
    return f"'{text}'"
