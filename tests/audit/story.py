"""A small but complete history over three databases: broker, the producer's ledger, the consumer's journal.

Topic `orders` on two queues: single and batch sends, halves committed (by the producer, and by a checker) and
rolled back, a delayed send that came due and one that is still to come, one message retried and then applied,
one dead-lettered. Group `board` keeps journal and offsets in the consumer's database; group `mail` keeps none.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

__all__ = ["LEDGER_DDL", "JOURNAL_DDL", "Story", "Trio", "tell"]

Row = dict[str, Any]

LEDGER_DDL = """
create table mqpg_ledger (
    handle varchar(200) primary key, entry varchar(8) not null, topic varchar(127),
    created_at timestamptz not null default clock_timestamp(), done_at timestamptz);
"""
JOURNAL_DDL = """
create table mqpg_offsets (
    consumer_group varchar(127), topic varchar(127), queue_id int, next_offset bigint not null,
    broker varchar(40) not null, incarnation int not null, updated_at timestamptz,
    primary key (consumer_group, topic, queue_id));
create table mqpg_applied (
    consumer_group varchar(127), topic varchar(127), queue_id int, queue_offset bigint, message_id bigint,
    applied_at timestamptz);
create index on mqpg_applied (consumer_group, topic, message_id);
"""


@dataclass(frozen=True)
class Trio:
    """DSNs of the three databases."""

    broker: str
    ledger: str
    consumer: str


@dataclass
class Story:
    """Connections (autocommit) to the three databases, and what a producer and a consumer do with them."""

    broker: psycopg.Connection[Row]
    ledger: psycopg.Connection[Row]
    consumer: psycopg.Connection[Row]

    @classmethod
    @contextlib.contextmanager
    def of(cls, trio: Trio) -> Iterator[Story]:
        """Opens the three; closes them at the end."""
        with contextlib.ExitStack() as stack:
            connections = [
                stack.enter_context(psycopg.connect(dsn, autocommit=True, row_factory=dict_row))
                for dsn in (trio.broker, trio.ledger, trio.consumer)
            ]
            yield cls(*connections)

    def one(self, query: str, *parameters: object) -> Any:
        """The first column of the first row, from the broker."""
        row = self.broker.execute(query, parameters).fetchone()
        return None if row is None else next(iter(row.values()))

    def prepare(self, payload: str = "{}", **options: object) -> str:
        """A half message of group `shop`."""
        extra = "".join(f", {name} => %s" for name in options)
        return str(self.one(f"select mqpg.prepare('orders', %s::text, 'shop'{extra})", payload, *options.values()))

    def local(self, handle: str, entry: str = "local", *, done: bool = False) -> None:
        """The ledger row of a handle."""
        self.ledger.execute(
            "insert into mqpg_ledger (handle, entry, topic, done_at) "
            "values (%s, %s, 'orders', case when %s then clock_timestamp() end)",
            (handle, entry, done),
        )

    def commit(self, handle: str) -> None:
        """The decision, and the ledger's mark."""
        self.broker.execute("select mqpg.commit(%s)", (handle,))
        self.ledger.execute("update mqpg_ledger set done_at = clock_timestamp() where handle = %s", (handle,))

    def business(self, payload: str = "{}") -> int:
        """One transaction of the producer, whole; returns the message id."""
        handle = self.prepare(payload)
        self.local(handle)
        self.commit(handle)
        return message_id(handle)

    def append(self) -> int:
        """One pass of the appender."""
        return int(self.one("select mqpg.append()"))

    def consume(self, group: str = "board", *, nack: tuple[int, ...] = (), journal: bool = True) -> int:
        """Receives, applies and acks once; ids in nack are given back instead. Returns how many came."""
        rows = self.broker.execute(
            "select * from mqpg.receive(%s, 'orders', 1000, consumer => 'c1')", (group,)
        ).fetchall()
        if not rows:
            return 0
        receipt = rows[0]["receipt"]
        refused = [row["message_id"] for row in rows if row["message_id"] in nack]
        if refused:
            self.broker.execute(
                "select mqpg.nack(%s, %s, reason => 'not now', delay => interval '1 microsecond')", (receipt, refused)
            )
        if journal:
            self._apply(group, [row for row in rows if row["message_id"] not in nack], rows)
        with contextlib.suppress(psycopg.Error):  # spent, where all of it was given back
            self.broker.execute("select mqpg.ack(%s)", (receipt,))
        return len(rows)

    def _apply(self, group: str, taken: list[Row], rows: list[Row]) -> None:
        broker = self.broker.execute("select broker_id, incarnation from mqpg.broker").fetchone()
        assert broker is not None
        with self.consumer.transaction():
            for row in taken:
                self.consumer.execute(
                    "insert into mqpg_applied values (%s, %s, %s, %s, %s, clock_timestamp())",
                    (group, row["topic"], row["queue_id"], row["queue_offset"], row["message_id"]),
                )
            self.consumer.execute(
                "insert into mqpg_offsets values (%s, 'orders', %s, %s, %s, %s, clock_timestamp()) "
                "on conflict (consumer_group, topic, queue_id) do update set next_offset = excluded.next_offset",
                (group, rows[0]["queue_id"], rows[-1]["queue_offset"] + 1, broker["broker_id"], broker["incarnation"]),
            )

    def drain(self, group: str = "board", **options: Any) -> None:
        """Appends and consumes until nothing comes any more."""
        while self.append() + self.consume(group, **options):
            pass


def message_id(handle: str) -> int:
    """The message id that a handle carries."""
    return int(handle.split(".")[2])


def tell(story: Story) -> None:
    """Tells the history of the module's docstring; drained at the end but for the delayed send to come."""
    story.ledger.execute(LEDGER_DDL)
    story.consumer.execute(JOURNAL_DDL)
    broker = story.broker
    broker.execute("select mqpg.create_topic('orders', 2)")
    broker.execute("select mqpg.create_producer_group('shop', checker => 'url', checker_target => 'shop')")
    broker.execute("select mqpg.subscribe('board', 'orders', mode => 'pinned', retry_delay => '1 microsecond')")
    broker.execute("select mqpg.subscribe('mail', 'orders')")
    for number in range(10):
        broker.execute("select mqpg.send('orders', %s::text, key => %s)", (f'{{"n": {number}}}', str(number)))
    broker.execute("select * from mqpg.send_batch('orders', array_fill('{}'::text, array[40]))")
    for number in range(12):
        story.business(f'{{"half": {number}}}')
    checked = story.prepare()
    story.local(checked)
    broker.execute("select mqpg.commit(%s)", (checked,))  # as a check-back does; the producer never came back
    story.ledger.execute("update mqpg_ledger set done_at = clock_timestamp() where done_at is null")
    rolled_back = story.prepare()
    broker.execute("select mqpg.rollback(%s)", (rolled_back,))
    fenced = story.prepare()
    story.local(fenced, "fence")
    broker.execute("select mqpg.rollback(%s)", (fenced,))
    broker.execute("select mqpg.send('orders', '{}'::text, delay => interval '1 millisecond')")
    time.sleep(0.01)
    story.append()
    retried, dead = story.business(), story.business()
    story.append()
    while story.consume(nack=(retried, dead)):  # retries become visible by append() only
        pass
    time.sleep(0.01)
    _bury(story, dead)


def _bury(story: Story, dead: int) -> None:
    for _ in range(40):
        time.sleep(0.002)
        story.drain(nack=(dead,))
        if story.one("select count(*) from mqpg.dead_letter"):
            return
    raise AssertionError("the message was never dead-lettered")
