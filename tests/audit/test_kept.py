"""What a report is worth afterwards: amounts, findings as a table and as a frame, and what has changed."""

import json
from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from mqpg.audit.changes import changes_since, read_report
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report, as_json
from mqpg.audit.sql.engine import run_audit as run_sql_audit
from mqpg.errors import ConfigurationError, NotGranted
from mqpg.spark.jobs.audit import findings_frame, run_audit_in
from tests.audit.commands import as_role, page_of, require_schema, run
from tests.audit.record_faults import row_of_a_queue_deleted
from tests.audit.story import Story, Trio


def lose(story: Story, *payloads: str) -> list[int]:
    """Write messages that the group acknowledges and does not apply."""
    lost = [story.business(payload) for payload in payloads]
    story.drain()
    story.consumer.execute("delete from mqpg_applied where message_id = any(%s)", (lost,))
    return lost


def test_a_loss_has_a_size(audit: Callable[..., Report], story: Story) -> None:
    """Each message counts once, with the payload that was delivered, however odd its JSON is."""
    replaced = story.prepare('{"total": 1000000}')
    story.local(replaced)
    story.broker.execute("select mqpg.commit(%s, %s::json)", (replaced, '{"total": 0.10}'))
    lost = lose(
        story,
        '{"total": 12345678901234567890.25, "items": [{"total": 1}, {"total": 2}]}',
        '{"total": -0.35}',
        '{"total": "7"}',
        '{"total": 5, "name": "\\u0000"}',
        '{"total": 1e200000}',
    )
    replaced_id = int(replaced.split(".")[2])
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (replaced_id,))
    story.consumer.execute(
        "insert into mqpg_applied (consumer_group, topic, queue_id, queue_offset, message_id, applied_at) "
        "values ('board', 'orders', 0, 0, 999999999, now())"
    )
    report = audit(amount="$.total")
    assert report.anomalies["lost"] == len(lost) + 1
    assert asdict(report.amounts["lost"]) == {
        "amount": Decimal("12345678901234567890.00"),
        "messages": 3,
        "without_amount": 3,
        "without_body": 0,
    }
    assert "12,345,678,901,234,567,890.00 in 3 messages, 3 without amount" in " ".join(page_of(report).split())
    gone = next(one for kind, one in report.amounts.items() if kind != "lost")
    assert (gone.messages, gone.without_amount, gone.without_body) == (0, 0, 1)
    require_schema(report)
    assert audit(amount="$.items[*].total").amounts["lost"].amount == 3
    assert audit().amounts == {}


def test_what_retention_dropped_has_no_body(trio: Trio, story: Story) -> None:
    (lost,) = lose(story, '{"total": 7}')
    story.broker.execute("delete from mqpg.commit_log where batch_id = %s", (lost >> 10,))
    amounts = run_sql_audit(trio.options(amount="$.total")).amounts
    assert {(one.messages, one.without_body) for one in amounts.values()} == {(0, 1)}


def test_what_a_deleted_row_of_a_queue_held_has_its_amount(trio: Trio, story: Story) -> None:
    row_of_a_queue_deleted(story)
    amounts = run_sql_audit(trio.options(amount="$.n")).amounts
    assert [(kind, one.amount > 0, one.without_body) for kind, one in amounts.items()] == [("gap", True, 0)]


@pytest.mark.parametrize("path", ["$.", "total", "$total", ""])
def test_a_bad_jsonpath_is_named(trio: Trio, path: str) -> None:
    with pytest.raises(ConfigurationError, match="--amount must be a jsonpath such as"):
        run_sql_audit(trio.options(amount=path))


def test_an_auditor_may_read_no_amount(role: str, trio: Trio, story: Story) -> None:
    story.broker.execute("select mqpg.grant_auditor(%s)", (role,))
    with pytest.raises(NotGranted, match="--amount reads payloads"):
        run_sql_audit(AuditOptions(dsn=as_role(trio.broker, role), amount="$.total"))


def test_findings_are_added_to_a_table(audit: Callable[..., Report], story: Story) -> None:
    lost = lose(story, *["{}"] * 40)
    story.broker.execute("create schema audits")
    for into in ("findings", 'audits."Of orders"', "findings"):
        report = audit(into=into, examples=2)
        written = into if "." in into else f"public.{into}"
        rows = story.broker.execute(f"select * from {written} where run_id = %s", (report.run["run_id"],)).fetchall()
        assert len(rows) == sum(report.anomalies.values()) >= 40
        assert {row["message_id"] for row in rows if row["kind"] == "lost"} == set(lost)
        assert {row["at"] for row in rows} == {report.run["at"]}
        assert [row["evidence"] for row in rows if row["message_id"] == lost[0]]
    assert story.one("select count(distinct run_id) from public.findings") == 2


