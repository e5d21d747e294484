"""The two engines run one text in two dialects. They must give the same report on any history."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqpg.audit.kinds import KINDS
from mqpg.audit.report import Report
from mqpg.audit.sql.engine import run_audit as run_sql_audit
from mqpg.spark.jobs.audit import run_audit
from mqpg.spark.read.session import session_settings
from tests.audit.all_faults import FAULTS
from tests.audit.random_history import damage, work
from tests.audit.story import Story, Trio

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
_RANGE = ("kind", "consumer_group", "topic", "queue_id", "queue_offset", "message_id")


def facts(report: Report) -> dict[str, Any]:
    """What both engines must agree on: everything but times and the wording of evidence."""
    found = {
        name: getattr(report, name)
        for name in (
            "verdict",
            "reasons",
            "anomalies",
            "equations",
            "relations",
            "topics",
            "groups",
            "lag",
            "redelivery",
        )
    }
    found["examples"] = sorted(str([row[name] for name in _RANGE]) for row in report.examples)
    found["steps"] = [(row["step"], row["topic"], row["consumer_group"], row["messages"]) for row in report.latency]
    found["steps"].sort(key=str)
    found["left_out"] = report.run["broker"]["left_out"]
    return found


@pytest.fixture
def compare(spark: SparkSession, trio: Trio) -> Callable[..., Report]:
    """A function that audits `trio` with both engines, requires equal facts and returns one report."""

    def run(context: object = None, **options: Any) -> Report:
        asked = trio.options(**({"examples": 10_000} | options))
        with session_settings(spark, {ZONE: "Asia/Tokyo"}):  # an audit leaves the session as it was
            reports = [run_audit(asked), run_sql_audit(asked)]
            assert spark.conf.get(ZONE) == "Asia/Tokyo"
        by_spark, by_sql = map(facts, reports)
        for name, expected in by_spark.items():
            assert by_sql[name] == expected, (name, context, reports[0].examples, reports[1].examples)
        for one, other in zip(*(sorted(r.latency, key=lambda row: str(row["step"])) for r in reports), strict=True):
            for quantile in ("p50", "p95", "p99", "max"):
                assert one[quantile] == pytest.approx(other[quantile], abs=1e-6)
        return reports[1]

    return run


@pytest.mark.audits
@pytest.mark.parametrize("times", [0, 1, 2, 4, 8])
def test_random_histories(times: int, rng: random.Random, story: Story, compare: Callable[..., Report]) -> None:
    """Legal work, then `times` random changes of rows."""
    work(story, rng, rng.randint(5, 50))
    done = damage(story, rng, times)
    compare(done, drained=rng.random() < 0.5)


# Faults that fit into one history, planted in this order: the last ones take away what a consumer reads. The one of
# the kind `unconfirmed` needs an outbox in the place of the ledger.
_TOGETHER = {
    "ledger": (
        "effect_repeated",
        "appended_by_a_tick_that_had_not_seen_it",
        "half_left_open",
        "keyed_message_of_another_queue",
        "messages_of_a_key_swapped",
        "acknowledged_without_a_claim",
        "went_back_without_a_seek",
        "acknowledged_with_a_stale_epoch",
        "taken_over_before_the_lease_ended",
        "dedup_id_stored_twice",
        "loss_hidden_by_a_dead_letter",
        "loss_hidden_by_a_seek",
        "effect_of_no_message",
        "local_commit_rolled_back",
        "runs_that_do_not_add_up",
        "payloads_missing",
        "commit_slipped_past_the_appender",
    ),
    "outbox": ("prepared_and_not_decided",),
}
_FAULTS = {fault.name: fault for fault in FAULTS}


def test_faults_of_every_kind_are_planted() -> None:
    assert {_FAULTS[name].kind for names in _TOGETHER.values() for name in names} == set(KINDS) - {"altered"}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(_TOGETHER["ledger"], id="ledger", marks=pytest.mark.slow),
        pytest.param(_TOGETHER["outbox"], id="outbox", marks=pytest.mark.audits),
    ],
)
def test_both_find_faults_of_many_kinds(names: tuple[str, ...], story: Story, compare: Callable[..., Report]) -> None:
    faults = [_FAULTS[name] for name in names]
    for fault in faults:
        fault.plant(story)
    report = compare(drained=True)
    found = [(row["kind"], row["evidence"]) for row in report.examples]
    for fault in faults:
        assert any(kind == fault.kind and fault.evidence in line for kind, line in found), (fault.name, found)
