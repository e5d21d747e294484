"""Every kind of anomaly, planted, is found, and found alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqpg.spark.audits import KINDS
from mqpg.spark.report import Report
from mqpg.spark.verdict import Verdict
from tests.audit.faults import FAULTS
from tests.audit.story import Story

pytestmark = pytest.mark.spark


def test_each_kind_is_planted() -> None:
    assert {fault.kind for fault in FAULTS.values()} == set(KINDS)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found_alone(name: str, story: Story, audit: Callable[..., Report]) -> None:
    fault = FAULTS[name]
    fault.plant(story)
    report = audit(**fault.options)
    assert report.verdict is Verdict.INVALID
    assert {kind for kind, count in report.anomalies.items() if count} == {fault.kind}, report.examples
    assert {row["kind"] for row in report.examples} == {fault.kind}
