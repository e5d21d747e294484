"""Queues out of which a merge of segments has left rows: legal, and what is missing elsewhere is found."""

from collections.abc import Callable

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.judged import require_valid
from tests.audit.story import Story


def _merge_behind_the_oldest_segment(story: Story) -> None:
    """Let topic `long`, which nobody reads, keep the oldest segment; those behind it merge without `orders`."""
    broker = story.broker
    broker.execute("select mqpg.create_topic('long', 1), mqpg.subscribe('lag', 'long')")
    broker.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    for _ in range(40):
        story.business()
        broker.execute("select mqpg.send('long', '1'::text)")
        story.drain()
        story.drain("mail", journal=False)
        for age, calls in (("0 s", 1), ("6 hours", 6)):
            broker.execute(
                "update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')", (age,)
            )
            broker.execute("update mqpg.topic set retention = '0 s' where name = 'orders'")
            for _ in range(calls):
                broker.execute("select * from mqpg.keep()")
            broker.execute("update mqpg.topic set retention = '1 day'")
        if story.one("select count(*) from mqpg.segment where family = 'tick' and left_out <> '{}'"):
            break
    story.business()
    story.drain()
    assert story.one("select count(*) from mqpg.segment where family = 'tick' and left_out <> '{}'")


def test_a_merge_that_left_out_what_is_past_retention(audit: Callable[..., Report], story: Story) -> None:
    _merge_behind_the_oldest_segment(story)
    require_valid(audit())
    story.broker.execute(
        "delete from mqpg.consume_queue where (topic_id, base_offset) = "
        "(select topic_id, max(base_offset) - 1 from mqpg.consume_queue join mqpg.topic using (topic_id) "
        "where name = 'long' group by 1)"
    )
    report = audit()
    assert report.verdict is Verdict.INVALID
    assert {kind for kind, count in report.anomalies.items() if count} <= {"gap", "lost"}
