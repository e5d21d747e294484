"""Every call of the client runs in its own transaction and in the caller's."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import mqpg
from mqpg import errors
from mqpg.connection.dsn import to_sqlalchemy

pytestmark = pytest.mark.shared_database

UNKNOWN_HANDLE = "000000000000.1.1024.00000000000000000000000000000000"


@contextmanager
def callers(kind: str, dsn: str) -> Iterator[Any]:
    """The caller's connection, of each kind, in a transaction that is not committed."""
    with ExitStack() as stack:
        if kind in ("psycopg", "raw"):
            factory = psycopg.RawCursor if kind == "raw" else psycopg.Cursor
            yield stack.enter_context(psycopg.connect(dsn, row_factory=dict_row, cursor_factory=factory))
            return
        engine = create_engine(to_sqlalchemy(dsn))
        stack.callback(engine.dispose)
        if kind == "connection":
            yield stack.enter_context(engine.connect())
        elif kind == "session":
            yield stack.enter_context(Session(engine))
        else:
            registry = scoped_session(sessionmaker(engine))
            stack.callback(registry.remove)
            yield registry


KINDS = ["psycopg", "raw", "connection", "session", "scoped"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_send_belongs_to_the_callers_transaction(mq: mqpg.Client, dsn: str, orders: str, kind: str) -> None:
    mq.subscribe("g", orders)
    with callers(kind, dsn) as conn:
        mq.send(orders, {"kept": False}, conn=conn)
        conn.rollback()
        mq.send(orders, {"kept": True}, key="k", tag="t", headers={"a": 1}, conn=conn)
        mq.append()
        assert mq.receive("g", orders) == []
        conn.commit()
    mq.append()
    (message,) = mq.receive("g", orders)
    assert (message.payload, message.key, message.tag, message.headers) == ({"kept": True}, "k", "t", {"a": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_runs_in_the_callers_transaction(mq: mqpg.Client, dsn: str, kind: str) -> None:
    with callers(kind, dsn) as conn:
        use: dict[str, Any] = {"conn": conn}
        mq.create_topic("t", 1, timedelta(days=1), **use)
        mq.alter_topic("t", max_payload=100, **use)
        mq.create_producer_group("p", 60, 3, "park", "ledger", **use)
        mq.alter_producer_group("p", max_checks=4, expire_after=timedelta.max, **use)
        mq.subscribe("g", "t", **use)
        mq.alter_subscription("g", "t", max_attempts=3, **use)
        conn.commit()
        sent = mq.send_batch("t", [1, 2], keys=["a", None], tags=[None, "x"], headers=[{"h": 1}, None], **use)
        delayed = mq.send("t", 3, delay=3600, **use)
        assert mq.recall(delayed, **use) is True
        handles = [mq.prepare("t", n, "p", key="k", **use) for n in range(4)]
        handles += mq.prepare_batch("t", [4, 5], "p", check_after=30, **use)
        conn.commit()
        mq.local_begin(handles[0], **use)
        assert mq.commit(handles[0], **use) is mqpg.Outcome.COMMITTED
        assert mq.commit(handles[1], {"final": True}, **use) is mqpg.Outcome.COMMITTED
        assert mq.rollback(handles[2], **use) is mqpg.Outcome.ROLLED_BACK
        assert dict(mq.commit_batch(handles[3:5], [None, "last"], **use)) == dict.fromkeys(handles[3:5], "committed")
        assert mq.rollback_batch([handles[5]], **use) == [(handles[5], mqpg.Outcome.ROLLED_BACK)]
        conn.commit()
        assert mq.append(**use) == 6
        conn.commit()
        assert mq.compensate(**use) == 0
        conn.commit()
        assert mq.due_checks("p", **use) == []
        conn.commit()
        assert isinstance(mq.keep(**use), list)
        conn.commit()
        messages = mq.receive("g", "t", 10, 30, consumer="c", queue_id=0, **use)
        assert [m.payload for m in messages] == [1, 2, 0, {"final": True}, 3, "last"]
        assert [m.message_id for m in messages[:2]] == sent
        receipt = str(messages[0].receipt)
        mq.extend(receipt, 60, **use)
        mq.nack(messages[1], "because", 60, **use)
        mq.ack(messages[3], **use)
        mq.nack_delivery(receipt, [messages[2].message_id], "because", 60, **use)
        mq.ack_delivery(receipt, 3, **use)
        mq.release(receipt, **use)
        assert [m.queue_offset for m in mq.fetch("t", 0, 4, **use)] == [4, 5]
        assert [found.state for found in mq.find_by_key("t", "a", **use)] != []
        assert mq.trace(sent[0], **use)[0].at <= datetime.now(UTC)
        assert mq.dead_letters("g", "t", **use) == []
        conn.commit()
        mq.unsubscribe("g", "t", **use)
        mq.drop_topic("t", True, **use)
        mq.drop_producer_group("p", **use)
        conn.commit()


WRONG_KIND: dict[str, Callable[[Any], object]] = {
    "message_ids must be a list, not 5": lambda mq: mq.nack_delivery("x", 5),
    r"receive returned, not str: delivery.ack\(\) or ack_delivery\(receipt\)": lambda mq: mq.ack("x"),
    r"not str: delivery.nack\(\) or nack_delivery\(receipt\)": lambda mq: mq.nack("x", [5]),
    "ack takes a message that receive returned": lambda mq: mq.ack([5]),
    "handles must be a list, not 'handle'": lambda mq: mq.commit_batch("handle"),
    "handles": lambda mq: mq.half_states(None),
    "wait must be a number of seconds, 0 or more, not -1": lambda mq: mq.receive("g", "t", wait=-1),
    "wait must be a number of seconds, 0 or more, not '1 s'": lambda mq: mq.receive("g", "t", wait="1 s"),
    "conn must be a psycopg Connection, .* Session, not builtins.int": lambda mq: mq.send("t", 1, conn=5),
}


def test_arguments_of_the_wrong_kind(mq: mqpg.Client) -> None:
    for wanted, call in WRONG_KIND.items():
        with pytest.raises(errors.InvalidArgument, match=wanted):
            call(mq)


def test_calls_on_an_own_connection_commit_at_once(mq: mqpg.Client, orders: str) -> None:
    mq.subscribe("g", orders, "pinned")
    assert mq.send(orders, 1, dedup_id="d") == mq.send(orders, 2, dedup_id="d")
    mq.send(orders, "later", deliver_at=datetime.now(UTC) + timedelta(hours=1))
    handle = mq.prepare(orders, 3, "shop", check_after="10 ms")
    assert mq.append() == 1
    (message,) = mq.receive("g", orders, consumer="me")
    mq.ack(message)
    mq.unpin("g", orders)
    while not (due := mq.due_checks("shop", 10, 1)):
        pass
    assert [(half.handle, half.payload, half.topic) for half in due] == [(handle, 3, orders)]
    mq.check_wait(handle, 60)
    assert mq.settle(handle, mqpg.Verdict.COMMIT, "known") is mqpg.Outcome.COMMITTED
    assert mq.commit(handle) is mqpg.Outcome.ALREADY_COMMITTED
    assert mq.rollback(UNKNOWN_HANDLE) is mqpg.Outcome.UNKNOWN
    assert mq.settle(UNKNOWN_HANDLE, "rollback", "lost") is mqpg.Outcome.UNKNOWN
    with pytest.raises(errors.WrongState):
        mq.rearm(handle)


def test_passes_work_where_the_server_defaults_to_repeatable_read(dsn: str, db: psycopg.Connection[Any]) -> None:
    db.execute(f"alter database {db.info.dbname} set default_transaction_isolation = 'repeatable read'".encode())
    with mqpg.connect(dsn) as mq:
        assert mq.append() == 0


def test_nothing_is_compiled_by_llvm_on_a_connection_of_a_client(dsn: str) -> None:
    with mqpg.connect(dsn) as mq, mq.transaction() as conn:
        assert conn.execute("select current_setting('jit')").fetchone() == ("off",)


BAD = [
    (errors.UnknownTopic, lambda mq: mq.send("nowhere", 1)),
    (errors.UnknownTopic, lambda mq: mq.subscribe("g", "nowhere")),
    (errors.UnknownProducerGroup, lambda mq: mq.prepare("orders", 1, "nobody")),
    (errors.UnknownSubscription, lambda mq: mq.receive("nobody", "orders")),
    (errors.UnknownHandle, lambda mq: mq.check_wait(UNKNOWN_HANDLE)),
    (errors.UnknownHandle, lambda mq: mq.rearm(UNKNOWN_HANDLE)),
    (errors.InvalidArgument, lambda mq: mq.settle(UNKNOWN_HANDLE, "commit", None)),
    (errors.InvalidArgument, lambda mq: mq.send("orders", None)),
    (errors.InvalidArgument, lambda mq: mq.send("orders", mqpg.Json("{not json"))),
    (errors.InvalidArgument, lambda mq: mq.send("orders", float("nan"))),
    (errors.InvalidArgument, lambda mq: mq.send("orders", 1, delay=-1)),
    (errors.InvalidArgument, lambda mq: mq.send("orders", 1, delay="soon")),
    (errors.InvalidArgument, lambda mq: mq.send("orders", 1, key="nul\x00")),
    (errors.InvalidArgument, lambda mq: mq.send("orders", 1, conn="postgresql://")),
    (errors.InvalidArgument, lambda mq: mq.send_batch("orders", [1, 2], keys=["one"])),
    (errors.InvalidArgument, lambda mq: mq.send_batch("orders", [1, None])),
    (errors.InvalidArgument, lambda mq: mq.create_topic("t", 0)),
    (errors.InvalidArgument, lambda mq: mq.create_topic("t", 2**40)),
    (errors.InvalidArgument, lambda mq: mq.create_topic("t", "many")),
    (errors.InvalidArgument, lambda mq: mq.create_topic("t", kind="odd")),
    (errors.InvalidArgument, lambda mq: mq.commit(None)),
    (errors.InvalidArgument, lambda mq: mq.settle(UNKNOWN_HANDLE, "perhaps", "why")),
    (errors.InvalidName, lambda mq: mq.create_topic("../etc")),
    (errors.InvalidName, lambda mq: mq.create_producer_group("x" * 128)),
    (errors.InvalidArgument, lambda mq: mq.create_topic(None)),
    (errors.PayloadTooLarge, lambda mq: mq.send("orders", "x" * 2_000_000)),
    (errors.AlreadyDefined, lambda mq: mq.create_topic("orders", 3)),
    (errors.OffsetOutOfRange, lambda mq: mq.fetch("orders", 0, 99)),
    (errors.MalformedReceipt, lambda mq: mq.ack_delivery("receipt")),
]


def test_bad_input_is_one_clear_line_and_does_nothing(mq: mqpg.Client, orders: str) -> None:
    found: list[errors.Error | None] = []
    for _, call in BAD:
        try:
            call(mq)
            found.append(None)
        except errors.Error as error:
            found.append(error)
    assert [type(error) for error in found] == [wanted for wanted, _ in BAD]
    assert all(re.fullmatch(".+", str(error)) for error in found)
    assert mq.append() == 0


def test_a_row_factory_that_a_transaction_sets_does_not_reach_later_calls(dsn: str, orders: str) -> None:
    with mqpg.connect(dsn, pool_min_size=1, pool_max_size=1) as mq:
        mq.subscribe("g", orders)
        with mq.transaction() as conn:
            conn.row_factory = dict_row
            assert conn.execute("select 1 as n").fetchone() == {"n": 1}
        sent = [mq.send(orders, n) for n in range(2)]
        assert mq.append() == 2
        assert [message.message_id for message in mq.receive("g", orders)] == sent


def test_a_call_after_one_that_failed_or_had_many_rows(dsn: str, orders: str) -> None:
    """Calls of one connection share a cursor."""
    with mqpg.connect(dsn, pool_min_size=1, pool_max_size=1) as mq:
        mq.subscribe("g", orders)
        sent = mq.send_batch(orders, list(range(300)))
        with pytest.raises(errors.UnknownTopic):
            mq.send("nobody_made_it", 1)
        assert mq.append() == 300
        received = mq.receive("g", orders, max_messages=300)
        with pytest.raises(errors.MalformedReceipt):
            mq.ack_delivery("nothing like a receipt")
        received.ack()
        assert sorted(message.message_id for message in received) == sent
        assert mq.receive("g", orders) == []
