"""Alembic environment of mqpg."""
