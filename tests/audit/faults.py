"""Planted faults: each spoils a told history by direct writes, and names the one kind that the audit must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.audit.story import Story, message_id

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """What to plant, what must be found, and options of the audit that it takes."""

    kind: str
    plant: Callable[[Story], object]
    options: dict[str, Any] = field(default_factory=dict)


FAULTS: dict[str, Fault] = {}
_BROKER_ONLY: dict[str, Any] = {"applied": {}, "ledgers": {}}


def _fault(kind: str, **options: Any) -> Callable[[Callable[[Story], object]], Callable[[Story], object]]:
    def register(plant: Callable[[Story], object]) -> Callable[[Story], object]:
        FAULTS[plant.__name__] = Fault(kind, plant, options)
        return plant

    return register


def _id_of(story: Story, condition: str) -> int:
    return int(story.one(f"select batch_id * 1024 from mqpg.commit_log l where {condition} order by batch_id limit 1"))


def _handle_of(story: Story, message: int) -> str:
    return str(story.one(
        "select mqpg._handle(%s, nonce) from mqpg.commit_log where batch_id = %s / 1024", message, message
    ))


def _rolled_back(story: Story) -> int:
    """A half rolled back without any ledger row."""
    handle = story.prepare()
    story.broker.execute("select mqpg.rollback(%s)", (handle,))
    return message_id(handle)


def _apply(story: Story, message: int) -> None:
    story.consumer.execute(
        "insert into mqpg_applied values ('board', 'orders', 0, 0, %s, clock_timestamp())", (message,)
    )


def _enqueue(story: Story, message: int) -> None:
    """Behind the tail of queue 0, as if by the newest tick."""
    story.broker.execute(
        "insert into mqpg.consume_queue (base_offset, tick_id, topic_id, n, queue_id, first_ids, starts) "
        "select mqpg._tail(t.topic_id, 0, 0), (select max(tick_id) from mqpg.tick), t.topic_id, 1, 0, array[%s::bigint], "
        "array[0] from mqpg.topic t",
        (message,),
    )


@_fault("lost")
def effect_missing(story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (_id_of(story, "kind = 'n'"),))


@_fault("lost")
def retried_effect_missing(story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where queue_id = -1")


@_fault("lost")
def commit_slipped_past_the_appender(story: Story) -> None:
    handle = story.prepare()
    story.local(handle)
    story.commit(handle)
    story.broker.execute("update mqpg.op_log set xid = '3' where message_id = %s", (message_id(handle),))


@_fault("lost")
def delayed_row_vanished(story: Story) -> None:
    message = int(story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')"))
    story.append()
    story.broker.execute("delete from mqpg.delayed where first_id = %s", (message,))
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()


@_fault("duplicated")
def effect_repeated(story: Story) -> None:
    story.consumer.execute(
        "insert into mqpg_applied select consumer_group, topic, queue_id, queue_offset, message_id, clock_timestamp() "
        "from mqpg_applied where queue_id >= 0 limit 1"
    )


@_fault("duplicated")
def message_at_two_offsets(story: Story) -> None:
    _enqueue(story, _id_of(story, "kind = 'n'"))


@_fault("duplicated", **_BROKER_ONLY)
def offset_held_twice(story: Story) -> None:
    story.broker.execute(
        "insert into mqpg.consume_queue select base_offset, (select max(tick_id) from mqpg.tick), topic_id, "
        "subscription_id, n, queue_id, first_ids, starts, deliver_ids, attempts from mqpg.consume_queue "
        "where subscription_id = 0 order by tick_id limit 1"
    )


@_fault("phantom")
def effect_of_no_message(story: Story) -> None:
    _apply(story, 999 * 1024 * 1024)


@_fault("phantom")
def effect_of_a_rolled_back_half(story: Story) -> None:
    _apply(story, _rolled_back(story))


@_fault("phantom")
def rolled_back_half_in_a_queue(story: Story) -> None:
    _enqueue(story, _rolled_back(story))


@_fault("phantom")
def delivered_without_local_transaction(story: Story) -> None:
    story.commit(story.prepare())
    story.drain()


@_fault("phantom")
def delivered_over_a_fence(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, "fence")
    story.commit(handle)
    story.drain()


@_fault("early")
def effect_of_an_undecided_half(story: Story) -> None:
    _apply(story, message_id(story.prepare()))


@_fault("early")
def undecided_half_in_a_queue(story: Story) -> None:
    _enqueue(story, message_id(story.prepare()))


@_fault("early")
def effect_before_its_commit(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set applied_at = applied_at - interval '1 hour' where message_id = %s",
        (_id_of(story, "kind = 'h' and exists (select from mqpg.op_log o where o.message_id = batch_id * 1024 and op = 'c')"),),
    )


@_fault("early")
def appended_by_a_pass_that_had_not_seen_it(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set tick_id = 1 where (base_offset, queue_id, tick_id) = "
        "(select base_offset, queue_id, tick_id from mqpg.consume_queue where subscription_id = 0 "
        "order by tick_id desc limit 1)"
    )


@_fault("early")
def commit_without_ledger_row(story: Story) -> None:
    story.broker.execute("select mqpg.commit(%s)", (story.prepare(),))


@_fault("early")
def effect_of_a_message_to_come(story: Story) -> None:
    _apply(story, int(story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")))


@_fault("undecided", drained=True)
def half_left_open(story: Story) -> None:
    story.prepare()
    story.drain("mail", journal=False)


@_fault("gap", **_BROKER_ONLY)
def offsets_skipped(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set base_offset = base_offset + 5 where (base_offset, queue_id) = "
        "(select base_offset, queue_id from mqpg.consume_queue where subscription_id = 0 order by tick_id desc limit 1)"
    )


@_fault("gap")
def runs_that_do_not_add_up(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set first_ids = first_ids || 1024::bigint where (base_offset, queue_id) = "
        "(select base_offset, queue_id from mqpg.consume_queue where subscription_id = 0 order by tick_id limit 1)"
    )


@_fault("gap")
def position_beyond_the_end(story: Story) -> None:
    story.consumer.execute("update mqpg_offsets set next_offset = next_offset + 100 where queue_id = 0")


@_fault("mismatch")
def local_commit_rolled_back(story: Story) -> None:
    story.local(_handle_of(story, _rolled_back(story)), done=True)


@_fault("mismatch", drained=True)
def local_commit_of_an_unknown_half(story: Story) -> None:
    story.local(f"{story.one('select broker_id from mqpg.broker')}.1.999936.{'0' * 32}")
    story.drain("mail", journal=False)


@_fault("mismatch")
def journal_names_another_offset(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set queue_offset = queue_offset + 1000 where message_id = %s", (_id_of(story, "kind = 'n'"),)
    )


@_fault("mismatch")
def commit_over_a_fence(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, "fence")
    story.broker.execute("select mqpg.commit(%s)", (handle,))
