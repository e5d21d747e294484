"""What retention has dropped is neither lost nor phantom. The rest is still audited."""

import time
from collections.abc import Callable
from datetime import timedelta

import mqpg
from mqpg import protocols
from mqpg.audit.report import Report
from tests.audit.judged import found, require_valid
from tests.audit.retention import drop_what_may_go, dropped
from tests.audit.story import Story, Trio, let_die


def test_dropped_segments_are_not_audited(audit: Callable[..., Report], story: Story) -> None:
    open_half = story.prepare()  # survives its segment in `held`
    drop_what_may_go(story)
    require_valid(audit())
    story.local(open_half)
    story.commit(open_half)
    story.drain()
    message = story.business()
    story.drain()
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    second = audit()
    assert found(second) == {"lost": 1}, second.examples


def test_the_noted_ends_of_queues(audit: Callable[..., Report], story: Story) -> None:
    """A queue whose rows are dropped continues at the noted end, so a wrong one gives offsets twice."""
    drop_what_may_go(story)
    require_valid(audit())
    for change in (
        "delete from mqpg.queue_tail where topic_id > 0",
        "update mqpg.queue_tail set next_offset = next_offset - 1 where topic_id > 0",
        "update mqpg.queue_tail set next_offset = next_offset + 1 where topic_id > 0",
        "update mqpg.queue_tail set oldest_offset = oldest_offset - 1 where topic_id > 0 and queue_id >= 0",
        "update mqpg.queue_tail set oldest_offset = oldest_offset + 1000 where topic_id > 0",
    ):
        noted = story.broker.execute("select * from mqpg.queue_tail").fetchall()
        story.broker.execute(change.encode())
        kinds = found(audit())
        assert set(kinds) == {"gap"}, (change, kinds)
        story.broker.execute("delete from mqpg.queue_tail")
        for row in noted:
            story.broker.execute(
                "insert into mqpg.queue_tail values (%(topic_id)s, %(queue_id)s, %(subscription_id)s, %(next_offset)s, "
                "%(oldest_offset)s)",
                row,
            )
    require_valid(audit())


def test_a_seek_back_is_legal_after_its_queue_is_dropped(audit: Callable[..., Report], story: Story) -> None:
    """The journal has what was delivered again twice, and the queue that said so is gone."""
    story.broker.execute("select mqpg.seek('board', 'orders', 'earliest')")
    story.drain()
    (row,) = story.consumer.execute(
        "select message_id from mqpg_applied group by 1 having count(*) > 1 order by 1 limit 1"
    ).fetchall()
    drop_what_may_go(story)
    require_valid(audit())
    story.consumer.execute(
        "insert into mqpg_applied select * from mqpg_applied where message_id = %s limit 1", (row["message_id"],)
    )
    second = audit()
    assert found(second) == {"duplicated": 1}, second.examples


def test_a_seek_back_over_ranges_that_expired_in_two_slots(audit: Callable[..., Report], story: Story) -> None:
    """The versions of the first slot are dropped, and those of the second do not explain its range."""
    broker = story.broker
    broker.execute("select mqpg.create_topic('brief', 1), mqpg.subscribe('late', 'brief')")
    broker.execute("select mqpg.alter_topic('brief', message_ttl => '10 ms')")
    for n in range(2):
        broker.execute("select mqpg.send('brief', '1'::text)")
        story.append()
        broker.execute("select pg_sleep(0.02)")
        assert broker.execute("select * from mqpg.receive('late', 'brief')").fetchall() == []
        for age, calls in (("0 s", 1), ("6 hours", 10)) if n == 0 else ():
            broker.execute("update mqpg.settings set value = %s where name = 'cursor_slot_age'", (age,))
            for _ in range(calls):
                broker.execute("select * from mqpg.keep()")
    assert "cursor" in dropped(story)
    broker.execute("select mqpg.seek('late', 'brief', '1', queue_id => 0)")
    require_valid(audit())


def test_a_purged_journal_is_valid(audit: Callable[..., Report], story: Story, trio: Trio) -> None:
    """Only rows go whose messages the broker has dropped. What is wrong with the others is found."""
    journal = "select count(*) as n from mqpg_applied"

    def purge() -> int:
        url = trio.consumer.replace("postgresql://", "postgresql+psycopg://")
        with mqpg.connect(trio.broker) as mq:
            return protocols.purge_journal(mq, url, "board", "orders", older_than=timedelta(0))

    (before,) = story.consumer.execute(journal).fetchall()
    assert purge() == 0
    drop_what_may_go(story)
    deleted = purge()
    assert 0 < deleted <= before["n"]
    assert purge() == 0
    require_valid(audit())
    message = story.business()
    story.drain()
    purge()
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    second = audit()
    assert found(second) == {"lost": 1}, second.examples


def drop_delayed_before(story: Story, time: str) -> None:
    """As if the day had been over then, and what was delayed until then were dropped."""
    story.broker.execute(
        "insert into mqpg.segment (family, segment_no, lower_bound, upper_bound, opened_at, body_dropped_at, dropped_at) "
        "values ('delayed', 0, '-infinity', %s, '2000-01-01', %s, %s)",
        (time, time, time),
    )
    story.broker.execute(
        "update mqpg.segment set lower_bound = %s where family = 'delayed' and segment_no = 1", (time,)
    )
    story.broker.execute("delete from mqpg.delayed where written_at < %s", (time,))


def test_a_message_redriven_again_whose_first_row_is_dropped(audit: Callable[..., Report], story: Story) -> None:
    """It came into the retry lane twice as the first attempt, and a row that is left says when for the second time."""
    story.drain()
    message, broker = int(story.one("select message_id from mqpg.dead_letter")), story.broker
    broker.execute("select mqpg.redrive('board', 'orders')")
    time.sleep(0.01)
    let_die(story, message)
    drop_delayed_before(story, story.one("select clock_timestamp()::text"))
    broker.execute("select mqpg.redrive('board', 'orders')")
    require_valid(audit())
    time.sleep(0.01)
    story.drain()
    require_valid(audit())


def test_two_retries_at_once_of_which_the_first_row_is_dropped(audit: Callable[..., Report], story: Story) -> None:
    """The message was moved back while its retry waited, so both are the second attempt."""
    broker = story.broker
    broker.execute("select mqpg.create_topic('short', 1)")
    broker.execute("select mqpg.subscribe('late', 'short')")
    message = story.one("select mqpg.send('short', '{}'::text)")
    story.append()
    now = ""
    for delay in ("10 ms", "1 hour"):
        broker.execute("select mqpg.seek('late', 'short', 'earliest')")
        (row,) = broker.execute("select * from mqpg.receive('late', 'short')").fetchall()
        broker.execute("select mqpg.nack(%s, %s, delay => %s)", (row["receipt"], [message], delay))
        now = now or story.one("select clock_timestamp()::text")
    time.sleep(0.05)
    assert story.append() == 1
    require_valid(audit())
    drop_delayed_before(story, now)
    require_valid(audit())
