"""${message}: sql/migrations/${up_revision}_*.sql."""

from __future__ import annotations

from mqpg.migrations.run import run

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Run the SQL file of this revision."""
    run(revision)
