"""A small but complete history over three databases.

They are the broker, the producer's ledger and the consumer's journal. Topic `orders` has two queues
with single and batch sends, half messages that were committed (by the producer and by a check-back)
and rolled back, a delayed message that has come due, one message that was retried and then applied,
and one dead letter. Group `board` stores journal and offsets in the consumer's database. Group
`mail` stores nothing.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from mqpg.audit.options import AuditOptions
from tests.support.broker import message_id

__all__ = ["LEDGER_DDL", "JOURNAL_DDL", "Row", "Story", "Trio", "let_die", "write_history"]

Row = dict[str, Any]

LEDGER_DDL = """
create table mqpg_ledger (
    handle varchar(200) primary key, entry varchar(8) not null, topic varchar(127),
    created_at timestamptz not null default clock_timestamp(), done_at timestamptz);
"""
JOURNAL_DDL = """
create table mqpg_offsets (
    consumer_group varchar(127), topic varchar(127), queue_id int, next_offset bigint not null,
    broker varchar(40) not null, incarnation int not null, updated_at timestamptz, last_message_id bigint,
    primary key (consumer_group, topic, queue_id, broker));
create table mqpg_applied (
    consumer_group varchar(127), topic varchar(127), queue_id int, queue_offset bigint, message_id bigint,
    applied_at timestamptz, broker varchar(40), subscription_id int);
