"""Alembic environment. It runs in the transaction, and under the lock, of mqpg.migrate.upgrade."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="alembic_version",
    version_table_schema="mqpg",
)
context.run_migrations()
