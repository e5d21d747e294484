"""The SQL files of the engine."""

from __future__ import annotations

import importlib.resources
from functools import cache
from typing import Literal, LiteralString

__all__ = ["CONSERVATION", "DERIVED", "FINITE", "READS", "TABLES", "Folder", "statement"]

Folder = Literal["tables", "read", "frames", "kinds", "conservation", "totals", "judged"]

# How a time is read. There is no difference to an infinite one, and neither Python nor Spark has one.
FINITE: LiteralString = (
    "case when {0}::timestamptz > '9999-12-31 23:59:59+00' then '9999-12-31 23:59:59+00' "
    "when {0}::timestamptz < '0001-01-02 00:00:00+00' then '0001-01-02 00:00:00+00' else {0}::timestamptz end"
)
# In the order in which they are made. A file reads tables that stand before it.
TABLES = (
    "run",
    "judged",
    "open_message",
    "judged_tail",
    "judged_start",
    "judged_pair",
    "judged_offset",
    "judged_failure",
    "other_topic",
    "other_group",
    "journal_group",
    "ledger_source",
    "ledger_group",
    "outbox_group",
    "cursor_now",
    "applied",
    "stored_offset",
    "deferred",
    "ledger_row",
    "outbox_row",
    "altered_rows",
    "anomaly",
)
READS = (
    "horizon",
    "log_segment",
    "remaining",
    "left_out",
    "topic",
    "subscription",
    "reader",
    "tick",
    "body",
    "decision",
    "check_back",
    "delayed",
    "queue_row",
    "queue_run",
    "cursor_version",
    "claim",
    "retry_noted",
    "dropped_slot",
    "queue_start",
    "queue_note",
    "journal_span",
    "jump",
    "policy",
    "letter",
    "other_half",
    "unmatched",
    "dedup",
    "segment",
    "meaning",
)
_FRAMES = (
    "message",
    "odd_message",
    "odd_decision",
    "spoiled",
    "entry",
    "odd_entry",
    "queued",
    "missed",
    "repeated",
    "retry_time",
    "mistimed",
    "setback",
    "effect",
    "odd_effect",
    "reapplied",
    "unaccounted",
    "place",
    "hole",
    "absent",
    "unqueued",
    "outbox",
    "jumped",
    "allowed",
    "excuse",
    "replay",
    "retry",
    "delivery",
    "astray",
    "ledger_match",
    "odd_match",
    "deleted",
    "transition",
    "cursor_fault",
    "clock_turn",
    "lead",
    "known_since",
    "released",
    "failure",
    "judged_letter",
)
CONSERVATION = (
    "step",
    "origin",
    "since",
    "piece",
    "stored_message",
    "bound",
    "change",
    "ending",
    "unacked",
    "keeper",
    "answer",
    "unanswered",
    "surplus",
    "due",
    "comeback",
    "grave",
    "broken",
)
# What both engines derive from the rows that they read.
DERIVED: tuple[tuple[Folder, str], ...] = (
    *(("frames", name) for name in _FRAMES),
    *(("conservation", name) for name in CONSERVATION),
)


@cache
def statement(folder: Folder, name: str) -> str:
    """The text of one file, with its header. The name has no extension."""
    return (importlib.resources.files(__package__) / folder / f"{name}.sql").read_text(encoding="utf-8")
