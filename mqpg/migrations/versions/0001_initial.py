"""The whole first schema: sql/migrations/0001_initial.sql."""

from __future__ import annotations

from mqpg.migrations.run import run

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the numbered SQL file."""
    run(revision)
