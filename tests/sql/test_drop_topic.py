"""drop_topic() without force: every message that anybody could still want keeps the topic."""

import pytest

from tests.support.broker import Broker, Session, refused, seconds


@pytest.fixture
def free(mq: Session) -> Session:
    """Topic `free` with two queues, which no group reads."""
    mq.call("create_topic", "free", queues=2)
    return mq


@pytest.mark.parametrize("appended", [False, True], ids=["not appended", "appended"])
def test_a_message_in_a_topic_that_nobody_reads_keeps_it(free: Session, appended: bool) -> None:
    free.send_batch("free", ["1", "2", "3"])
    if appended:
        free.append()
    with refused("MQ012", "free"):
        free.call("drop_topic", "free")
    free.call("drop_topic", "free", force=True)


@pytest.mark.parametrize("appended", [False, True], ids=["not appended", "appended"])
def test_a_message_for_a_broadcast_group_that_nobody_has_joined_keeps_the_topic(free: Session, appended: bool) -> None:
    free.call("subscribe", "g", "free", mode="broadcast")
    free.send("free", "1")
    if appended:
        free.append()
    with refused("MQ012", "free"):
        free.call("drop_topic", "free")
    assert free.delivered("free", consumer="first")
    free.call("drop_topic", "free")


def test_a_group_that_starts_at_the_end_wants_nothing_that_was_there(free: Session) -> None:
    free.sent("free", "1")
    free.call("subscribe", "g", "free", mode="broadcast", start="latest")
    free.call("drop_topic", "free")


def test_what_a_group_has_read_keeps_no_topic_and_what_it_left_unread_does_without_it(free: Session) -> None:
    free.call("subscribe", "g", "free")
    free.sent("free", "1")
    free.drain("free")
    with free.conn.transaction(force_rollback=True):
        free.call("drop_topic", "free")
    free.call("unsubscribe", "g", "free")
    with refused("MQ012", "no consumer group reads it"):
        free.call("drop_topic", "free")


def test_a_recalled_message_keeps_no_topic_and_a_delayed_one_beside_it_does(free: Session) -> None:
    ids = [row[0] for row in free.rows("select mqpg.send_batch('free', '{1,2}'::text[], delay => '1 hour')")]
    for message_id in ids:
        with refused("MQ012", "delayed"):
            free.call("drop_topic", "free")
        assert free.value("recall", message_id)
    free.call("drop_topic", "free")


def test_a_recall_that_is_not_committed_yet_keeps_the_topic(free: Session, broker: Broker) -> None:
    message_id = free.send("free", "1", delay=seconds(3600))
    with broker.transaction() as other:
        assert other.value("recall", message_id)
        with refused("MQ012", "delayed"):
            free.call("drop_topic", "free")
    free.call("drop_topic", "free")


def test_a_purged_retry_keeps_no_topic(free: Session) -> None:
    free.call("subscribe", "g", "free", retry_delay=seconds(3600))
    free.sent("free", "1")
    got = free.receive("free")
    free.nack(got[0].receipt, [got[0].message_id])
    with refused("MQ012", "delayed"):
        free.call("drop_topic", "free")
    free.call("purge_topic", "free")
    free.call("drop_topic", "free")


# calls that wait for a drop under way


MEANWHILE = [
    ("drop_topic('free', force => true)", "drop_topic('free', force => true)", "MQ003"),
    ("drop_topic('free', force => true)", "alter_topic('free', max_payload => 9)", "MQ003"),
    ("drop_topic('free', force => true)", "subscribe('late', 'free')", "MQ003"),
    ("drop_topic('free', force => true)", "pause('free')", "MQ003"),
    ("drop_topic('free', force => true)", "resume('free')", "MQ003"),
    ("drop_topic('free', force => true)", "pause('free', 'g')", "MQ005"),
    ("drop_topic('free', force => true)", "unsubscribe('g', 'free')", "MQ005"),
    ("unsubscribe('g', 'free')", "unsubscribe('g', 'free')", "MQ005"),
    ("drop_producer_group('pg')", "drop_producer_group('pg')", "MQ004"),
]


@pytest.mark.parametrize(("first", "second", "code"), MEANWHILE, ids=lambda value: str(value).split("(")[0])
@pytest.mark.parametrize("mode", ["exclusive", "broadcast"])
def test_what_is_dropped_meanwhile_is_unknown(
    free: Session, broker: Broker, other: Session, first: str, second: str, code: str, mode: str
) -> None:
    free.call("subscribe", "g", "free", mode=mode)
    with free.transaction():
        free.execute(f"select mqpg.{first}")
        waiting = broker.blocked(other, other.execute, f"select mqpg.{second}")
    with refused(code, "meanwhile"):
        waiting.result(45)


def test_a_group_may_subscribe_where_the_drop_rolled_back(free: Session, broker: Broker, other: Session) -> None:
    with free.conn.transaction(force_rollback=True):
        free.call("drop_topic", "free")
        waiting = broker.blocked(other, other.call, "subscribe", "late", "free")
    waiting.result(45)
    free.sent("free", "1")
    assert len(free.drain("free", group="late")) == 1


def test_a_subscription_waits_for_a_drop_with_a_time_out(free: Session, broker: Broker) -> None:
    free.execute("update mqpg.settings set value = '100 ms' where name = 'lock_timeout'")
    other = broker.session("set statement_timeout = '20s'")
    with free.conn.transaction(force_rollback=True):
        free.call("drop_topic", "free")
        with refused("55P03"):
            other.call("subscribe", "late", "free")
