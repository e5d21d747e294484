"""mqpg.spark: two Spark jobs over the tables of all databases, the audit and the reconciliation.

The audit proves from the tables alone what happened to every message. It writes to none of the
audited databases. The reconciliation finds lost commits and commits them.

The folders depend on each other in one direction: `cli` on `jobs`, `jobs` on `anomalies`,
`anomalies` on `derive`, `derive` on `read`.
"""

from __future__ import annotations
