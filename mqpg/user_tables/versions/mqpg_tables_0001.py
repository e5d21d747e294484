"""Columns, keys and indexes that tables from before 0.1.0 lack."""

from alembic import op

from mqpg.user_tables.upgrades import upgrade_found

revision = "mqpg_tables_0001"
down_revision = None
branch_labels = ("mqpg_tables",)
depends_on = None


def upgrade() -> None:
    """Upgrade the tables that are there, by the statements that the library runs itself."""
    upgrade_found(op.get_context())


def downgrade() -> None:
    """Take nothing back: earlier releases work with the tables of this one."""
