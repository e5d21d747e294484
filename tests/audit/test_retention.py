"""What retention has dropped is neither lost nor phantom. The rest is still audited."""

from collections.abc import Callable

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.retention import drop_what_may_go
from tests.audit.story import Story


def test_dropped_segments_are_not_audited(audit: Callable[..., Report], story: Story) -> None:
    open_half = story.prepare()  # survives its segment in `held`
    drop_what_may_go(story)
    report = audit()
    assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples
    story.local(open_half)
    story.commit(open_half)
    story.drain()
    message = story.business()
    story.drain()
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    second = audit()
    assert {kind: count for kind, count in second.anomalies.items() if count} == {"lost": 1}, second.examples


def test_a_seek_back_is_legal_after_its_queue_is_dropped(audit: Callable[..., Report], story: Story) -> None:
    """The journal has what was delivered again twice, and the queue that said so is gone."""
    story.broker.execute("select mqpg.seek('board', 'orders', 'earliest')")
    story.drain()
    (row,) = story.consumer.execute(
        "select message_id from mqpg_applied group by 1 having count(*) > 1 order by 1 limit 1"
    ).fetchall()
    drop_what_may_go(story)
    report = audit()
    assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples
    story.consumer.execute(
        "insert into mqpg_applied select * from mqpg_applied where message_id = %s limit 1", (row["message_id"],)
    )
    second = audit()
    assert {kind: count for kind, count in second.anomalies.items() if count} == {"duplicated": 1}, second.examples
