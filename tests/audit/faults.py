"""Planted faults. Each changes a clean history by direct writes.

Each names the one kind of anomaly that the audit must find. Faults of one kind and with the same
options are planted into one copy, in the order of this file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.audit.story import Story, message_id

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """A fault: how it is planted, what the audit must find, and the options that this needs."""

    name: str
    kind: str
    evidence: str
    plant: Callable[[Story], object]
    options: dict[str, Any] = field(default_factory=dict)


FAULTS: list[Fault] = []
_BROKER_ONLY: dict[str, Any] = {"applied": {}, "ledgers": {}}


def _fault(
    kind: str, evidence: str, **options: Any
) -> Callable[[Callable[[Story], object]], Callable[[Story], object]]:
    def register(plant: Callable[[Story], object]) -> Callable[[Story], object]:
        FAULTS.append(Fault(plant.__name__, kind, evidence, plant, options))
        return plant

    return register


def _id_of(story: Story, condition: str) -> int:
    return int(story.one(f"select batch_id * 1024 from mqpg.commit_log l where {condition} order by batch_id limit 1"))


def _rolled_back(story: Story) -> str:
    """Roll back a half message that has no ledger row."""
    handle = story.prepare()
    story.broker.execute("select mqpg.rollback(%s)", (handle,))
    return handle


def _apply(story: Story, message: int) -> None:
    story.consumer.execute(
        "insert into mqpg_applied values ('board', 'orders', 0, 0, %s, clock_timestamp())", (message,)
    )


def _enqueue(story: Story, message: int) -> None:
    """Append a message to queue 0, as the newest tick would."""
    story.broker.execute(
        "insert into mqpg.consume_queue (base_offset, tick_id, topic_id, n, queue_id, first_ids, starts) "
        "select mqpg._tail(t.topic_id, 0, 0), (select max(tick_id) from mqpg.tick), t.topic_id, 1, 0, array[%s::bigint], "
        "array[0] from mqpg.topic t",
        (message,),
    )


@_fault("lost", "position is beyond it")
def effect_missing(story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (_id_of(story, "kind = 'n'"),))


@_fault("lost", "retry 2 was acknowledged")
def retried_effect_missing(story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where queue_id = -1")


@_fault("lost", "transaction 3, which the newest tick has seen")
def commit_slipped_past_the_appender(story: Story) -> None:
    handle = story.prepare()
    story.local(handle)
    story.commit(handle)
    story.broker.execute("update mqpg.op_log set xid = '3' where message_id = %s", (message_id(handle),))


@_fault("lost", "in no queue")
def delayed_row_vanished(story: Story) -> None:
    message = int(story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')"))
    story.append()
    story.broker.execute("delete from mqpg.delayed where first_id = %s", (message,))
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()


@_fault("duplicated", "applied 2 times")
def effect_repeated(story: Story) -> None:
    story.consumer.execute(
        "insert into mqpg_applied select consumer_group, topic, queue_id, queue_offset, message_id, clock_timestamp() "
        "from mqpg_applied where queue_id >= 0 limit 1"
    )


@_fault("duplicated", "at queue:offset")
def message_at_two_offsets(story: Story) -> None:
    _enqueue(story, _id_of(story, "kind = 'n'"))


@_fault("duplicated", "offset held 2 times", **_BROKER_ONLY)
def offset_held_twice(story: Story) -> None:
    story.broker.execute(
        "insert into mqpg.consume_queue select base_offset, (select max(tick_id) from mqpg.tick), topic_id, "
        "subscription_id, n, queue_id, first_ids, starts, deliver_ids, attempts from mqpg.consume_queue "
        "where subscription_id = 0 order by tick_id limit 1"
    )


@_fault("phantom", "applied, but there is no such message")
def effect_of_no_message(story: Story) -> None:
    _apply(story, 999 * 1024 * 1024)


@_fault("phantom", "applied, but the message was rolled back")
def effect_of_a_rolled_back_half(story: Story) -> None:
    _apply(story, message_id(_rolled_back(story)))


@_fault("phantom", "in a queue, but the message was rolled back")
def rolled_back_half_in_a_queue(story: Story) -> None:
    _enqueue(story, message_id(_rolled_back(story)))


@_fault("phantom", "the ledger shop has no row")
def delivered_without_local_transaction(story: Story) -> None:
    story.commit(story.prepare())
    story.drain()


@_fault("phantom", "the ledger shop has a fence")
def delivered_over_a_fence(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, "fence")
    story.commit(handle)
    story.drain()


@_fault("early", "appended by tick 1, which had not seen")
def appended_by_a_tick_that_had_not_seen_it(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set tick_id = 1 where (base_offset, queue_id, tick_id) = "
        "(select base_offset, queue_id, tick_id from mqpg.consume_queue where subscription_id = 0 "
        "order by tick_id desc limit 1)"
    )


@_fault("early", "applied, but the half message is undecided")
def effect_of_an_undecided_half(story: Story) -> None:
    _apply(story, message_id(story.prepare()))


@_fault("early", "in a queue, but the half message is undecided")
def undecided_half_in_a_queue(story: Story) -> None:
    _enqueue(story, message_id(story.prepare()))


@_fault("early", "s before its commit")
def effect_before_its_commit(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set applied_at = applied_at - interval '1 hour' where message_id = %s",
        (
            _id_of(
                story,
                "kind = 'h' and exists (select from mqpg.op_log o where o.message_id = batch_id * 1024 and op = 'c')",
            ),
        ),
    )


@_fault("early", "the ledger shop has no row")
def commit_without_ledger_row(story: Story) -> None:
    story.broker.execute("select mqpg.commit(%s)", (story.prepare(),))


@_fault("early", "applied, but its time has not come")
def effect_of_a_message_to_come(story: Story) -> None:
    _apply(story, int(story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")))


@_fault("undecided", "no decision", drained=True)
def half_left_open(story: Story) -> None:
    story.prepare()
    story.drain("mail", journal=False)


@_fault("gap", "no row holds the offsets", **_BROKER_ONLY)
def offsets_skipped(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set base_offset = base_offset + 5 where (base_offset, queue_id) = "
        "(select base_offset, queue_id from mqpg.consume_queue where subscription_id = 0 order by tick_id desc limit 1)"
    )


@_fault("gap", "does not fit the runs")
def runs_that_do_not_add_up(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set first_ids = first_ids || 1024::bigint where (base_offset, queue_id) = "
        "(select base_offset, queue_id from mqpg.consume_queue where subscription_id = 0 order by tick_id limit 1)"
    )


@_fault("gap", "beyond the end of the queue")
def position_beyond_the_end(story: Story) -> None:
    story.consumer.execute("update mqpg_offsets set next_offset = next_offset + 100 where queue_id = 0")


@_fault("mismatch", "says local, the broker says rolled back (by the producer)")
def local_commit_rolled_back(story: Story) -> None:
    story.local(_rolled_back(story), done=True)


@_fault("mismatch", "says local, the broker says rolled back (by the expiry)")
def local_commit_of_a_half_that_expired(story: Story) -> None:
    story.local(story.prepare(), done=True)
    story.expire()


@_fault("mismatch", "the broker has no such half message", drained=True)
def local_commit_of_an_unknown_half(story: Story) -> None:
    story.local(f"{story.one('select broker_id from mqpg.broker')}.1.999936.{'0' * 32}")
    story.drain("mail", journal=False)


@_fault("mismatch", "the queue has the message at another one")
def journal_names_another_offset(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set queue_offset = queue_offset + 1000 where message_id = %s",
        (_id_of(story, "kind = 'n'"),),
    )


@_fault("mismatch", "says fence, the broker says committed")
def commit_over_a_fence(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, "fence")
    story.broker.execute("select mqpg.commit(%s)", (handle,))
