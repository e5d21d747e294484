"""Random work, and random damage to the tables behind mqpg's back.

A history may be legal, faulty in one way or in many. It is for comparing engines, not for a verdict
that is known beforehand.
"""

import random
from collections.abc import Callable

import psycopg

from tests.audit.story import Story

__all__ = ["damage", "work"]


def work(story: Story, rng: random.Random, steps: int) -> None:
    """Take random steps as producers, consumers and administrators do."""
    for _ in range(steps):
        rng.choice(_STEPS)(story, rng)


def damage(story: Story, rng: random.Random, times: int) -> list[str]:
    """Change random rows of the three databases. Returns what was done."""
    done = []
    for _ in range(times):
        database, statement = rng.choice(_DAMAGES)
        connection: psycopg.Connection[dict[str, object]] = getattr(story, database)
        picked = statement.replace(
            "%pick%", f"order by md5({rng.random()} || x.ctid::text) limit {rng.choice((1, 1, 3))}"
        )
        # Some plants break a key, and then change nothing.
        try:
            count = connection.execute(picked.encode()).rowcount
        except psycopg.errors.IntegrityError:
            count = 0
        done.append(f"{count} rows: {picked}")
    return done


def _business(story: Story, rng: random.Random) -> None:
    story.business()


def _half(story: Story, rng: random.Random) -> None:
    """Leave a half message at a random point of its transaction."""
    handle = story.prepare()
    if rng.random() < 0.6:
        story.local(handle, rng.choice(("local", "local", "fence")), done=rng.random() < 0.3)
    if rng.random() < 0.6:
        story.broker.execute(f"select mqpg.{rng.choice(('commit', 'rollback'))}(%s)".encode(), (handle,))


def _send(story: Story, rng: random.Random) -> None:
    options = rng.choice(("", ", delay => interval '1 hour'", ", delay => interval '2 milliseconds'", ", key => 'k'"))
    story.broker.execute(f"select mqpg.send('orders', '{{}}'::text{options})".encode())


def _send_batch(story: Story, rng: random.Random) -> None:
    story.broker.execute(
        "select * from mqpg.send_batch('orders', array_fill('{}'::text, array[%s]))", (rng.randint(1, 9),)
    )


def _recall(story: Story, rng: random.Random) -> None:
    sent = story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")
    story.broker.execute("select mqpg.recall(%s)", (sent,))


def _append(story: Story, rng: random.Random) -> None:
    story.append()


def _consume(story: Story, rng: random.Random) -> None:
    newest = story.one("select max(batch_id) * 1024 from mqpg.commit_log")
    refused = tuple(newest - 1024 * back for back in range(8)) if rng.random() < 0.3 else ()
    story.consume(nack=refused)


def _consume_mail(story: Story, rng: random.Random) -> None:
    story.consume("mail", journal=False)


def _administer(story: Story, rng: random.Random) -> None:
    call = rng.choice(
        (
            "purge_topic('orders')",
            "seek('board', 'orders', 'latest')",
            "seek('board', 'orders', 'earliest')",
            "discard_dead_letters('board', 'orders')",
            "redrive('board', 'orders')",
        )
    )
    story.broker.execute(f"select mqpg.{call}".encode())
    if rng.random() < 0.5:
        story.consumer.execute("delete from mqpg_offsets")


_STEPS: tuple[Callable[[Story, random.Random], None], ...] = (
    _business, _business, _business, _half, _half, _send, _send, _send_batch, _recall, _append, _append, _append,
    _consume, _consume, _consume, _consume_mail, _administer,
)  # fmt: skip

_OF_APPLIED = "where ctid in (select x.ctid from mqpg_applied x %pick%)"
_OF_QUEUE = "where (topic_id, queue_id, subscription_id, base_offset, tick_id) in (select x.topic_id, x.queue_id, " \
    "x.subscription_id, x.base_offset, x.tick_id from mqpg.consume_queue x %pick%)"  # fmt: skip
_OF_BODIES = "where batch_id in (select x.batch_id from mqpg.commit_log x %pick%)"
_OF_DECISIONS = "where (message_id, stage) in (select x.message_id, x.stage from mqpg.op_log x %pick%)"
_OF_LEDGER = "where handle in (select x.handle from mqpg_ledger x %pick%)"

