"""The anomalies, one module for each kind.

Each function is pure: it takes frames and returns rows with the columns of `schemas.ANOMALY`. The
kinds exclude one another, so that one fault is reported under one name:

* phantom: delivered or applied, and no committed transaction can ever account for it;
* early: delivered or applied before the transaction that accounts for it, or while that is open;
* undecided: a half message that was not decided in time and was not delivered either;
* lost: committed, and skipped by the appender or by a group;
* duplicated: more than once what must be there once;
* gap: offsets or runs that do not follow one another;
* mismatch: two databases contradict each other about one message, and it is none of the above.
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