@pytest.mark.parametrize(
    ("into", "why"),
    [
        ("of_others", "other columns than run_id uuid"),
        ("nowhere.t", 'schema "nowhere" does not exist'),
        ("a.b.c", r"TABLE or SCHEMA.TABLE"),
        ("a b", "not a valid identifier"),
        ("mqpg.findings", "in none of mqpg"),
    ],
)
def test_a_table_that_cannot_be_used_is_named(trio: Trio, story: Story, into: str, why: str) -> None:
    story.broker.execute("create table of_others (run_id uuid, n int)")
    with pytest.raises(ConfigurationError, match=f"^--into {into}: .*{why}"):
        run_sql_audit(trio.options(into=into))
    assert story.one("select count(*) from of_others") == 0


def test_a_table_needs_rights(role: str, trio: Trio, story: Story) -> None:
    story.broker.execute("select mqpg.grant_auditor(%s)", (role,))
    run_sql_audit(trio.options(into="mine"))
    story.broker.execute("revoke create on schema public from public")
    for into, why in (("mine", "permission denied for table mine"), ("new", "permission denied for schema public")):
        with pytest.raises(NotGranted, match=f"--into {into}: {why}"):
            run_sql_audit(AuditOptions(dsn=as_role(trio.broker, role), into=into))
    story.broker.execute(sql.SQL("grant insert on mine to {}").format(sql.Identifier(role)))
    assert run_sql_audit(AuditOptions(dsn=as_role(trio.broker, role), into="mine")).run["run_id"]


def test_a_report_says_what_changed_since_another(trio: Trio, story: Story, tmp_path: Path) -> None:
    earlier, page = tmp_path / "earlier.json", tmp_path / "page.html"
    options = ("--dsn", trio.broker, "--applied", f"board={trio.consumer}", "--ledger", f"shop={trio.ledger}")
    earlier.write_text(run(*options, "--json")[1])
    _, out, err = run(*options, "--since-report", str(earlier), "--json")
    before, same = json.loads(out)["changes"]
    assert before.endswith(", which was valid"), err
    assert same == "the findings are the same"
    lose(story, "{}", "{}")
    arguments = ("--slack", "60", "--group", "board", "--since-report", str(earlier), "--html", str(page))
    status, out, err = run(*options, *arguments)
    assert status == 1, err
    for text in (" ".join(out.split()), page.read_text()):
        for line in (
            "lost: 0 before, 2 now",
            "slack: 300.0 before, 60.0 now",
            "messages: 68 before, 70 now",
            "not judged, no more: consumer group without a journal: mail",
        ):
            assert line in text, line


def test_an_earlier_report_that_was_changed_is_refused(trio: Trio, tmp_path: Path) -> None:
    report, file = run_sql_audit(trio.options()), tmp_path / "report.json"
    file.write_text(as_json(report))
    assert changes_since(read_report(file), report)[1:] == ["the findings are the same"]
    file.write_text(as_json(report).replace('"lost": 0', '"lost": 1'))
    with pytest.raises(ConfigurationError, match="was changed"):
        read_report(file)
    for text in ("[]", "{", '{"report_version": 1}', "\udcff"):
        file.write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(ConfigurationError, match="is no report"):
            read_report(file)
    file.write_text(as_json(report).replace('"report_version": 1', '"report_version": 9'))
    with pytest.raises(ConfigurationError, match="report_version 9"):
        read_report(file)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_report(tmp_path / "none.json")


@pytest.mark.spark
@pytest.mark.audits
def test_findings_are_a_frame(spark: SparkSession, trio: Trio, story: Story) -> None:
    lost = lose(story, '{"total": 1}', '{"total": 2}')
    report = run_audit_in(spark, trio.options(examples=1_000_000, amount="$.total"))
    frame = findings_frame(spark, report)
    assert [row.message_id for row in frame.where("kind = 'lost'").orderBy("message_id").collect()] == lost
    assert frame.count() == sum(report.anomalies.values())
    assert report.amounts == run_sql_audit(trio.options(amount="$.total")).amounts
    assert dict(frame.dtypes)["queue_offset"] == "bigint"
    report.examples = []
    assert findings_frame(spark, report).count() == 0
