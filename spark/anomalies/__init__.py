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

from mqpg.spark.anomalies.duplicated import duplicated
from mqpg.spark.anomalies.early import early
from mqpg.spark.anomalies.gap import gap
from mqpg.spark.anomalies.lost import lost
from mqpg.spark.anomalies.mismatch import mismatch
from mqpg.spark.anomalies.phantom import phantom
from mqpg.spark.anomalies.undecided import undecided

__all__ = ["KINDS", "duplicated", "early", "gap", "lost", "mismatch", "phantom", "undecided"]

KINDS = ("lost", "duplicated", "phantom", "early", "undecided", "gap", "mismatch")
