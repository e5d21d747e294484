"""The audit finds every planted kind of anomaly, and no other kind."""

from collections.abc import Callable

import pytest

from mqpg.audit.kinds import KINDS
from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.all_faults import FAULTS, Fault
from tests.audit.conservation_faults import retry_that_nobody_asked_for
from tests.audit.cursor_faults import seek_whose_record_names_another_queue
from tests.audit.excuse_faults import loss_hidden_by_a_seek
from tests.audit.planting import BROKER_ONLY
from tests.audit.record_faults import row_of_a_retry_lane_deleted
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


def test_a_hole_in_the_lane_of_one_group_hides_nothing_of_another(story: Story, audit: Callable[..., Report]) -> None:
    retry_that_nobody_asked_for(story)
    story.broker.execute(
        "update mqpg.consume_queue set base_offset = 0, subscription_id = (select subscription_id from mqpg.subscription "
        "where consumer_group = 'mail') where subscription_id > 0 and "
        "base_offset = (select max(base_offset) from mqpg.consume_queue where subscription_id > 0)"
    )
    row_of_a_retry_lane_deleted(story)
    assert {kind for kind, count in audit().anomalies.items() if count} == {"gap", "phantom"}


def test_a_hole_of_a_queue_hides_no_row_that_is_there_twice(story: Story, audit: Callable[..., Report]) -> None:
    for _ in range(3):
        story.broker.execute("select mqpg.send('orders', '{}'::text, key => '1')")
        story.append()
    story.broker.execute(
        "insert into mqpg.consume_queue (base_offset, tick_id, topic_id, n, queue_id, first_ids, starts) "
        "select base_offset, (select max(tick_id) from mqpg.tick), topic_id, n, queue_id, first_ids, starts "
        "from mqpg.consume_queue where subscription_id = 0 and queue_id = 1 and base_offset = 0"
    )
    story.broker.execute("delete from mqpg.consume_queue where tick_id = (select max(tick_id) - 1 from mqpg.tick)")
    assert {kind for kind, count in audit(**BROKER_ONLY).anomalies.items() if count} == {"gap", "duplicated"}
