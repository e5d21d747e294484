"""One audit by the SQL engine: read, derive, judge, report."""

from __future__ import annotations

import getpass
import os
import socket
import time
import uuid
from dataclasses import asdict
from typing import Any

from mqpg.audit.conclusions import equations, holes, unfinished, without_messages
from mqpg.audit.counted import held_against_counts, outbox_counts
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import UNATTRIBUTED, Report
from mqpg.audit.state import Judged, asked
from mqpg.audit.verdict import Verdict, rule
from mqpg.embedded.locate import resolve
from mqpg.schema import migrate

from .amounts import amounts_of
from .into import keep_findings
from .judged import advance, check_findings, check_frames
from .reader import Inputs, connect_once, read_inputs
from .totals import Totals, doubts
from .workspace import Workspace, open_workspace

__all__ = ["conclude", "describe_run", "run_audit", "run_tracked"]

_ALL = 2**31 - 1


def run_audit(options: AuditOptions) -> Report:
    """Run one audit in plain SQL. `options.partitions` has no effect here."""
    return run_tracked(options)[0]


def run_tracked(
    options: AuditOptions,
    judged: Judged | None = None,
    nothing: Judged | None = None,
    why: str | None = None,
    *,
    altered: bool = False,
) -> tuple[Report, Judged | None]:
    """Run one audit that leaves out what is judged. If it is valid, it also returns what is judged now.

    `nothing` is a state of this broker in which nothing is judged; None: nobody asks what is judged now. `why`
    says why everything is judged again, and `altered` that this is a fault of its own. Raises Rejudge.
    """
    started, dsn = time.monotonic(), resolve(options.dsn)
    migrate.check(dsn)
    connect_once(dsn, options)
    with open_workspace(dsn) as work:
        read_from = time.monotonic()
        inputs = read_inputs(work, dsn, options, judged)
        read_seconds = time.monotonic() - read_from
        work.insert("altered_rows", [(why,)] if altered else [])
        work.derive()
        if judged is not None:
            check_frames(work)
        counts = work.judge()
        if judged is not None:
            check_findings(work)
        run = describe_run("sql", inputs, options, read_seconds)
        report = conclude(work, inputs, options, counts, Totals(work), run, started, judged)
        after = None
        if nothing is not None:
            if report.verdict is Verdict.VALID and not any(one.what == UNATTRIBUTED for one in report.not_judged):
                (broker,) = (one for one in inputs.snapshots if one.role == "broker")
                after = advance(work, judged or nothing, broker.snapshot, broker.taken_at)
            now = after or judged or nothing
            report.run["incremental"] = {
                "judged_before": judged.totals if judged else {},
                "judged_again": why,
                "judged": now.totals,
                "open": len(now.open),
            }
            report.run["seconds"] = round(time.monotonic() - started, 3)
        return report, after


def conclude(
    work: Workspace,
    inputs: Inputs,
    options: AuditOptions,
    counts: dict[str, int],
    totals: Totals,
    run: dict[str, Any],
    started: float,
    judged: Judged | None = None,
) -> Report:
    """Give a verdict on what was read and derived, by either engine.

    `counts` has the anomalies by kind, and `started` is the monotonic time at which the audit began.
    """
    if judged is None:  # What is judged is in no relation.
        counts_of_outboxes = outbox_counts(options, work.dsn, inputs.broker["broker_id"], inputs.outboxes)
        totals.relations = held_against_counts(totals.relations, counts_of_outboxes)
    inputs.broker["left_out"] = totals.left_out
    if not options.topics:  # Batches of other topics are not read.
        inputs.broker["left_out"] += holes(totals.holes)
    not_judged = inputs.not_judged + totals.not_judged
    unsure = inputs.doubts + doubts(totals, inputs.broker["incarnation"])
    if judged is None:
        unsure += without_messages(totals.topics)
    if options.drained:
        unsure += unfinished(totals.topics, totals.groups, totals.lag, not_judged)
    balance = equations(totals.topics, totals.groups, totals.ticks)
    ruling = rule(counts, balance, totals.relations, unsure)
    report = Report(
        run={"at": work.now(), "by": _who(work)} | run,
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
        scope=inputs.scope | totals.scope,
        parameters=asked(options) | {"amount": options.amount},
    )
    if options.amount is not None or options.into is not None:
        found = work.rows("totals", "examples", [_ALL])
        if options.amount is not None:
            report.amounts = amounts_of(work, options.amount, found)
        if options.into is not None:
            keep_findings(work, options.into, report, found)
    report.run["seconds"] = round(time.monotonic() - started, 3)
    return report


def _who(work: Workspace) -> str:
    """Say who runs this audit: the role at the broker, and the user of this machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        user = f"uid {os.getuid()}"
    return f"role {work.connection.info.user}, user {user} on {socket.gethostname()}"


def describe_run(engine: str, inputs: Inputs, options: AuditOptions, read_seconds: float) -> dict[str, Any]:
    """Return what a report says about the run of an engine, as far as it is known after the read."""
    rows = sum(inputs.rows.values())
    return {
        "run_id": str(uuid.uuid4()),
        "engine": engine,
        "broker": inputs.broker,
        "snapshots": [asdict(one) for one in inputs.snapshots],
        "rows": rows,
        "rows_by_source": inputs.rows,
        "read_seconds": round(read_seconds, 3),
        "rows_per_second": round(rows / max(read_seconds, 1e-9)),
        "drained": options.drained,
    }
