"""What retention has dropped is neither lost nor phantom. The rest is still audited."""

from __future__ import annotations

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
