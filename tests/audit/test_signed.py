"""What an auditor signs: the scope of a report, who ran it, and a hash of its findings."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from psycopg import sql

from mqpg.audit.html import as_html
from mqpg.audit.html.charts import latency_chart
from mqpg.audit.kinds import KINDS
from mqpg.audit.report import Report, as_json
from mqpg.audit.sql.engine import run_audit as run_sql_audit
from tests.audit.commands import page_of
from tests.audit.retention import drop_what_may_go
from tests.audit.story import Story, Trio

PAGE = Path(__file__).parents[2] / "docs" / "prove" / "audit.md"


def test_first_line_says_what_was_audited_and_what_was_not(audit: Callable[..., Report], story: Story) -> None:
    report = audit()
    stored = story.one("select sum(n) from mqpg.commit_log where kind <> 'f'")
    first, last = (story.one(f"select {edge}(born_at) from mqpg.commit_log") for edge in ("min", "max"))
    assert report.scope["messages"] == stored
    assert (report.scope["topics"], report.scope["groups"]) == (["orders"], ["board", "mail"])
    assert (report.scope["journals"], report.scope["ledgers"]) == (["board"], ["shop"])
    assert report.scope["first"] == first.replace(microsecond=0)
    assert report.scope["last"] == last.replace(microsecond=0)
    for text in (page_of(report), unescape(as_html(report))):
        assert "for 1 of 2 groups" in text
        said = " ".join(text.replace("│", " ").split())
        assert f"topics orders; groups board, mail; ledgers shop; journals board; {stored} messages from" in said
        assert f"by role {story.broker.info.user}, user " in said
        assert report.findings_sha256 in said
    assert "for 0 of 2 groups and 0 of 1 producer groups" in page_of(audit(ledgers={}, applied={}))
    assert audit(groups=("board",)).headline == "valid"


def test_what_retention_has_dropped_is_counted(audit: Callable[..., Report], story: Story) -> None:
    assert audit().scope["past_retention"] == 0
    drop_what_may_go(story)
    report = audit()
    sent = story.one(
        "select sum(position) from (select distinct on (c.queue_id) c.committed as position from mqpg.cursor c "
        "join mqpg.subscription s using (subscription_id) where s.consumer_group = 'board' and c.queue_id >= 0 "
        "order by c.queue_id, c.version desc) as q"
    )
    assert report.scope["past_retention"] == sent - report.topics[0]["queued"] > 0


def test_a_page_has_80_columns_and_no_kind_that_was_not_found(audit: Callable[..., Report], story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id in (select min(message_id) from mqpg_applied)")
    report = audit()
    text = page_of(report)
    assert max(map(len, text.splitlines())) <= 80
    for page in (text, as_html(report)):
        assert "lost" in page
        assert not re.findall("|".join(set(KINDS) - {"lost", "gap", "early", "lease", "undecided", "skipped"}), page)


def test_documented_command_computes_the_hash_of_a_report(audit: Callable[..., Report], story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where queue_id = 0")
    report = audit()
    (script,) = re.findall(r'```sh\npython3 -c "(import hashlib.*?)" < report.json\n```', PAGE.read_text(), re.DOTALL)
    for text in (as_json(report), as_json(audit())):
        run = subprocess.run([sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == report.findings_sha256 == json.loads(text)["findings_sha256"]


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report.anomalies.update(lost=1),
        lambda report: report.scope.update(messages=1),
        lambda report: report.parameters.update(slack=1.0),
        lambda report: report.not_judged.clear(),
        lambda report: report.relations.clear(),
    ],
)
def test_another_finding_has_another_hash(trio: Trio, change: Callable[[Report], None]) -> None:
    report = run_sql_audit(trio.options())
    before = report.findings_sha256
    change(report)
    assert report.findings_sha256 != before


@pytest.mark.spark
@pytest.mark.audits
def test_both_engines_give_one_hash(audit_in_spark: Callable[..., Report], trio: Trio, story: Story) -> None:
    """Of a history with faults, with retention, and of one that nothing is wrong with."""
    assert audit_in_spark().findings_sha256 == run_sql_audit(trio.options()).findings_sha256
    drop_what_may_go(story)
    story.consumer.execute("delete from mqpg_applied where queue_id = 0")
    story.broker.execute(
        sql.SQL("delete from mqpg.op_log where message_id = (select max(message_id) from mqpg.op_log)")
    )
    by_spark, by_sql = audit_in_spark(drained=True), run_sql_audit(trio.options(drained=True))
    assert sum(by_sql.anomalies.values()) > 1
    assert by_spark.findings_sha256 == by_sql.findings_sha256, (by_spark.as_dict(), by_sql.as_dict())


def test_a_plot_breaks_where_nothing_was_measured() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {"step": "queued", "consumer_group": None, "at": at + timedelta(seconds=n), "p50": 1.0, "p99": 2.0}
        for n in (0, 1, 5, 9, 10)
    ]
    chart = latency_chart(rows, 1, ())
    assert chart is not None
    for line in chart.lines:
        moves = [step[0] for step in line.path.split(" ")]
        assert moves == ["M", "h", "L", "M", "h", "M", "h", "L"]
