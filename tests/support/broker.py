"""A broker for SQL tests: its sessions, calls of its functions, races between sessions, and reading the log back."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row

from tests.support.waiting import PATIENCE, eventually

__all__ = [
    "HOT_TABLES",
    "Broker",
    "Session",
    "Spare",
    "cut_off",
    "fill",
    "ids_of",
    "make_due",
    "message_id",
    "messages_by_queue",
    "offsets",
    "positions",
    "refused",
    "seconds",
    "spread",
    "story",
    "tolerating",
]

HOT_TABLES = (
    "commit_log",
    "op_log",
    "consume_queue",
    "delayed",
    "tick",
    "half_tick",
    "cursor",
    "check_log",
    "dedup",
)


def message_id(handle: str) -> int:
    """The message that a handle names."""
    return int(handle.split(".")[2])


def offsets(rows: list[Any]) -> list[int]:
    """Where in their queues the messages of a delivery are."""
    return [row.queue_offset for row in rows]


def ids_of(rows: list[Any]) -> list[int]:
    """Which messages a delivery has."""
    return [row.message_id for row in rows]


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def _placeholder(value: object) -> str:
    """Arrays of text must be cast, because an untyped one fits three overloads."""
    if isinstance(value, (list, tuple)):
        given = [v for v in value if v is not None]
        return "%s::bigint[]" if given and all(isinstance(v, int) for v in given) else "%s::text[]"
    return "%s"


class Session:
    """One autocommit connection.

    A call is a transaction of its own unless it is inside `transaction()`.
    """

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    @property
    def pid(self) -> int:
        return self.conn.info.backend_pid

    def transaction(self, *, force_rollback: bool = False) -> Any:
        return self.conn.transaction(force_rollback=force_rollback)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A REPEATABLE READ transaction that has its snapshot."""
        with self.transaction():
            self.execute("set transaction isolation level repeatable read")
            self.execute("select 1")
            yield

    def execute(self, sql: str, *params: object) -> psycopg.Cursor[Any]:
        return self.conn.execute(sql, params or None)

    def rows(self, sql: str, *params: object) -> list[Any]:
        return self.execute(sql, *params).fetchall()

    def scalar(self, sql: str, *params: object) -> Any:
        row = self.execute(sql, *params).fetchone()
        assert row is not None
        return row[0]

    def call(self, function: str, *args: object, **named: object) -> list[Any]:
        places = [_placeholder(a) for a in args]
        places += [f"{name} => {_placeholder(a)}" for name, a in named.items()]
        sql = f"select * from mqpg.{function}({', '.join(places)})"
        return self.rows(sql, *args, *named.values())

    def value(self, function: str, *args: object, **named: object) -> Any:
        return self.call(function, *args, **named)[0][0]

    # the calls that nearly every test makes

    def send(self, topic: str, payload: str = "{}", **named: object) -> int:
        return int(self.value("send", topic, payload, **named))

    def send_batch(self, topic: str, payloads: list[str], **named: object) -> list[int]:
        return [row[0] for row in self.call("send_batch", topic, payloads, **named)]

    def prepare(self, topic: str, payload: str = "{}", group: str = "pg", **named: object) -> str:
        return str(self.value("prepare", topic, payload, group, **named))

    def commit(self, handle: str, *payload: str) -> str:
        return str(self.value("commit", handle, *payload))

    def rollback(self, handle: str) -> str:
        return str(self.value("rollback", handle))

    def append(self, *max_messages: int) -> int:
        return int(self.value("append", *max_messages))

    def receive(self, topic: str, *, group: str = "g", **named: object) -> list[Any]:
        return self.call("receive", group, topic, **named)

    def ack(self, receipt: str, **named: object) -> None:
        self.call("ack", receipt, **named)

    def nack(self, receipt: str, ids: list[int], **named: object) -> None:
        self.call("nack", receipt, ids, **named)

    # and pairs of them

    def sent(self, topic: str, payload: str = "{}", **named: object) -> int:
        """Send a message, and append it."""
        message_id = self.send(topic, payload, **named)
        self.append()
        return message_id

    def sent_batch(self, topic: str, payloads: list[str], **named: object) -> list[int]:
        """Send messages, and append them."""
        ids = self.send_batch(topic, payloads, **named)
        self.append()
        return ids

    def subscribed(
        self, topic: str, *, queues: int = 1, group: str = "g", kind: str = "normal", **options: Any
    ) -> None:
        """Create a topic that a group reads."""
        self.call("create_topic", topic, queues=queues, kind=kind)
        self.call("subscribe", group, topic, **options)

    def drain(self, topic: str, *, group: str = "g", **named: object) -> list[Any]:
        """Receive and acknowledge until a call returns nothing."""
        taken: list[Any] = []
        while got := self.receive(topic, group=group, **named):
            taken += got
            self.ack(got[0].receipt)
        return taken

    def delivered(self, topic: str, *, max_messages: int = 1000, **named: Any) -> list[Any]:
        """Append, and drain what is there."""
        self.append()
        return self.drain(topic, max_messages=max_messages, **named)


