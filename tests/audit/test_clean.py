"""A clean history is valid, and the counts say what happened."""

from collections.abc import Callable

import pytest

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from mqpg.spark.read import stores, tuning
from tests.audit.judged import found, require_valid
from tests.audit.story import Story


def test_clean_history_is_valid_and_adds_up(audit: Callable[..., Report], story: Story) -> None:
    story.drain("mail", journal=False)
    report = require_valid(audit(drained=True, groups=("board",)))
    assert not any(report.anomalies.values())
    (topic,) = report.topics
    assert (topic["sent"], topic["prepared"], topic["rolled_back"], topic["undecided"]) == (51, 17, 2, 0)
    assert topic["committed"] == topic["queued"] == 66
    (group,) = report.groups
    assert (group["offsets"], group["applied"], group["dead"], group["retrying"]) == (66, 65, 1, 0)
    assert all(equation.holds for equation in report.equations)
    (relation,) = report.relations
    assert (relation.confirmed, relation.open, relation.consumed, relation.excused) == (15, 0, 14, 1)
    assert (relation.confirmed_le_consumed, relation.confirmed_plus_open_ge_consumed, relation.ids_equal) == (
        True,
        True,
        True,
    )
    histogram = {row["what"]: row["histogram"] for row in report.redelivery}
    assert histogram["applied"] == {0: 1, 1: 65}
    assert histogram["attempts"][1] == 64
    assert {row["step"] for row in report.latency} == {
        "prepare to decision",
        "commit to queue",
        "queue to effect",
        "commit to effect",
    }
    assert all(0 <= row["p50"] <= row["p95"] <= row["p99"] <= row["max"] for row in report.latency)


def test_running_system_is_valid_while_it_is_behind(audit: Callable[..., Report], story: Story) -> None:
    story.business()  # It is not appended.
    story.local(story.prepare())  # It is not decided yet.
    story.prepare()  # It is only prepared.
    report = require_valid(audit())
    (relation,) = report.relations
    assert (relation.open, relation.ahead, relation.confirmed_le_consumed, relation.ids_equal) == (1, 1, None, None)


def test_a_half_that_expired_is_a_rollback(audit: Callable[..., Report], story: Story) -> None:
    story.prepare()
    story.expire()
    report = require_valid(audit())
    assert [(topic["rolled_back"], topic["undecided"]) for topic in report.topics] == [(3, 0)]


@pytest.mark.spark
@pytest.mark.audits
@pytest.mark.parametrize("local", [True, False], ids=["parquet", "executors"])
def test_large_audits_give_the_same_report_with_shuffles(
    audit_in_spark: Callable[..., Report], story: Story, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    monkeypatch.setattr(tuning, "_SMALL", 0)
    monkeypatch.setattr(stores, "is_local", lambda _: local)
    story.consumer.execute("delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied)")
    report = audit_in_spark()
    assert found(report) == {"lost": 1}
    assert report.groups[0]["applied"] == 64


@pytest.mark.spark
@pytest.mark.audits
def test_audits_that_compile_expressions_give_the_same_report(
    audit_in_spark: Callable[..., Report], story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_INTERPRETED", -1)
    story.consumer.execute("delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied)")
    report = audit_in_spark()
    assert found(report) == {"lost": 1}
    assert report.groups[0]["applied"] == 64


@pytest.mark.parametrize(("more", "anomalies"), [(5, ["1 gap"]), (-1, [])])
def test_a_tick_that_counts_other_messages_than_it_appended(
    audit: Callable[..., Report], story: Story, more: int, anomalies: list[str]
) -> None:
    tick = story.one("select max(tick_id) from mqpg.tick")
    story.broker.execute("update mqpg.tick set messages = messages + %s where tick_id = %s", (more, tick))
    report = audit()
    assert report.verdict == Verdict.INVALID
    assert list(report.reasons) == [*anomalies, f"tick {tick}: appended does not hold"]
