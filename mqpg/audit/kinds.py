"""The kinds of anomaly that both engines look for. docs/prove/audit.md says what each one means."""

from __future__ import annotations

__all__ = ["KINDS"]

KINDS = (
    "lost",
    "duplicated",
    "phantom",
    "early",
    "undecided",
    "gap",
    "mismatch",
    "misplaced",
    "disorder",
    "skipped",
    "reverted",
    "stale_epoch",
    "lease",
    "duplicate_send",
    "corrupt",
    "dead_letter",
    "unexplained",
    "unconfirmed",
    "altered",
)
