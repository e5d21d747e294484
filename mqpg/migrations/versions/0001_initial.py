"""The whole first schema, assembled from the files that sql/manifest.txt lists."""

from __future__ import annotations

from mqpg.migrations.run import run

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the numbered SQL file."""
    run(revision)
