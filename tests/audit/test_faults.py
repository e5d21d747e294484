"""The audit finds every planted kind of anomaly, and no other kind."""

from collections.abc import Callable

import pytest

from mqpg.audit.kinds import KINDS
from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.all_faults import FAULTS, Fault
from tests.audit.cursor_faults import seek_whose_record_names_another_queue
from tests.audit.excuse_faults import loss_hidden_by_a_seek
from tests.audit.story import Story


def _batches() -> dict[str, list[Fault]]:
    """Group the faults that fit into one copy: those of one kind with the same options."""
    batches: dict[str, list[Fault]] = {}
    for fault in FAULTS:
        alone = [fault.name] if fault.alone else []
        batches.setdefault("-".join([fault.kind, *sorted(fault.options), *alone]), []).append(fault)
    return batches


_BATCHES = _batches()


def test_each_kind_is_planted() -> None:
    # test_incremental.py alters what was judged.
    assert {fault.kind for fault in FAULTS} == set(KINDS) - {"altered"}


@pytest.mark.parametrize("batch", _BATCHES)
def test_faults_are_found_and_no_other_kind(batch: str, story: Story, audit: Callable[..., Report]) -> None:
    faults = _BATCHES[batch]
    for fault in faults:
        fault.plant(story)
    report = audit(examples=1000, **faults[0].options)
    assert report.verdict is Verdict.INVALID
    assert {kind for kind, count in report.anomalies.items() if count} == {faults[0].kind}, report.examples
    assert {row["kind"] for row in report.examples} == {faults[0].kind}
    evidence = [row["evidence"] for row in report.examples]
    for fault in faults:
        assert any(fault.evidence in line for line in evidence), (fault.name, evidence)


def test_a_moved_cursor_of_one_group_hides_no_jump_of_another(story: Story, audit: Callable[..., Report]) -> None:
    seek_whose_record_names_another_queue(story)
    loss_hidden_by_a_seek(story)
    assert {kind for kind, count in audit().anomalies.items() if count} == {"skipped", "unexplained"}
