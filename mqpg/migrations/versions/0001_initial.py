"""The first schema, assembled from the files that sql/manifest.txt lists."""

from __future__ import annotations

from mqpg.migrations.run import run

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the SQL file of this revision."""
    run(revision)