create index on mqpg_applied (consumer_group, topic, message_id);
"""


@dataclass(frozen=True)
class Trio:
    """DSNs of the three databases."""

    broker: str
    ledger: str
    consumer: str

    def options(self, **changed: Any) -> AuditOptions:
        """The options of an audit of all three. The arguments are those of AuditOptions."""
        chosen = {"dsn": self.broker, "ledgers": {"shop": self.ledger}, "applied": {"board": self.consumer}}
        return AuditOptions(**(chosen | changed))


@dataclass
class Story:
    """Connections to the three databases, and what a producer and a consumer do with them.

    The connections are in autocommit mode.
    """

    broker: psycopg.Connection[Row]
    ledger: psycopg.Connection[Row]
    consumer: psycopg.Connection[Row]

    @classmethod
    @contextlib.contextmanager
    def of(cls, trio: Trio) -> Iterator["Story"]:
        """Open the three connections until the block ends."""
        with contextlib.ExitStack() as stack:
            connections = [
                stack.enter_context(psycopg.connect(dsn, autocommit=True, row_factory=dict_row))
                for dsn in (trio.broker, trio.ledger, trio.consumer)
            ]
            yield cls(*connections)

    def one(self, query: str, *parameters: object) -> Any:
        """Return the first column of the first row of a query to the broker."""
        row = self.broker.execute(query, parameters).fetchone()
        return None if row is None else next(iter(row.values()))

    def prepare(self, payload: str = "{}", **options: object) -> str:
        """Prepare a half message of group `shop` and return its handle."""
        extra = "".join(f", {name} => %s" for name in options)
        return str(self.one(f"select mqpg.prepare('orders', %s::text, 'shop'{extra})", payload, *options.values()))

    def local(self, handle: str, entry: str = "local", *, done: bool = False) -> None:
        """Write the ledger row of a handle."""
        self.ledger.execute(
            "insert into mqpg_ledger (handle, entry, topic, done_at) "
            "values (%s, %s, 'orders', case when %s then clock_timestamp() end)",
            (handle, entry, done),
        )

    def commit(self, handle: str) -> None:
        """Commit a half message and mark its ledger row done."""
        self.broker.execute("select mqpg.commit(%s)", (handle,))
        self.ledger.execute("update mqpg_ledger set done_at = clock_timestamp() where handle = %s", (handle,))

    def business(self, payload: str = "{}") -> int:
        """Run one complete transaction of the producer and return the message id."""
        handle = self.prepare(payload)
        self.local(handle)
        self.commit(handle)
        return message_id(handle)

    def expire(self) -> None:
        """Let the undecided half messages expire, as those of a group whose app polls and is gone."""
        self.broker.execute("select mqpg._enqueue_halves_now('expire')")
        self.broker.execute(
            "update pgmq.q_mqpg_oplog set vt = enqueued_at, enqueued_at = enqueued_at - interval '8 days'"
        )
        checker = "update mqpg.producer_group set checker = %s, checker_target = %s where name = 'shop'"
        self.broker.execute(checker, ("due_checks", None))
        assert self.one("select min(action) from mqpg._expire_halves(100)") == "expired"
        self.broker.execute(checker, ("url", "shop"))

    def append(self) -> int:
        """Run the appender once."""
        return int(self.one("select mqpg.append()"))

    def consume(self, group: str = "board", *, nack: tuple[int, ...] = (), journal: bool = True) -> int:
        """Receive once, nack the ids in `nack`, apply and acknowledge the others.

        Returns how many messages were received.
        """
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
        with contextlib.suppress(psycopg.Error):  # The receipt is spent where all were nacked.
            self.broker.execute("select mqpg.ack(%s)", (receipt,))
        return len(rows)

    def _apply(self, group: str, taken: list[Row], rows: list[Row]) -> None:
        """Apply some messages of a delivery, and move the group's own offset behind the delivery."""
        broker = self.broker.execute("select broker_id, incarnation from mqpg.broker").fetchone()
        assert broker is not None
        with self.consumer.transaction():
            self.journal(group, taken, str(broker["broker_id"]))
            self.consumer.execute(
                "insert into mqpg_offsets values (%s, 'orders', %s, %s, %s, %s, clock_timestamp()) "
                "on conflict (consumer_group, topic, queue_id, broker) do update set next_offset = excluded.next_offset",
                (group, rows[0]["queue_id"], rows[-1]["queue_offset"] + 1, broker["broker_id"], broker["incarnation"]),
            )

    def journal(self, group: str, messages: list[Row], broker_id: str) -> None:
        """Write the journal rows of a delivery of this broker or of another one."""
        for row in messages:
            subscription_id = int(row["receipt"].split(".")[0])
            self.consumer.execute(
                "insert into mqpg_applied values (%s, %s, %s, %s, %s, clock_timestamp(), %s, %s)",
                (group, row["topic"], row["queue_id"], row["queue_offset"], row["message_id"], broker_id,
                 subscription_id),
            )  # fmt: skip

    def apply_all(self, group: str, topic: str = "orders", consumer: str = "c1") -> int:
        """Receive, apply and acknowledge until no message is left, without offsets of its own.

        Returns how many messages were applied.
        """
        count = 0
        query = "select * from mqpg.receive(%s, %s, 1000, consumer => %s)"
        while rows := self.broker.execute(query, (group, topic, consumer)).fetchall():
            self.journal(group, rows, str(self.one("select broker_id from mqpg.broker")))
            self.broker.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
            count += len(rows)
        return count

    def drain(self, group: str = "board", **options: Any) -> None:
        """Append and consume until no message is left."""
        while self.append() + self.consume(group, **options):
            pass


def write_history(story: Story) -> None:
    """Write the history that the module's docstring describes."""
    story.ledger.execute(LEDGER_DDL)
    story.consumer.execute(JOURNAL_DDL)
    broker = story.broker
    broker.execute("select mqpg.create_topic('orders', 2)")
    broker.execute("select mqpg.alter_topic('orders', checksums => true)")
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
    # The producer does not answer any more, and a check-back commits.
    broker.execute("select mqpg.commit(%s)", (checked,))
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
    while story.consume(nack=(retried, dead)):  # Only append() makes retries visible.
        pass
    time.sleep(0.01)
    let_die(story, dead)


def let_die(story: Story, message: int) -> None:
    """Let all deliveries of a message to group `board` fail, until it is a dead letter."""
    for _ in range(40):
        time.sleep(0.002)
        story.drain(nack=(message,))
        if story.one("select count(*) from mqpg.dead_letter where message_id = %s", message):
            return
    raise AssertionError("the message was never dead-lettered")
