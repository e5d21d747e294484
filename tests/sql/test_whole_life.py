"""find_by_key and trace: the whole life of a message, at a cost that does not grow with the log."""

from typing import Any

from tests.support.broker import Session, seconds, story
from tests.support.waiting import eventually


def in_order(events: list[str], *wanted: str) -> bool:
    rest = iter(events)
    return all(event in rest for event in wanted)


def test_a_half_through_everything_that_can_happen(mq: Session) -> None:
    mq.call("create_producer_group", "asked", check_after=seconds(0.01))
    mq.call("alter_subscription", "g", "one", max_attempts=2, retry_delay=seconds(0))
    handle = mq.prepare("one", '"life"', "asked", key="k")
    message_id = int(handle.split(".")[2])
    eventually(lambda: mq.call("due_checks", "asked"))
    mq.call("check_wait", handle)
    mq.commit(handle, '"final"')
    mq.append()
    for consumer in ("c1", "c2"):
        (message,) = mq.receive("one", consumer=consumer)
        assert message.payload == "final"
        mq.nack(message.receipt, [message_id], reason=f"failed at {consumer}")
        mq.append()
    assert [letter.payload for letter in mq.call("dead_letters", "g", "one")] == ["final"]
    mq.value("redrive", "g", "one")
    assert [one.payload for one in mq.delivered("one", consumer="c3")] == ["final"]
    mq.call("seek", "g", "one", "earliest")
    (message,) = mq.receive("one", consumer="c4")
    mq.ack(message.receipt)
    rows = mq.call("trace", message_id)
    events = [row.event for row in rows]
    assert in_order(
        events, "prepared", "asked", "waited", "decided", "appended", "delivered", "retry", "appended", "delivered",
        "dead", "redriven", "appended", "delivered", "done", "moved_back", "delivered", "done",
    ), events  # fmt: skip
    consumers = [row.detail["consumer"] for row in rows if row.event == "delivered"]
    assert consumers == ["c1", "c2", "c3", "c4"]
    assert [row.detail["reason"] for row in rows if row.event in ("retry", "dead")] == ["failed at c1", "failed at c2"]
    (found,) = mq.call("find_by_key", "one", "k")
    assert (found.message_id, found.payload, found.state) == (message_id, "final", "appended")


def test_what_failed_is_not_done(mq: Session) -> None:
    mq.call("alter_subscription", "g", "one", max_attempts=2, retry_delay=seconds(0))
    good, mended, dead = mq.sent_batch("one", ["1", "2", "3"])
    for failing in ([mended, dead], [dead]):
        while found := mq.receive("one"):
            if failed := [one.message_id for one in found if one.message_id in failing]:
                mq.nack(found[0].receipt, failed, reason="no")
            mq.ack(found[0].receipt)
        mq.append()
    assert story(mq, good) == ["born", "appended", "delivered", "done"]
    assert story(mq, mended) == ["born", "appended", "delivered", "retry", "appended", "delivered", "done"]
    assert story(mq, dead) == ["born", "appended", "delivered", "retry", "appended", "delivered", "dead"]


def test_what_was_left_out_and_recalled(mq: Session) -> None:
    sent = mq.sent("one", "1")
    mq.call("purge_topic", "one")
    assert story(mq, sent) == ["born", "appended", "left_out"]
    late = mq.send("one", "1", delay=seconds(60))
    mq.value("recall", late)
    assert story(mq, late) == ["born", "recalled"]


def test_deliveries_of_every_era_between_seeks(mq: Session) -> None:
    ids = mq.sent_batch("one", [str(i) for i in range(6)])
    for consumer in ("first", "second", "third"):
        assert len(mq.drain("one", consumer=consumer, max_messages=2)) == 6
        mq.call("seek", "g", "one", "0", queue_id=0)
    for message_id in (ids[0], ids[3], ids[5]):
        rows = mq.call("trace", message_id)
        assert [r.detail["consumer"] for r in rows if r.event == "delivered"] == ["first", "second", "third"]
        assert [r.event for r in rows].count("done") == 3
        assert [r.event for r in rows].count("moved_back") == 3


def test_filtered_messages_say_so(mq: Session) -> None:
    mq.call("subscribe", "few", "one", tags=["wanted"])
    other, wanted = mq.sent("one", "1", tag="other"), mq.sent("one", "2", tag="wanted")
    assert [m.payload for m in mq.drain("one", group="few")] == [2]
    mq.drain("one")

    def of_few(message_id: int) -> list[str]:
        return [r.event for r in mq.call("trace", message_id) if r.detail.get("consumer_group") == "few"]

    assert of_few(wanted) == ["delivered", "done"]
    assert "delivered" not in of_few(other)


def test_the_cost_does_not_grow_with_the_log(mq: Session) -> None:
    """The pages read for a message in the middle do not grow when the log is five times as long."""

    def reads(call: str, *args: Any) -> int:
        plan = mq.scalar(f"explain (analyze, buffers, format json) select * from mqpg.{call}", *args)
        return int(plan[0]["Plan"]["Shared Hit Blocks"]) + int(plan[0]["Plan"]["Shared Read Blocks"])

    def more(n: int) -> None:
        for _ in range(n):
            mq.sent("one", "1")
            mq.ack(mq.receive("one")[0].receipt)

    more(30)
    message_id = mq.sent("one", "1", key="k")
    mq.ack(mq.receive("one")[0].receipt)
    more(60)
    mq.execute("analyze")
    few = []
    for _ in range(2):
        few = [reads("trace(%s)", message_id), reads("find_by_key('one', %s)", "k")]
    more(350)
    mq.execute("analyze")
    many = []
    for _ in range(2):
        many = [reads("trace(%s)", message_id), reads("find_by_key('one', %s)", "k")]
    assert story(mq, message_id) == ["born", "appended", "delivered", "done"]
    assert many[0] < few[0] * 1.6 + 40, (few, many)
    assert many[1] < few[1] * 1.6 + 20, (few, many)
