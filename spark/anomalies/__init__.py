"""The anomalies, one module for each kind, and one for messages that are gone.

Each function is pure: it takes frames and returns rows with the columns of `schemas.ANOMALY`. The
kinds exclude one another, so that one fault is reported under one name:

* phantom: delivered or applied, and no committed transaction can ever account for it;
* early: delivered or applied before the transaction that accounts for it, or while that is open;
* undecided: a half message that was not decided in time and was not delivered either;
* lost: committed, and skipped by the appender or by a group, or unknown to the broker;
* duplicated: more than once what must be there once;
* gap: offsets or runs that do not follow one another, or a record batch that is gone;
* mismatch: two databases contradict each other about one message, and it is none of the above.
"""

from __future__ import annotations

from .corrupt import corrupt
from .cursors import cursor_faults
from .dead_letter import dead_letter
from .deleted import deleted
from .disorder import disorder
from .duplicate_send import duplicate_send
from .duplicated import duplicated
from .early import early
from .gap import gap
from .lost import lost
from .mismatch import mismatch
from .misplaced import misplaced
from .override import override
from .phantom import phantom
from .unconfirmed import unconfirmed
from .undecided import undecided
from .unexplained import unexplained

__all__ = [
    "corrupt",
    "cursor_faults",
    "dead_letter",
    "deleted",
    "disorder",
    "duplicate_send",
    "duplicated",
    "early",
    "gap",
    "lost",
    "mismatch",
    "misplaced",
    "override",
    "phantom",
    "unconfirmed",
    "undecided",
    "unexplained",
]
