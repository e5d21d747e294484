"""An audit in a process that has a Spark session of its own, as a notebook has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from mqpg.audit.options import AuditOptions
from mqpg.audit.verdict import Verdict
from mqpg.spark.jobs.audit import run_audit
from mqpg.spark.read.session import open_session, session_settings
from tests.audit.story import Trio

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"


def test_an_audit_leaves_the_session_as_it_was(spark: SparkSession, trio: Trio) -> None:
    with session_settings(spark, {ZONE: "Asia/Tokyo"}):
        report = run_audit(AuditOptions(dsn=trio.broker, ledgers={"shop": trio.ledger}))
        assert report.verdict is Verdict.VALID
        assert spark.conf.get(ZONE) == "Asia/Tokyo"
    assert spark.range(3).count() == 3


def test_a_thread_uses_the_same_session(spark: SparkSession) -> None:
    def count() -> tuple[int, str | None]:
        with open_session(memory="2g") as session:
            return session.range(4).count(), session.conf.get(ZONE)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(count).result() == (4, "UTC")
    assert spark.range(3).count() == 3
