"""The statements that create mqpg's tables in a user's database, for whoever may create them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import MetaData, create_mock_engine

from mqpg.user_tables.upgrades import identify

__all__ = ["ddl"]


def ddl(chosen: MetaData, dialect: str) -> list[str]:
    """The statements for a dialect such as "mysql", without semicolons."""
    statements: list[str] = []

    def collect(statement: Any, *_: Any, **__: Any) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)).strip().replace("\t", "    "))

    engine = create_mock_engine(f"{dialect}://", collect)
    chosen.create_all(engine, checkfirst=False)
    if dialect == "postgresql":
        unkeyed = [table for table in chosen.sorted_tables if not table.primary_key.columns]
        statements += [identify(engine.dialect.identifier_preparer.format_table(table)) for table in unkeyed]
    return statements
