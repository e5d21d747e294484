"""Who may audit: a role that has only the right of an auditor, and SELECT on the tables of users."""

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

import mqpg
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.sql.engine import run_audit as run_sql_audit
from mqpg.audit.verdict import Verdict
from mqpg.errors import NotGranted
from mqpg.spark.jobs.reconcile import ReconcileOptions, reconcile_in
from tests.audit.commands import as_role
from tests.audit.judged import require_valid
from tests.audit.story import LEDGER_DDL, Story, Trio

JVM = pytest.mark.spark
AT_ONCE = timedelta(0)


def may_read(db: psycopg.Connection[dict[str, object]], role: str) -> None:
    db.execute(sql.SQL("grant select on all tables in schema public to {}").format(sql.Identifier(role)))


def test_the_audit_runs_with_the_right_of_an_auditor(
    role: str, run_audit: Callable[[AuditOptions], Report], trio: Trio, story: Story
) -> None:
    story.broker.execute("select mqpg.grant_auditor(%s)", (role,))
    may_read(story.ledger, role)
    may_read(story.consumer, role)
    options = AuditOptions(
        dsn=as_role(trio.broker, role),
        ledgers={"shop": as_role(trio.ledger, role)},
        applied={"board": as_role(trio.consumer, role)},
    )
    report = require_valid(run_audit(options))
    assert (report.relations[0].confirmed, report.relations[0].ids_equal) == (15, True)
    assert (report.groups[0]["offsets"], report.groups[0]["applied"]) == (66, 65)


def test_the_sql_engine_needs_temporary_tables(role: str, trio: Trio, story: Story) -> None:
    database = sql.Identifier(story.broker.info.dbname)
    story.broker.execute("select mqpg.grant_auditor(%s)", (role,))
    story.broker.execute(sql.SQL("revoke temporary on database {} from public").format(database))
    with pytest.raises(NotGranted, match=f'grant temporary on database ".*" to "{role}"'):
        run_sql_audit(AuditOptions(dsn=as_role(trio.broker, role)))
    story.broker.execute(sql.SQL("grant temporary on database {} to {}").format(database, sql.Identifier(role)))
    assert run_sql_audit(AuditOptions(dsn=as_role(trio.broker, role))).verdict is Verdict.VALID


def test_an_auditor_reads_what_a_filter_leaves_out(role: str, trio: Trio, story: Story) -> None:
    story.broker.execute("select mqpg.alter_subscription('board', 'orders', tags => array['none'])")
    story.broker.execute("select mqpg.grant_auditor(%s)", (role,))
    may_read(story.consumer, role)
    story.business()
    story.drain()
    story.consumer.execute("delete from mqpg_offsets")
    applied = {"board": as_role(trio.consumer, role)}
    require_valid(run_sql_audit(AuditOptions(dsn=as_role(trio.broker, role), applied=applied)))


@JVM
def test_an_auditor_lists_the_lost_commits_of_the_brokers_ledger_and_commits_none(
    spark: SparkSession, role: str, dsn: str
) -> None:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("orders", queues=1)
        mq.create_producer_group("shop")
        handle = mq.prepare("orders", 1, "shop")
        with psycopg.connect(dsn) as conn:
            mq.local_begin(handle, conn=conn)
        mq.grant_auditor(role)
        auditor = as_role(dsn, role)
        (hit,) = reconcile_in(spark, ReconcileOptions((auditor,), older_than=AT_ONCE, settle=False))
        assert (hit.handle, hit.state, hit.outcome) == (handle, "undecided", None)
        with pytest.raises(NotGranted):
            reconcile_in(spark, ReconcileOptions((auditor,), older_than=AT_ONCE))
        assert mq.half_states([handle])[0].state == "undecided"


@JVM
def test_a_ledger_at_the_broker_is_read_by_a_role_that_is_no_auditor(
    spark: SparkSession, role: str, trio: Trio, story: Story
) -> None:
    story.broker.execute(LEDGER_DDL)
    may_read(story.broker, role)
    handle = story.prepare()
    story.broker.execute("insert into mqpg_ledger (handle, entry) values (%s, 'local')", (handle,))
    options = ReconcileOptions((trio.broker,), (as_role(trio.broker, role),), older_than=AT_ONCE, settle=False)
    (hit,) = reconcile_in(spark, options)
    assert (hit.handle, hit.state) == (handle, "undecided")
