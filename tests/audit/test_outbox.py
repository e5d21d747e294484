"""An outbox takes the place of a ledger: a committed half message without a row is confirmed."""

from collections.abc import Callable

import pytest

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.judged import require_valid
from tests.audit.outbox_faults import store_row, use_outbox
from tests.audit.story import Story

pytestmark = pytest.mark.spark

_COUNTERS = """
create table if not exists mqpg_outbox_count (
    broker varchar(40), topic varchar(127), slot int, sent bigint, committed bigint, primary key (broker, topic, slot))
"""


def test_an_outbox_enters_the_counting_relations(audit: Callable[..., Report], story: Story) -> None:
    use_outbox(story)
    handle = story.prepare(dedup_id="under way")
    store_row(story, "under way", "commit", handle)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.drain()
    report = require_valid(audit())
    (relation,) = report.relations
    assert (relation.confirmed, relation.open, relation.consumed, relation.excused) == (15, 1, 15, 1)


@pytest.mark.parametrize(("counted", "verdict"), [((10, 5), Verdict.VALID), ((10, 6), Verdict.INVALID)])
def test_what_the_outbox_has_counted_is_still_there(
    audit: Callable[..., Report], story: Story, counted: tuple[int, int], verdict: Verdict
) -> None:
    """The broker may lose a message that it had confirmed, after the outbox has deleted its row (P7)."""
    use_outbox(story)
    for slot, committed in enumerate(counted):
        _count(story, committed, slot=slot)
    story.ledger.execute("insert into mqpg_outbox_count values ('another', 'orders', 0, 0, 99)")
    _drained(story)
    assert audit().verdict is Verdict.VALID  # judged only if nothing runs
    report = audit(drained=True, groups=("board",))
    assert report.verdict is verdict, report.reasons
    if verdict is Verdict.INVALID:
        assert any("confirmed > consumed" in reason for reason in report.reasons)


def test_what_the_outbox_has_counted_of_a_topic_that_was_dropped(audit: Callable[..., Report], story: Story) -> None:
    use_outbox(story)
    story.broker.execute("select mqpg.create_topic('gone', 1)")
    story.broker.execute("select mqpg.drop_topic('gone')")
    _count(story, 3, "gone")
    _drained(story)
    require_valid(audit(drained=True, groups=("board",)))


def _count(story: Story, committed: int, topic: str = "orders", slot: int = 0) -> None:
    """Let the outbox count messages that it has deleted."""
    story.ledger.execute(_COUNTERS)
    broker = story.one("select broker_id from mqpg.broker")
    row = (broker, topic, slot, committed)
    story.ledger.execute("insert into mqpg_outbox_count values (%s, %s, %s, 0, %s)", row)


def _drained(story: Story) -> None:
    story.drain()
    story.drain("mail", journal=False)
