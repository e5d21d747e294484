"""Upgrades of mqpg's tables in users' databases, for Alembic: the branch `mqpg_tables`."""
