"""The report: its JSON Schema, its time line, and the HTML page."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import psycopg
import pytest

from mqpg.audit.faults import Fault, read_faults
from mqpg.audit.html import as_html
from mqpg.audit.report import Report
from mqpg.audit.sql.totals import interval_seconds
from mqpg.errors import ConfigurationError
from tests.audit.commands import require_schema
from tests.audit.story import Story


def test_json_of_any_verdict_fits_the_schema(audit: Callable[..., Report], story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where queue_id = 0")
    for report in (audit(), audit(ledgers={}, applied={})):
        require_schema(report)


def test_time_line_adds_up_to_the_totals(audit: Callable[..., Report]) -> None:
    report = audit()
    (topic,), (group,) = report.topics, report.groups
    rows = report.timeline["rows"]
    totals = {
        (step, name): sum(row["messages"] for row in rows if (row["step"], row["consumer_group"]) == (step, name))
        for step, name in {(row["step"], row["consumer_group"]) for row in rows}
    }
    assert totals == {
        ("committed", None): topic["queued"],
        ("queued", None): topic["queued"],
        ("owed", "board"): group["offsets"] - group["dead"],
        ("applied", "board"): group["applied"],
    }
    assert all(row["at"].timestamp() % report.timeline["interval_seconds"] == 0 for row in rows)
    assert all(row["at"].tzinfo is not None for row in rows)
    assert all(0 <= row["p50"] <= row["p99"] for row in rows if row["step"] in ("queued", "applied"))


def test_the_time_line_has_what_a_lost_tick_appended(audit: Callable[..., Report], story: Story) -> None:
    def messages() -> dict[str, int]:
        return {
            step: sum(row["messages"] for row in audit().timeline["rows"] if row["step"] == step)
            for step in ("committed", "applied")
        }

    before = messages()
    story.broker.execute("delete from mqpg.tick where tick_id = 2")
    assert messages() == before


def test_a_late_commit_is_counted_with_its_distance(audit: Callable[..., Report], story: Story) -> None:
    before = {row["topic"]: row for row in audit().late_commits}
    with psycopg.connect(story.broker.info.dsn, password=story.broker.info.password) as late:
        late.execute("select mqpg.send('orders', '{}'::text)")
        story.broker.execute("select mqpg.send('orders', '{}'::text) from generate_series(1, 40)")
        story.broker.execute("select mqpg.append()")
    story.broker.execute("select mqpg.append()")
    (row,) = audit().late_commits
    assert row["messages"] == before.get("orders", {"messages": 0})["messages"] + 1
    assert row["most_batches"] >= 40


@pytest.mark.parametrize(
    ("span", "width"),
    [(None, 1), (0.0, 1), (119, 1), (120, 2), (3600, 60), (86400, 900), (86400 * 365, 86400 * 4)],
)
def test_there_are_at_most_120_intervals(span: float | None, width: int) -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    assert interval_seconds(None if span is None else first, first + timedelta(seconds=span or 0)) == width


def test_page_says_everything_and_its_queries_run(audit: Callable[..., Report], story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id in (select min(message_id) from mqpg_applied)")
    report = audit()
    page = unescape(as_html(report))
    assert "<h1>Invalid for 1 of 2 groups</h1>" in page
    (lost,) = [row for row in report.examples if row["kind"] == "lost"]
    for text in (lost["evidence"], f"message {lost['message_id']}", "group board", "Throughput", "Lag", "Latency"):
        assert text in page, text
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    statements = page.partition("<pre>")[2].partition("</pre>")[0].splitlines()
    assert len(statements) == 4
    for statement in statements:
        database = story.consumer if "mqpg_applied" in statement else story.broker
        database.execute(statement)


def test_page_escapes_what_databases_say(audit: Callable[..., Report]) -> None:
    report = audit()
    report.reasons = ("<script>alert(1)</script>",)
    assert "<script>" not in as_html(report)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in as_html(report)


def test_page_shows_faults_and_their_recovery(audit: Callable[..., Report]) -> None:
    report = audit()
    at = report.timeline["rows"][0]["at"]
    faults = [Fault(at, "SIGKILL", "broker-1", at + timedelta(seconds=2.5)), Fault(at, "SIGSTOP", "consumer-2")]
    page = as_html(report, faults)
    assert page.count('class="fault"') == 2 * (page.count("<svg") - 1)  # not in the plot of recoveries
    for text in ("SIGKILL", "broker-1", "SIGSTOP", "consumer-2", "p50 2.5 s"):
        assert text in page


def test_faults_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    log = tmp_path / "faults.jsonl"
    log.write_text(
        '{"at": "2026-11-23T10:00:05", "what": "SIGKILL", "target": "b"}\n\n'
        '{"at": "2026-11-23T10:00:00Z", "what": "cut", "target": "a", "recovered_at": "2026-11-23T10:00:01.5Z"}\n'
    )
    first, second = read_faults(log)
    assert (first.target, first.recovery_seconds) == ("a", 1.5)
    assert (second.at, second.recovery_seconds) == (datetime(2026, 11, 23, 10, 0, 5, tzinfo=UTC), None)


@pytest.mark.parametrize(
    "line", ["[]", "{", '{"at": "now", "what": "x", "target": "y"}', '{"at": 5, "what": "x"}', "7"]
)
def test_a_bad_line_of_faults_is_named(tmp_path: Path, line: str) -> None:
    log = tmp_path / "faults.jsonl"
    log.write_text(f'{{"at": "2026-11-23T10:00:05", "what": "SIGKILL", "target": "b"}}\n{line}\n')
    with pytest.raises(ConfigurationError, match=r"faults\.jsonl, line 2 must be an object"):
        read_faults(log)
