"""The traps of the keeper: each scenario holds, and shows the damage without its rule."""

import pytest

from tests.support.broker import Broker, Session
from tests.support.mutation import PAUSE, Gate, mutate, without
from tests.support.retention import age
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database  # segments roll

CLOSED = ("closed", "log", 1)


@pytest.fixture
def brisk(mq: Session) -> Session:
    """Every closed segment is past its retention."""
    mq.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    mq.execute("update mqpg.topic set retention = '0 s'")
    age(mq, "0 s")
    return mq


def keep(mq: Session, passes: int = 4) -> list[tuple[str, str, int]]:
    return [tuple(row)[:3] for _ in range(passes) for row in mq.call("keep")]


# a log segment is closed when no transaction can write into it and all of it has its offsets


@without(("_close_segments", ") < pg_snapshot_xmin(pg_current_snapshot())", ") is not null"))
def test_trap_a_writer_keeps_its_segment_open(brisk: Session, broker: Broker, mutant: bool) -> None:
    with broker.transaction() as slow:
        slow.send("one", "1")
        brisk.sent("one", "2")
        assert (CLOSED in keep(brisk)) is mutant
    if not mutant:
        brisk.append()
        eventually(lambda: CLOSED in keep(brisk, 1))


def keep_before_the_pass(mq: Session) -> bool:
    """Return whether the segment is closed although a message of it has no offset yet."""
    mq.send("one", "1")
    return any(CLOSED in keep(mq) for _ in range(20))


@without(
    (
        "_close_segments",
        "and (v_tick.snapshot is null or not pg_visible_in_snapshot(l.xid, v_tick.snapshot))",
        "and false",
    )
)
def test_trap_what_has_no_offset_keeps_its_segment_open(brisk: Session, mutant: bool) -> None:
    if mutant:
        eventually(lambda: keep_before_the_pass(brisk))
        return
    assert not keep_before_the_pass(brisk)
    brisk.append()
    eventually(lambda: CLOSED in keep(brisk, 1))


# I11 is looked at again under the partition's lock


def _is_closed(mq: Session) -> bool:
    """Return whether the segment is closed.

    Nothing is dropped meanwhile, because cursors still need it.
    """
    mq.execute("update mqpg.topic set retention = '1 hour'")
    keep(mq, 1)
    mq.execute("update mqpg.topic set retention = '0 s'")
    return bool(mq.scalar("select closed_at is not null from mqpg.segment where family = 'log' and segment_no = 1"))


def _drop(keeper: Session) -> None:
    def dropped() -> bool:
        return any(row.action == "dropped" and row.detail.startswith("commit_log_1") for row in keeper.call("keep"))

    eventually(dropped, interval=0.05)


@without(("_finish_drop", "perform mqpg._save_late_survivors(v_segment);", ""))
def test_trap_survivors_are_looked_for_again_under_the_lock(brisk: Session, broker: Broker, mutant: bool) -> None:
    """A message is done at the first look and a dead letter at the second.

    The drop stops, and the next call of keep() copies the message.
    """
    copy = "v_copied := mqpg._copy_survivors(v_ids, 'mqpg.commit_log');"
    mutate(brisk, "_release_bodies", copy, f"{copy} {PAUSE}")
    message_id = brisk.sent("one", "1")
    brisk.drain("one")
    brisk.drain("one", group="g")
    keep(brisk, 1)
    age(brisk, "6 hours")
    eventually(lambda: _is_closed(brisk), interval=0.05)
    gate = Gate(broker)
    keeper = gate.stopping()
    with gate.closed(keeper, _drop, keeper) as keeping:
        brisk.execute(
            "insert into mqpg.dead_letter (subscription_id, message_id, deliver_id, queue_id, attempts)"
            " select subscription_id, %s, %s, 0, 1 from mqpg.subscription join mqpg.topic using (topic_id)"
            " where name = 'one'",
            message_id,
            message_id,
        )
    keeping.result(30)
    assert len(brisk.rows("select from mqpg.held where message_id = %s", message_id)) == (0 if mutant else 1)
    if not mutant:
        assert [letter.message_id for letter in brisk.call("dead_letters", "g", "one")] == [message_id]
