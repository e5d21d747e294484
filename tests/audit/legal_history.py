"""A random history in which everything is legal: every way of moving a cursor, by groups of every mode."""

from __future__ import annotations

import random
import time
from typing import Any

import psycopg

from tests.audit.story import Story

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


def live(story: Story, seed: int, steps: int = 400) -> None:
    """Let groups of every mode read topic `world` and do whatever they may do, `steps` times."""
    chance = random.Random(seed)
    broker = story.broker
    broker.execute("select mqpg.create_topic('world', 3)")
    for group, options in _GROUPS.items():
        broker.execute(
            f"select mqpg.subscribe(%s, 'world', {options}, retry_delay => '1 ms')",  # type: ignore[arg-type]
            (group,),
        )
    receipts: list[tuple[str, list[dict[str, Any]]]] = []
    for _ in range(steps):
        try:
            _step(story, chance, receipts)
        except psycopg.Error as error:
            # A receipt may be spent or stale, and a seek may end beyond the queue.
            if not (error.sqlstate or "").startswith(("MQ", "40001", "55P03")):
                raise


def _step(story: Story, chance: random.Random, receipts: list[tuple[str, list[dict[str, Any]]]]) -> None:
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
            receipts.append((rows[0]["receipt"], rows))
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
    elif receipts:
        _answer(story, chance, what, *receipts[chance.randrange(-min(6, len(receipts)), 0)])


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


def _answer(story: Story, chance: random.Random, what: str, receipt: str, rows: list[dict[str, Any]]) -> None:
    broker = story.broker
    some = chance.sample(rows, chance.randint(1, len(rows)))
    if what == "ack":
        how = chance.randrange(3)
        if how == 0:
            broker.execute("select mqpg.ack(%s)", (receipt,))
        elif how == 1:
            broker.execute("select mqpg.ack(%s, through => %s)", (receipt, some[0]["queue_offset"]))
        else:
            broker.execute("select mqpg.ack(%s, offsets => %s)", (receipt, [row["queue_offset"] for row in some]))
    elif what == "nack":
        broker.execute(
            "select mqpg.nack(%s, %s, 'no', %s::interval, %s)",
            (
                receipt,
                [row["message_id"] for row in some],
                chance.choice(["1 ms", "30 ms"]),
                chance.random() < 0.2,
            ),
        )
    elif what == "extend":
        broker.execute("select mqpg.extend(%s, %s)", (receipt, chance.choice(["10 milliseconds", "1 hour"])))
    else:
        broker.execute("select mqpg.release(%s)", (receipt,))


def _move(story: Story, chance: random.Random, group: str) -> None:
    broker = story.broker
    how = chance.choice(["seek", "earliest", "latest", "purge", "unpin", "ttl", "mode", "letters", "leave"])
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
    elif how == "letters":
        broker.execute(f"select mqpg.{chance.choice(['redrive', 'discard_dead_letters'])}(%s, 'world')", (group,))  # type: ignore[arg-type]
    elif how == "leave" and chance.random() < 0.2:
        broker.execute("select mqpg.unsubscribe('alone', 'world'), mqpg.subscribe('alone', 'world')")
