"""mqpg.spark: the audit and the reconciliation, two Spark jobs that read the tables of all databases.

The audit proves from the tables alone what became of every message. It writes to none of the audited
databases. The reconciliation finds lost commits and commits them.

The folders depend on each other in one direction: `cli` on `jobs`, `jobs` on `anomalies`,
`anomalies` on `derive`, `derive` on `read`.
"""

from __future__ import annotations
