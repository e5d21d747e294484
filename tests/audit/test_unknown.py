"""Where the audit cannot tell, it says so, and why; an unknown name is an error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from mqpg.errors import LedgerError, NotFound, UnknownProducerGroup, UnknownTopic
from mqpg.spark.jobs.audit import AuditOptions, run_audit_in
from mqpg.spark.report import Report
from mqpg.spark.verdict import Verdict
from tests.audit.story import Story, Trio

pytestmark = pytest.mark.spark


def test_nothing_read(spark: SparkSession, dsn: str) -> None:
    report = run_audit_in(spark, AuditOptions(dsn=dsn))
    assert (report.verdict, report.reasons) == (Verdict.UNKNOWN, ("nothing was read: there is no message to judge",))


def test_not_drained_though_asked(audit: Callable[..., Report], story: Story) -> None:
    story.business()
    story.append()
    story.business()
    story.broker.execute("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")
    report = audit(drained=True)
    assert report.verdict is Verdict.UNKNOWN
    assert not any(report.anomalies.values())
    told = "\n".join(report.reasons)
    assert "1 messages of topic orders wait for the appender" in told
    assert "1 messages of topic orders wait for their time" in told
    assert "group board is 1 messages behind on topic orders" in told
    assert "group mail is 67 messages behind on topic orders" in told


@pytest.mark.parametrize(
    ("change", "reason"),
    [("broker = 'ffffffffffff'", "belong to another broker"), ("incarnation = 7", "incarnation 7 of the broker")],
)
def test_offsets_of_another_broker(audit: Callable[..., Report], story: Story, change: str, reason: str) -> None:
    story.consumer.execute(f"update mqpg_offsets set {change}")
    report = audit()
    assert report.verdict is Verdict.UNKNOWN
    assert reason in report.reasons[0]


def test_unknown_names_are_errors(spark: SparkSession, trio: Trio) -> None:
    for options, error in (
        ({"topics": ("absent",)}, UnknownTopic),
        ({"groups": ("absent",)}, NotFound),
        ({"applied": {"absent": trio.consumer}}, NotFound),
        ({"ledgers": {"absent": trio.ledger}}, UnknownProducerGroup),
        ({"ledgers": {"shop": trio.consumer}}, LedgerError),
        ({"applied": {"board": trio.ledger}}, LedgerError),
    ):
        with pytest.raises(error):
            run_audit_in(spark, AuditOptions(dsn=trio.broker, **options))  # type: ignore[arg-type]
