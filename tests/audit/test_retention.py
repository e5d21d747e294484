"""What retention has dropped is neither lost nor phantom. The rest is still audited."""

from __future__ import annotations

import time
from collections.abc import Callable

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.story import Story


def dropped(story: Story) -> set[str]:
    """Return the families with a segment whose rows are dropped."""
    rows = story.broker.execute("select distinct family from mqpg.segment where body_dropped_at is not null").fetchall()
    return {row["family"] for row in rows}


def drop_what_may_go(story: Story) -> None:
    """Work with a retention of 0 until segments of messages and of queues are dropped."""
    broker = story.broker
    broker.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    deadline = time.monotonic() + 60
    while not {"log", "tick"} <= dropped(story) and time.monotonic() < deadline:
        for age in ("0 s", "6 hours"):
            broker.execute(
                "update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')", (age,)
            )
            broker.execute("update mqpg.topic set retention = '0 s'")
            for _ in range(1 if age == "0 s" else 20):
                broker.execute("select * from mqpg.keep()")
            # With a retention of 0, prepare() would be refused.
            broker.execute("update mqpg.topic set retention = '1 day'")
            story.business()
            story.drain()
            story.drain("mail", journal=False)
    assert {"log", "tick"} <= dropped(story)


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
