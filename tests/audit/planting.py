"""How faults are planted, and the list of all of them.

Each fault names the one kind of anomaly that the audit must find. Faults of one kind and with the
same options are planted into one copy, in the order in which they were registered.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.audit.story import Story, message_id

__all__ = [
    "BROKER_ONLY",
    "FAULTS",
    "Fault",
    "Story",
    "add_queues",
    "apply_at",
    "enqueue",
    "fault",
    "half_moved",
    "id_of",
    "message_id",
    "rolled_back",
]


@dataclass(frozen=True)
class Fault:
    """A fault: how it is planted, what the audit must find, and the options that this needs.

    `alone` means that it must be the only fault of its copy.
    """

    name: str
    kind: str
    evidence: str
    plant: Callable[[Story], object]
    options: dict[str, Any] = field(default_factory=dict)
    alone: bool = False


FAULTS: list[Fault] = []
BROKER_ONLY: dict[str, Any] = {"applied": {}, "ledgers": {}}


def fault(
    kind: str, evidence: str, *, alone: bool = False, **options: Any
) -> Callable[[Callable[[Story], object]], Callable[[Story], object]]:
    """Register a function that plants a fault."""

    def register(plant: Callable[[Story], object]) -> Callable[[Story], object]:
        FAULTS.append(Fault(plant.__name__, kind, evidence, plant, options, alone))
        return plant

    return register


def half_moved(story: Story, topic: str) -> str:
    """Move a half message whose local transaction is committed into a new topic. Returns its handle."""
    story.broker.execute("select mqpg.create_topic(%s, 2)", (topic,))
    handle = story.prepare()
    story.local(handle)
    story.broker.execute(
        "update mqpg.commit_log set topic_id = (select topic_id from mqpg.topic where name = %s) where batch_id = %s",
        (topic, message_id(handle) >> 10),
    )
    return handle


def id_of(story: Story, condition: str) -> int:
    """The first message of the oldest record batch that meets a condition."""
    return int(story.one(f"select batch_id * 1024 from mqpg.commit_log l where {condition} order by batch_id limit 1"))


def rolled_back(story: Story) -> str:
    """Roll back a half message that has no ledger row."""
    handle = story.prepare()
    story.broker.execute("select mqpg.rollback(%s)", (handle,))
    return handle


def add_queues(story: Story) -> str:
    """Give the topic four queues, let the workers open them, and return a key that moves from queue 1 to queue 3."""
    key = story.one("select min(k::text) from generate_series(1, 99) as k where mqpg._queue_of(k::text, 4) = 3")
    story.broker.execute("select mqpg.send('orders', '{}'::text, key => %s) from generate_series(1, 3)", (key,))
    story.drain()
    story.drain("mail", journal=False)
    story.broker.execute("select mqpg.alter_topic('orders', queues => 4)")
    for _ in range(3):
        story.broker.execute("select mqpg._open_queues()")
        story.append()
    assert story.one("select count(*) from mqpg.waiting_queue") == 0
    return str(key)


def apply_at(story: Story, message: int) -> None:
    """Write an effect of a message into the journal."""
    story.consumer.execute(
        "insert into mqpg_applied values ('board', 'orders', 0, 0, %s, clock_timestamp())", (message,)
    )


def enqueue(story: Story, message: int) -> None:
    """Append a message to queue 0, as the newest tick would."""
    story.broker.execute(
        "insert into mqpg.consume_queue (base_offset, tick_id, topic_id, n, queue_id, first_ids, starts) "
        "select mqpg._tail(t.topic_id, 0, 0), (select max(tick_id) from mqpg.tick), t.topic_id, 1, 0, array[%s::bigint], "
        "array[0] from mqpg.topic t",
        (message,),
    )
