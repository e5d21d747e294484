"""The digest of rows, which the broker, the archive and the incremental audit compute alike."""

from __future__ import annotations

__all__ = ["row_digest"]


def row_digest(columns: str) -> str:
    """The SQL expression for the digest of rows. It is null if there is no row.

    It is a sum, so it does not depend on the order, and that of several parts is the sum of theirs.
    `mqpg.note_archived` computes the same.
    """
    return f"sum(hashtextextended(row({columns})::text, 0))"
