"""Alembic revisions: one per numbered SQL file."""