_DAMAGES: tuple[tuple[str, str], ...] = (
    ("consumer", f"delete from mqpg_applied {_OF_APPLIED}"),
    ("consumer", f"insert into mqpg_applied select * from mqpg_applied {_OF_APPLIED}"),
    ("consumer", f"update mqpg_applied set queue_offset = queue_offset + 1 {_OF_APPLIED}"),
    ("consumer", f"update mqpg_applied set message_id = message_id + 1 {_OF_APPLIED}"),
    ("consumer", f"update mqpg_applied set message_id = 1 << 40 {_OF_APPLIED}"),
    ("consumer", f"update mqpg_applied set applied_at = applied_at - interval '1 day' {_OF_APPLIED}"),
    ("consumer", f"update mqpg_applied set topic = 'absent' {_OF_APPLIED}"),
    ("consumer", "update mqpg_offsets set next_offset = next_offset + 3"),
    ("consumer", "delete from mqpg_offsets"),
    ("ledger", f"delete from mqpg_ledger {_OF_LEDGER}"),
    ("ledger", f"update mqpg_ledger set entry = 'fence' {_OF_LEDGER}"),
    ("ledger", f"update mqpg_ledger set entry = 'local' {_OF_LEDGER}"),
    ("ledger", f"update mqpg_ledger set done_at = null {_OF_LEDGER}"),
    ("ledger", f"update mqpg_ledger set created_at = created_at + interval '1 day' {_OF_LEDGER}"),
    ("broker", f"delete from mqpg.op_log {_OF_DECISIONS}"),
    ("broker", f"update mqpg.op_log set op = 'b' {_OF_DECISIONS} and stage = 0"),
    ("broker", f"update mqpg.op_log set op = 'c' {_OF_DECISIONS} and stage = 0"),
    ("broker", f"update mqpg.op_log set xid = '3' {_OF_DECISIONS}"),
    ("broker", f"update mqpg.op_log set xid = '4000000000' {_OF_DECISIONS}"),
    ("broker", f"update mqpg.op_log set at = at - interval '3 days' {_OF_DECISIONS}"),
    ("broker", f"delete from mqpg.commit_log {_OF_BODIES}"),
    ("broker", f"update mqpg.commit_log set kind = 'f' {_OF_BODIES} and kind = 'n'"),
    ("broker", f"update mqpg.commit_log set topic_id = 99 {_OF_BODIES}"),
    ("broker", f"update mqpg.commit_log set xid = '4000000000' {_OF_BODIES}"),
    ("broker", f"delete from mqpg.consume_queue {_OF_QUEUE}"),
    ("broker", f"update mqpg.consume_queue set base_offset = base_offset + 1 {_OF_QUEUE}"),
    ("broker", f"update mqpg.consume_queue set n = n + 1 {_OF_QUEUE}"),
    ("broker", f"update mqpg.consume_queue set n = n - 1 {_OF_QUEUE}"),
    ("broker", f"update mqpg.consume_queue set first_ids = first_ids || 1024::bigint {_OF_QUEUE}"),
    ("broker", f"update mqpg.consume_queue set starts = starts || null::int {_OF_QUEUE}"),
    ("broker", f"update mqpg.consume_queue set tick_id = 1 {_OF_QUEUE}"),
    ("broker", "delete from mqpg.delayed where ctid in (select x.ctid from mqpg.delayed x %pick%)"),
    ("broker", "update mqpg.delayed set visible_at = visible_at + interval '1 day'"
        " where ctid in (select x.ctid from mqpg.delayed x %pick%)"),
    ("broker", "delete from mqpg.dead_letter"),
    ("broker", "insert into mqpg.position_jump (subscription_id, topic_id, consumer_group, member, topic, queue_id,"
        " from_offset, to_offset, why, back) select s.subscription_id, s.topic_id, s.consumer_group, '', 'orders', 0,"
        " 0, 5, 'seek', s.subscription_id % 2 = 0 from mqpg.subscription s"),
)  # fmt: skip
"""The database of each change, and the change. `%pick%` chooses a few rows."""
