"""Runs one numbered SQL file inside Alembic's transaction."""

from __future__ import annotations

from alembic import op

from mqpg import migrate

__all__ = ["run"]


def run(revision: str) -> None:
    """Execute the SQL file of a revision.

    The file holds many statements and no parameters, so it is sent as one simple query.

    Args:
        revision: Number of the migration, such as `0001`.
    """
    raw = op.get_bind().connection.driver_connection
    assert raw is not None
    raw.execute(migrate.migration(revision))
