"""ready: which topics of a group got something after a tick, cheap for many topics."""

from typing import Any

from tests.support.broker import Session, refused, seconds


def ready(mq: Session, *args: Any, group: str = "g") -> dict[str, int]:
    return {row.topic: row.tick for row in mq.call("ready", group, *args)}


def test_topics_that_got_something_after_a_tick(mq: Session) -> None:
    assert ready(mq) == {}
    mq.sent("one", "1")
    first = ready(mq)
    assert set(first) == {"one"}
    assert ready(mq, first["one"]) == {}
    mq.sent("t", "1")
    second = ready(mq, first["one"])
    assert set(second) == {"t"}
    assert second["t"] > first["one"]
    assert ready(mq) == first | second


def test_only_topics_of_the_group(mq: Session) -> None:
    mq.subscribed("foreign", queues=8, group="h")
    mq.sent("foreign", "1")
    assert ready(mq) == {}
    assert set(ready(mq, group="h")) == {"foreign"}


def test_a_group_without_a_subscription_is_refused(mq: Session) -> None:
    with refused("MQ005", "nobody"):
        ready(mq, group="nobody")
    mq.sent("one", "1")
    newest = ready(mq)["one"]
    with refused("MQ005", "nobody"):
        ready(mq, newest, group="nobody")
    assert ready(mq, newest) == {}


def test_a_retry_makes_its_topic_ready(mq: Session) -> None:
    mq.sent("one", "1")
    (message,) = mq.receive("one")
    before = ready(mq)["one"]
    mq.nack(message.receipt, [message.message_id], delay=seconds(0))
    mq.append()
    assert ready(mq, before)["one"] > before


def pass_many_ticks(mq: Session) -> None:
    mq.execute(
        "insert into mqpg.tick select k.tick_id + i, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, 0,"
        " '{}', at from (select * from mqpg.tick order by tick_id desc limit 1) k, generate_series(1, 10050) i"
    )


def test_a_retry_of_a_member_is_seen_after_very_many_ticks(mq: Session) -> None:
    mq.call("subscribe", "b", "one", mode="broadcast")
    mq.sent("one", "1")
    (message,) = mq.receive("one", group="b", consumer="c")
    before = ready(mq, group="b")["one"]
    mq.nack(message.receipt, [message.message_id], delay=seconds(0))
    mq.append()
    pass_many_ticks(mq)
    assert ready(mq, before, group="b") == {"one": before + 1}
    assert ready(mq, before) == {}


def test_after_very_many_ticks_it_looks_at_the_queues_instead(mq: Session) -> None:
    mq.sent("one", "1")
    first = ready(mq)
    pass_many_ticks(mq)
    mq.sent("t", "1")
    assert ready(mq) == first | {"t": mq.scalar("select max(tick_id) from mqpg.tick")}
    assert set(ready(mq, first["one"])) == {"t"}


def test_a_thousand_topics_cost_one_look(mq: Session) -> None:
    """What a call reads does not depend on 1,000 idle topics with 8 queues."""

    def buffers(after: int) -> int:
        plan = mq.scalar("explain (analyze, buffers, format json) select * from mqpg.ready('g', %s)", after)
        return int(plan[0]["Plan"]["Shared Hit Blocks"]) + int(plan[0]["Plan"]["Shared Read Blocks"])

    mq.sent("one", "1")
    newest = mq.scalar("select max(tick_id) from mqpg.tick")
    buffers(newest)
    few = buffers(newest)
    mq.execute("select mqpg.create_topic('t' || i), mqpg.subscribe('g', 't' || i) from generate_series(1, 1000) i")
    assert min(buffers(newest) for _ in range(3)) <= few + 4
    mq.sent("t500", "1")
    assert ready(mq, newest) == {"t500": newest + 1}
    assert min(buffers(newest) for _ in range(3)) < few + 60
