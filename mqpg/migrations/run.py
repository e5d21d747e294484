"""Run one numbered SQL file inside alembic's transaction."""

from __future__ import annotations

from alembic import op

from mqpg import migrate

__all__ = ["run"]


def run(revision: str) -> None:
    """Execute the file of this revision in one simple query: it holds many statements and no parameters."""
    raw = op.get_bind().connection.driver_connection
    assert raw is not None
    raw.execute(migrate.migration(revision))
