"""What the modules of `versions/` consist of. Only Alembic imports it, and what runs Alembic."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic import op
from alembic.runtime.migration import MigrationContext
from sqlalchemy.exc import DBAPIError

from mqpg.schema.source import Source, packaged
from mqpg.values.errors import ConfigurationError
from mqpg.values.translation import translate

__all__ = ["Revision", "revision_of"]

# Steps outside of a transaction run as the owner of the schema, too. They may take long: a concurrent
# index waits for all transactions, but nobody waits for it.
_CHANGED = ("search_path", "role", "lock_timeout", "statement_timeout")
_SET = "pg_catalog.set_config('{}', {}, false)"
_ENTER = f"""\
select {", ".join(_SET.format(f"mqpg.{name}", f"pg_catalog.current_setting('{name}')") for name in _CHANGED)},
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
    pg_catalog.set_config('lock_timeout', '0', false), pg_catalog.set_config('statement_timeout', '0', false),
    pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(n.nspowner), false)
from pg_catalog.pg_namespace as n where n.nspname operator(pg_catalog.=) 'mqpg';"""
_LEAVE = f"""\
select {", ".join(_SET.format(name, f"pg_catalog.current_setting('mqpg.{name}')") for name in _CHANGED)};"""

Revision = tuple[str, str | None, tuple[str, ...], Callable[..., None], Callable[[], None]]
"""What Alembic looks for in a module: revision, down_revision, branch_labels, upgrade, downgrade."""


def revision_of(file: str) -> Revision:
    """Make the revision that runs the migration whose file in `sql/migrations/` has the name of the module `file`.

    An app's revision names it in `depends_on` by its id, or by a label such as `mqpg@0001`. Raises
    ConfigurationError if its folder has a module that is not mqpg's.
    """
    path = Path(file)
    number = int(path.name[:4])
    if number == 1:
        _require_no_stranger(path.parent)
    labels = (f"mqpg@{number:04}",) if number > 1 else ("mqpg", "mqpg@0001")

    def upgrade(context: MigrationContext | None = None) -> None:
        try:
            _upgrade(context or op.get_context(), number)
        except DBAPIError as error:
            # SQLAlchemy would print the statement, which has the whole schema in it.
            raise translate(error) from error.orig

    return f"{number:04}_mqpg", f"{number - 1:04}_mqpg" if number > 1 else None, labels, upgrade, _downgrade


def _require_no_stranger(folder: Path) -> None:
    """An app's first revision comes here if Alembic is not told to begin a branch, and goes with the next release."""
    strangers = sorted(path.name for path in folder.glob("*.py") if not re.match(r"\d{4}_|__init__", path.name))
    if strangers:
        raise ConfigurationError(
            f"{folder / strangers[0]} is not a revision of mqpg: delete it, and write it again with "
            "alembic revision --head base --branch-label NAME --version-path FOLDER"
        )


def _upgrade(context: MigrationContext, number: int) -> None:
    source: Source = context.opts.get("mqpg_source") or packaged()
    owner: str | None = context.opts.get("mqpg_owner")
    steps = source.migrations[number - 1].steps
    records = (context.version_table_schema, context.version_table) != ("mqpg", "alembic_version")
    if steps:
        # It looks whether the schema can be trusted, and whether it is the one that the steps change.
        _run(context, source.revision(number - 1, owner, records=records))
        with context.autocommit_block():
            _run(context, _ENTER)
            try:
                if context.as_sql or _current(context) < number:
                    for step in steps:
                        _run(context, step)
            finally:
                _run(context, _LEAVE)
    _run(context, source.revision(number, owner, records=records))


def _downgrade() -> None:
    raise ConfigurationError(
        "mqpg has no way back to an earlier schema: restore a backup, or remove it with mqpg uninstall"
    )


def _current(context: MigrationContext) -> int:
    return int(_run(context, "select s.migration from mqpg.schema_version() as s").scalar_one())


def _run(context: MigrationContext, statement: str) -> Any:
    """Execute a statement, or write it. Neither reads `:name` or `%I` in it as a parameter."""
    if context.as_sql:
        context.impl.static_output(statement)
        return None
    assert context.connection is not None
    return context.connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
