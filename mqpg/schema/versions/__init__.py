"""Alembic's branch `mqpg`: a revision for each migration. Its file in `sql/migrations/` has the same name."""
