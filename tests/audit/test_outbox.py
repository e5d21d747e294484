"""An outbox takes the place of a ledger: a committed half message without a row is confirmed."""

from collections.abc import Callable

import pytest

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.outbox_faults import store_row, use_outbox
from tests.audit.story import Story

pytestmark = pytest.mark.spark


def test_an_outbox_enters_the_counting_relations(audit: Callable[..., Report], story: Story) -> None:
    use_outbox(story)
    handle = story.prepare(dedup_id="under way")
    store_row(story, "under way", "commit", handle)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.drain()
    report = audit()
    assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples
    (relation,) = report.relations
    assert (relation.confirmed, relation.open, relation.consumed, relation.excused) == (15, 1, 15, 1)
