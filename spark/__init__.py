"""mqpg.spark: the audit, a Spark job that proves from the tables alone what became of every message.

Readers pin each database at one snapshot; the audits are pure functions from DataFrames to rows of
anomalies; nothing here writes to any audited database.
"""

from __future__ import annotations
