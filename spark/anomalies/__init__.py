"""The audits: each module is one kind of anomaly, each function pure, from frames to rows of schemas.ANOMALY.

The kinds exclude one another where one fault could be told in two ways, so that a fault is named once:

* phantom: delivered or applied without a committed transaction that could ever account for it;
* early: delivered or applied before the transaction that accounts for it, or while it is still open;
* undecided: a half message that nobody decided in time, and that nobody has seen either;
* lost: committed, and passed over;
* duplicated: more than once what must be once;
* gap: offsets or runs that do not follow one another;
* mismatch: two databases that contradict each other about one message, none of the above.
"""

from __future__ import annotations

from .duplicated import duplicated
from .early import early
from .gap import gap
from .lost import lost
from .mismatch import mismatch
from .phantom import phantom
from .undecided import undecided

__all__ = ["KINDS", "duplicated", "early", "gap", "lost", "mismatch", "phantom", "undecided"]

KINDS = ("lost", "duplicated", "phantom", "early", "undecided", "gap", "mismatch")
