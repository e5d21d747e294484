"""One audit by the SQL engine: read, derive, judge, report."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict
from typing import Any

from mqpg import migrate
from mqpg.audit.conclusions import equations, holes, unfinished, without_messages
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.verdict import rule
from mqpg.dsn import resolve

from .reader import Inputs, connect_once, read_inputs
from .totals import Totals, doubts
from .workspace import Workspace, open_workspace

__all__ = ["run_audit"]


def run_audit(options: AuditOptions) -> Report:
    """Run one audit in plain SQL.

    Args:
        options: What is audited. `partitions` has no effect here.

    Returns:
        The report.

    Raises:
        ConnectionFailed: A database does not answer.
        SchemaError: The broker's schema is missing, or this release cannot work with it.
        NotFound: The broker has no such topic, consumer group or producer group.
        LedgerError: A database has no journal or ledger, or it cannot be read.
        NotGranted: The role may not create temporary tables at the broker.
        ConfigurationError: A URL is wrong, or the broker's server is a standby.
        DatabaseError: The broker's server refused a statement.
    """
    started, dsn = time.monotonic(), resolve(options.dsn)
    migrate.check(dsn)
    connect_once(dsn, options)
    with open_workspace(dsn) as work:
        read_from = time.monotonic()
        inputs = read_inputs(work, dsn, options)
        read_seconds = time.monotonic() - read_from
        work.derive()
        counts = work.judge()
        return _report(work, inputs, options, counts, started, read_seconds)


def _report(
    work: Workspace, inputs: Inputs, options: AuditOptions, counts: dict[str, int], started: float, read_seconds: float
) -> Report:
    totals = Totals(work)
    inputs.broker["left_out"] = totals.left_out
    if not options.topics:  # Batches of other topics are not read.
        inputs.broker["left_out"] += holes(totals.holes)
    not_judged = inputs.not_judged + totals.not_judged
    unsure = inputs.doubts + doubts(totals, inputs.broker["incarnation"]) + without_messages(totals.topics)
    if options.drained:
        unsure += unfinished(totals.topics, totals.groups, totals.lag, not_judged)
    balance = equations(totals.topics, totals.groups)
    ruling = rule(counts, balance, totals.relations, unsure)
    return Report(
        run={"at": work.now()} | _run(inputs, options, started, read_seconds),
        verdict=ruling.verdict,
        reasons=ruling.reasons,
        anomalies=counts,
        examples=work.rows("totals", "examples", [options.examples]),
        equations=balance,
        relations=totals.relations,
        not_judged=not_judged,
        notes=work.rows("totals", "notes", [options.examples]),
        topics=totals.topics,
        groups=totals.groups,
        lag=totals.lag,
        redelivery=totals.redelivery,
        latency=totals.latency,
        timeline=totals.timeline,
        late_commits=totals.late_commits,
    )


def _run(inputs: Inputs, options: AuditOptions, started: float, read_seconds: float) -> dict[str, Any]:
    rows = sum(inputs.rows.values())
    return {
        "run_id": str(uuid.uuid4()),
        "engine": "sql",
        "broker": inputs.broker,
        "snapshots": [asdict(one) for one in inputs.snapshots],
        "rows": rows,
        "rows_by_source": inputs.rows,
        "read_seconds": round(read_seconds, 3),
        "rows_per_second": round(rows / max(read_seconds, 1e-9)),
        "drained": options.drained,
        "seconds": round(time.monotonic() - started, 3),
    }
