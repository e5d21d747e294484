"""The SQL text that installs or upgrades the schema. psql and `mqpg migrate` run the same one."""

from __future__ import annotations

import re

from mqpg.errors import ConfigurationError
from mqpg.schema.source import Migration, Object, Source

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
    v_item record;
    v_before text [];
    v_gone regprocedure;
    v_same boolean;
begin
    perform set_config('search_path', 'pg_catalog', true);
    perform set_config('check_function_bodies', 'off', true);
    create schema if not exists mqpg_retired;
    -- What the upgrade before this one could not drop.
    for v_gone in select p.oid from pg_proc p where p.pronamespace = 'mqpg_retired'::regnamespace loop
        execute format('drop function %s', v_gone);
    end loop;
    create temporary table mqpg_items (item_no int, kind text, name text, definition text, comments text)
    on commit drop;
    insert into pg_temp.mqpg_items values
{items};
    v_before := array(
        select p.oid || ' ' || p.xmin from pg_proc p where p.pronamespace = 'mqpg'::regnamespace);

    for v_item in select * from pg_temp.mqpg_items i where i.kind = 'function' order by i.item_no loop
        begin
            execute v_item.definition;
        exception when invalid_function_definition then
            -- Its result or the names of its arguments have changed.
            for v_gone in
                select p.oid from pg_proc p
                where p.pronamespace = 'mqpg'::regnamespace and p.proname = v_item.name
            loop
                execute format('alter function %s set schema mqpg_retired', v_gone);
            end loop;
            execute v_item.definition;
        end;
    end loop;

    for v_gone in
        select p.oid from pg_proc p
        where p.pronamespace = 'mqpg'::regnamespace and p.oid || ' ' || p.xmin = any(v_before)
    loop
        execute format('alter function %s set schema mqpg_retired', v_gone);
    end loop;

    -- Replacing a view waits for its readers, so a view that stays the same is left alone.
    for v_item in
        select c.relname as name from pg_class c
        where c.relnamespace = 'mqpg'::regnamespace and c.relkind = 'v'
            and not exists (select from pg_temp.mqpg_items i where i.kind = 'view' and i.name = c.relname)
    loop
        execute format('drop view mqpg.%I', v_item.name);
    end loop;
    for v_item in select * from pg_temp.mqpg_items i where i.kind = 'view' order by i.item_no loop
        v_same := false;
        if to_regclass('mqpg.' || quote_ident(v_item.name)) is not null then
            execute replace(v_item.definition, 'view mqpg.', 'view mqpg_retired.');
            select pg_get_viewdef(o.oid) = pg_get_viewdef(n.oid)
                and array(select a.attname from pg_attribute a where a.attrelid = o.oid order by a.attnum)
                = array(select a.attname from pg_attribute a where a.attrelid = n.oid order by a.attnum)
            into v_same
            from pg_class o join pg_class n on n.relname = o.relname
            where o.relnamespace = 'mqpg'::regnamespace and n.relnamespace = 'mqpg_retired'::regnamespace
                and o.relname = v_item.name;
            execute format('drop view mqpg_retired.%I', v_item.name);
        end if;
        if not v_same then
            begin
                execute v_item.definition;
            exception when invalid_table_definition then
                execute format('drop view mqpg.%I', v_item.name);
                execute v_item.definition;
            end;
        end if;
        execute v_item.comments;
    end loop;

    for v_item in select * from pg_temp.mqpg_items i where i.kind = 'trigger' order by i.item_no loop
        execute v_item.definition;
    end loop;
    drop table pg_temp.mqpg_items;
    if not exists (select from pg_proc p where p.pronamespace = 'mqpg_retired'::regnamespace) then
        drop schema mqpg_retired;
    end if;
end $mqpg_code$;
"""


def install(source: Source) -> str:
    """The script that installs a release into a database without mqpg.

    Args:
        source: The release.

    Returns:
        The statements, without begin and commit.

    Raises:
        ConfigurationError: The package pgmq cannot be built in.
    """
    rows = [_row(migration, source) for migration in source.migrations]
    return f"{source.whole}\n{_note(rows)}{_insert_installation(source)}"


def upgrade(source: Source, current: int) -> str:
    """The script that upgrades an installed schema to a release.

    Args:
        source: The release.
        current: The number of the last migration that was applied.

    Returns:
        The statements, without begin and commit.

    Raises:
        ConfigurationError: The text of a function contains the quote that this script uses.
    """
    parts = []
    for migration in source.migrations[current:]:
        parts.append(f"\n-- migration {migration.number:04}_{migration.name}\n{migration.sql.strip()}\n")
        parts.append(_note([_row(migration, source)]))
    return "".join([*parts, _code(source), _update_installation(source)])


def _code(source: Source) -> str:
    """The statement that replaces functions, views and triggers."""
    items = ",\n".join(f"({number}, {_item(item)})" for number, item in enumerate(source.code))
    return _REPLACE.replace("{items}", items)


def _item(item: Object) -> str:
    texts = (item.kind, item.name, item.definition, item.comments or "select")
    if any(_QUOTE in text or "$mqpg_code$" in text for text in texts):
        raise ConfigurationError(f"the file of {item.name} must not contain {_QUOTE}")
    return ", ".join(f"{_QUOTE}{text}{_QUOTE}" for text in texts)


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
