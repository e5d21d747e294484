"""Delay and schedule are bounded by the retention and can be recalled.

A hundred thousand scheduled messages cost an idle call of the appender nothing.
"""

import time

from tests.support.broker import Session, refused, seconds
from tests.support.waiting import eventually


def reads(mq: Session, call: str) -> int:
    """The number of pages that a call touches."""
    plan = mq.scalar(f"explain (analyze, buffers, format json) select mqpg.{call}")
    return int(plan[0]["Plan"]["Shared Hit Blocks"]) + int(plan[0]["Plan"]["Shared Read Blocks"])


def test_a_delay_up_to_the_retention_and_no_longer(mq: Session) -> None:
    mq.execute("update mqpg.topic set retention = '1 hour'")
    mq.send("one", "1", delay=seconds(3599))
    mq.execute("select mqpg.send('one', '1'::text, deliver_at => clock_timestamp() + interval '59 minutes')")
    mq.prepare("one", "1", delay=seconds(3600))
    with refused("MQ001", "retention of 01:00:00"):
        mq.send("one", "1", delay=seconds(3601))
    with refused("MQ001", "retention"):
        mq.call("send_batch", "one", ["1"], delay=seconds(3601))
    with refused("MQ001", "retention"):
        mq.execute("select mqpg.send('one', '1'::text, deliver_at => clock_timestamp() + interval '61 minutes')")
    with refused("MQ001", "retention"):
        mq.prepare("one", "1", delay=seconds(3601))
    mq.send("one", '"past"', delay=None)
    mq.execute("select mqpg.send('one', '\"now\"'::text, deliver_at => '2001-01-01')")
    assert [m.payload for m in mq.delivered("one")] == ["past", "now"]


def test_due_messages_come_with_the_next_pass_in_order_of_their_time(mq: Session) -> None:
    for i, delay in enumerate((900, 700, 800)):
        mq.send("one", str(i), delay=seconds(delay))
    assert mq.append() == 0
    mq.execute("update mqpg.delayed set visible_at = (select clock_timestamp()) + (visible_at - written_at) / 10000")
    mq.execute("select pg_sleep_until(max(visible_at)) from mqpg.delayed")
    assert mq.append() == 3
    assert [m.payload for m in mq.drain("one")] == [1, 2, 0]


def test_recall_until_it_is_due(mq: Session) -> None:
    kept, back = (mq.send("one", str(i), delay=seconds(0.1)) for i in range(2))
    assert mq.value("recall", back)
    assert mq.value("recall", back)
    time.sleep(0.15)
    eventually(lambda: mq.append() == 1)
    assert not mq.value("recall", kept)
    assert [m.payload for m in mq.drain("one")] == [0]
    with refused("MQ001"):
        mq.value("recall", 12345)


def test_a_hundred_thousand_scheduled_messages_cost_an_idle_pass_nothing(mq: Session) -> None:
    mq.send("one", "1", delay=seconds(3000))
    for _ in range(3):
        mq.append()
    few = reads(mq, "append()")
    mq.execute(
        "insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)"
        " select clock_timestamp() + interval '1 hour' + i * interval '1 ms', pg_current_xact_id(),"
        "  (1000000 + i) * 1024::bigint, 1, clock_timestamp(), 1, 0 from generate_series(1, 100000) i"
    )
    mq.append()
    many = [reads(mq, "append()") for _ in range(3)]
    assert min(many) <= few + 12  # a deeper index