# What a session may leave behind. The end of a transaction also takes its prepared statements away.
_RESET = """
reset session authorization; reset all; close all; unlisten *; discard temp; discard sequences;
select pg_advisory_unlock_all();
"""


class Spare:
    """A connection that one test hands to the next one, because the first call of each function costs most of a test.

    Only one that is idle at the end of a test is handed on.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._conn: psycopg.Connection[Any] | None = None

    def take(self) -> psycopg.Connection[Any]:
        """The connection, or a new one. It is the caller's then."""
        taken, self._conn = self._conn, None
        if taken is not None:
            with suppress(psycopg.OperationalError):  # it may have been ended meanwhile
                taken.execute("")
                return taken
        return psycopg.connect(self.dsn, autocommit=True, row_factory=namedtuple_row)

    @contextmanager
    def borrowed(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection that `take` returns next."""
        self._conn = self.take()
        yield self._conn

    def close(self) -> None:
        """Close what was not taken."""
        if self._conn is not None:
            self._conn.close()

    def give(self, conn: psycopg.Connection[Any]) -> None:
        """Keep a connection as if it were new, or close it."""
        idle = conn.info.transaction_status == TransactionStatus.IDLE
        if self._conn is None and idle and conn.autocommit:
            try:
                conn.execute(_RESET)
                if conn.info.server_version >= 150000:
                    conn.execute("select pg_stat_force_next_flush()")
                conn.execute("begin")
                conn.rollback()
            except psycopg.Error:  # the test has ended the session
                conn.close()
            else:
                conn.row_factory = namedtuple_row
                self._conn = conn
        else:
            conn.close()


class Broker:
    """One test's own database, its sessions and its background calls.

    Args:
        dsn: The database.
        spare: Where its first session comes from and goes to. None: it is a new one.
    """

    def __init__(self, dsn: str, spare: Spare | None = None) -> None:
        self.dsn = dsn
        self._spare = spare
        self._open: list[psycopg.Connection[Any]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._watcher: Session | None = None

    def session(self, options: str = "") -> Session:
        spare = self._spare if self._spare and not self._open else Spare(self.dsn)
        conn = spare.take()
        self._open.append(conn)
        if options:
            conn.execute(options)
        return Session(conn)

    @contextmanager
    def transaction(self, *, force_rollback: bool = False) -> Iterator[Session]:
        """A new session, inside a transaction."""
        session = self.session()
        with session.transaction(force_rollback=force_rollback):
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """A new session, inside a transaction with an old snapshot."""
        session = self.session()
        with session.snapshot():
            yield session

    def background(self, work: Callable[..., Any], *args: object, **named: object) -> Future[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(32)
        return self._pool.submit(work, *args, **named)

    def watch(self) -> Session:
        """Open the session that `wait_blocked` looks with, where a wait is too short to open it."""
        self._watcher = self._watcher or self.session()
        return self._watcher

    def wait_blocked(self, session: Session, timeout: float = PATIENCE) -> None:
        """Return once that session's statement waits for a lock."""
        watcher = self._watcher or self.session()
        sql = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        eventually(lambda: watcher.scalar(sql, session.pid), timeout)

    def blocked(self, session: Session, work: Callable[..., Any], *args: object, **named: object) -> Future[Any]:
        """Do work in the background, and return once that session waits for a lock."""
        running = self.background(work, *args, **named)
        self.wait_blocked(session)
        return running

    def close(self) -> None:
        for conn in self._open[1 if self._spare else 0 :]:
            conn.close()
        if self._spare and self._open:
            self._spare.give(self._open[0])
        if self._pool is not None:
            self._pool.shutdown(wait=True)


def fill(session: Session, count: int, topic: str = "one") -> list[int]:
    """Append so many messages, whose payloads are numbers from 0 on, and return their ids."""
    return session.sent_batch(topic, [str(i) for i in range(count)])


def spread(session: Session, count: int, topic: str = "t") -> list[int]:
    """Append so many messages of their own sends, whose payloads are numbers from 0 on: they are in several queues."""
    ids = [session.send(topic, str(i)) for i in range(count)]
    session.append()
    return ids


@contextmanager
def cut_off() -> Iterator[None]:
    """Require that the block ends by the loss of its connection."""
    try:
        yield
    except psycopg.OperationalError:
        return
    raise AssertionError("the connection held")


@contextmanager
def tolerating(*sqlstates: str) -> Iterator[None]:
    """Allow the block to fail with these SQLSTATEs only."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate not in sqlstates:
            raise


@contextmanager
def refused(sqlstate: str, mention: str | None = None) -> Iterator[None]:
    """Require that the block fails with that SQLSTATE and that its message or hint names `mention`."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    assert caught.value.sqlstate == sqlstate, f"{caught.value.sqlstate}: {caught.value}"
    if mention is not None:
        assert mention in f"{caught.value.diag.message_primary} {caught.value.diag.message_hint}", str(caught.value)


def story(session: Session, message_id: int) -> list[str]:
    """What has happened to a message."""
    return [row.event for row in session.call("trace", message_id)]


def make_due(session: Session | psycopg.Connection[Any]) -> None:
    """Let every delayed message and retry become due now.

    A test that looks at them before asks for a long delay, so that it may take its time.
    """
    session.execute("update mqpg.delayed set visible_at = clock_timestamp()")


_POSITIONS = """
select cq.queue_id, cq.base_offset + run.start + step.i as queue_offset, run.first_id + step.i as message_id
from mqpg.consume_queue as cq
join mqpg.topic as t on t.topic_id = cq.topic_id
cross join lateral (
    select u.first_id, u.start, coalesce(lead(u.start) over (order by u.start), cq.n) - u.start as n
    from unnest(cq.first_ids, cq.starts) as u(first_id, start)
) as run
cross join lateral generate_series(0, run.n - 1) as step(i)
where t.name = %s and cq.subscription_id = 0
order by cq.queue_id, queue_offset
"""


def positions(session: Session, topic: str) -> list[tuple[int, int, int]]:
    """Return (queue_id, queue_offset, message_id) of everything appended, read from the table
    itself.
    """
    return [tuple(row) for row in session.rows(_POSITIONS, topic)]


def messages_by_queue(session: Session, topic: str) -> dict[int, list[int]]:
    """Return the message ids of each queue in offset order."""
    queues: dict[int, list[int]] = defaultdict(list)
    for queue_id, _, message_id in positions(session, topic):
        queues[queue_id].append(message_id)
    return dict(queues)
