"""A random history in which everything is legal: every way of moving a cursor, by groups of every mode.

The groups apply messages in the broker's database, in the transaction that acknowledges them.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from tests.audit.story import JOURNAL_DDL, Row, Story

__all__ = ["live"]

_GROUPS = {
    "alone": "mode => 'exclusive'",
    "many": "mode => 'shared', max_attempts => 3",
    "owned": "mode => 'pinned', max_attempts => 2",
    "all": "mode => 'broadcast'",
    "by_key": "mode => 'exclusive', on_failure => 'block_key', max_attempts => 3",
    "in_order": "mode => 'exclusive', on_failure => 'block_queue', max_attempts => 3",
    "chosen": "mode => 'shared', filter => '$.n < 50'",
    "keyed": "mode => 'exclusive', filter => '$.n < 50', on_failure => 'block_key', max_attempts => 2",
}


@dataclass
class _Delivery:
    """A receipt, and the messages that its consumer still has to answer for, by their offsets."""

    group: str
    receipt: str
    open: dict[int, Row]

    def waits(self, row: Row, failed: list[Row], on_failure: str) -> bool:
        """Whether the message must not overtake one that failed, and was given back with it."""
        before = [one for one in failed if one["queue_id"] >= 0 and one["queue_offset"] < row["queue_offset"]]
        if on_failure == "block_key":
            return row["key"] is not None and any(one["key"] == row["key"] for one in before)
        return on_failure == "block_queue" and bool(before)


def live(story: Story, seed: int, steps: int = 400, look: Callable[[int], None] | None = None) -> None:
    """Let groups of every mode read topic `world` and do whatever they may do.

    Args:
        story: The broker with a history.
        seed: Repeats what happens, apart from what depends on the clock.
        steps: How much happens.
        look: Called after every 25 steps with the number of the last one.
    """
    chance = random.Random(seed)
    broker = story.broker
    broker.execute(JOURNAL_DDL)
    broker.execute("select mqpg.create_topic('world', 3)")
    for group, options in _GROUPS.items():
        broker.execute(
            f"select mqpg.subscribe(%s, 'world', {options}, retry_delay => '1 ms')",
            (group,),
        )
    deliveries: list[_Delivery] = []
    for number in range(1, steps + 1):
        try:
            _step(story, chance, deliveries)
        except psycopg.Error as error:
            # A receipt may be spent or stale, and a seek may end beyond the queue.
            if not (error.sqlstate or "").startswith(("MQ", "40001", "55P03")):
                raise
        if look and number % 25 == 0:
            look(number)


def _step(story: Story, chance: random.Random, deliveries: list[_Delivery]) -> None:
    broker = story.broker
    group = chance.choice(list(_GROUPS))
    what = chance.choices(
        ["send", "append", "receive", "ack", "nack", "extend", "release", "wait", "move", "keep", "adopt"],
        [12, 12, 30, 18, 8, 2, 4, 4, 4, 4, 0.4],
    )[0]
    if what == "send":
        _send(story, chance)
    elif what == "append":
        story.append()
    elif what == "receive":
        lease = chance.choice(["10 milliseconds", "20 milliseconds", "1 hour"])
        rows = broker.execute(
            "select * from mqpg.receive(%s, 'world', %s, %s::interval, %s)",
            (group, chance.randint(1, 8), lease, chance.choice(["c1", "c2"])),
        ).fetchall()
        if rows:
            deliveries.append(_Delivery(group, rows[0]["receipt"], {row["queue_offset"]: row for row in rows}))
    elif what == "wait":
        time.sleep(0.03)
    elif what == "move":
        _move(story, chance, group)
    elif what == "keep":
        age = chance.choice(["0 s", "6 hours"])
        broker.execute("update mqpg.settings set value = %s where name = 'cursor_slot_age'", (age,))
        broker.execute("select * from mqpg.keep()")
    elif what == "adopt":
        broker.execute("select mqpg.adopt()")
    elif deliveries:
        delivery = deliveries[chance.randrange(-min(6, len(deliveries)), 0)]
        if delivery.open:
            _answer(story, chance, what, delivery)


def _send(story: Story, chance: random.Random) -> None:
    count = chance.randint(1, 6)
    story.broker.execute(
        "select mqpg.send_batch('world', %s::text[], keys => %s::text[])",
        (
            [f'{{"n": {chance.randrange(100)}}}' for _ in range(count)],
            [chance.choice([None, "a", "b", "c", "d"]) for _ in range(count)],
        ),
    )
    if chance.random() < 0.2:
        story.broker.execute("select mqpg.send('world', '{\"n\": 1}'::text, delay => interval '20 ms')")


def _answer(story: Story, chance: random.Random, what: str, delivery: _Delivery) -> None:
    broker, receipt = story.broker, delivery.receipt
    some = sorted(chance.sample(sorted(delivery.open), chance.randint(1, len(delivery.open))))
    if what == "ack":
        _apply(story, delivery, chance.choice(["whole", "through", "offsets"]), some)
    elif what == "nack":
        failed = [delivery.open[offset] for offset in some]
        delay, final = chance.choice(["1 ms", "30 ms"]), chance.random() < 0.2
        on_failure = story.one(
            "select on_failure from mqpg.subscription where consumer_group = %s and member = ''", delivery.group
        )
        broker.execute(
            "select mqpg.nack(%s, %s, 'no', %s::interval, %s)",
            (receipt, [row["message_id"] for row in failed], delay, final),
        )
        for offset in [
            o
            for o, row in delivery.open.items()
            if row in failed or (not final and delivery.waits(row, failed, on_failure))
        ]:
            del delivery.open[offset]
    elif what == "extend":
        broker.execute("select mqpg.extend(%s, %s)", (receipt, chance.choice(["10 milliseconds", "1 hour"])))
    else:
        broker.execute("select mqpg.release(%s)", (receipt,))


def _apply(story: Story, delivery: _Delivery, how: str, some: list[int]) -> None:
    """Apply all open messages of a delivery, those up to an offset, or some."""
    applied = {
        "whole": sorted(delivery.open),
        "through": [offset for offset in sorted(delivery.open) if offset <= some[-1]],
        "offsets": some,
    }[how]
    with story.broker.transaction():
        for offset in applied:
            row = delivery.open[offset]
            story.broker.execute(
                "insert into mqpg_applied select %s, 'world', %s, %s, %s, clock_timestamp(), broker_id, %s from mqpg.broker",
                (delivery.group, row["queue_id"], offset, row["message_id"], int(delivery.receipt.split(".")[0])),
            )
        if how == "whole":
            story.broker.execute("select mqpg.ack(%s)", (delivery.receipt,))
        elif how == "through":
            story.broker.execute("select mqpg.ack(%s, through => %s)", (delivery.receipt, some[-1]))
        else:
            story.broker.execute("select mqpg.ack(%s, offsets => %s)", (delivery.receipt, applied))
    for offset in applied:
        del delivery.open[offset]


def _move(story: Story, chance: random.Random, group: str) -> None:
    broker = story.broker
    how = chance.choice(
        ["seek", "earliest", "latest", "purge", "unpin", "ttl", "mode", "alter", "leave"] + 4 * ["letters"]
    )
    if how == "seek":
        broker.execute(
            "select mqpg.seek(%s, 'world', %s, queue_id => %s)",
            (group, str(chance.randint(0, 40)), chance.randint(-1, 2)),
        )
    elif how in ("earliest", "latest"):
        broker.execute("select mqpg.seek(%s, 'world', %s)", (group, how))
    elif how == "purge" and chance.random() < 0.3:
        broker.execute("select mqpg.purge_topic('world')")
    elif how == "unpin":
        broker.execute("select mqpg.unpin('owned', 'world')")
    elif how == "ttl":
        broker.execute(
            "select mqpg.alter_topic('world', message_ttl => %s::interval, on_expired => %s)",
            (chance.choice(["0", "0", "50 ms"]), chance.choice(["skip", "dead_letter"])),
        )
    elif how == "mode":
        broker.execute(
            "select mqpg.alter_subscription('many', 'world', mode => %s)", (chance.choice(["shared", "exclusive"]),)
        )
    elif how == "alter":
        _alter(story, chance, group)
    elif how == "letters":
        what = chance.choice(["redrive", "redrive", "discard_dead_letters"])
        for dead in broker.execute("select distinct s.consumer_group from mqpg.dead_letter join mqpg.subscription s "
                                   "using (subscription_id) order by 1").fetchall():  # fmt: skip
            if chance.random() < 0.5:
                broker.execute(f"select mqpg.{what}(%s, 'world')".encode(), (dead["consumer_group"],))
    elif how == "leave" and chance.random() < 0.2:
        broker.execute("select mqpg.unsubscribe('alone', 'world'), mqpg.subscribe('alone', 'world')")


def _alter(story: Story, chance: random.Random, group: str) -> None:
    """Change one option of a subscription. A filter leaves out more than it did, or less."""
    option, value = chance.choice(
        [
            ("max_attempts", str(chance.randint(1, 4))),
            ("on_failure", f"'{chance.choice(['skip', 'block_key', 'block_queue'])}'"),
            ("filter", f"'$.n < {chance.choice([20, 50, 80])}'"),
        ]
    )
    story.broker.execute(f"select mqpg.alter_subscription(%s, 'world', {option} => {value})".encode(), (group,))
