"""Databases of the user's that cannot be used: each public call raises an error of mqpg that names the database.

The driver's error is its cause. What waits for a database says so instead.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.ext.asyncio import create_async_engine

import mqpg
from mqpg import Verdict, errors, protocols
from tests.fixtures.server import Server

# SQLAlchemy does not close a connection of aiosqlite to a file that is no database.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

HANDLE = "1.1.1.x"
NOT_THERE = "unknown-host.invalid"
_SOON = timedelta(0)


@pytest.fixture
def refused() -> Iterator[int]:
    """A port on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def urls(server: Server, tmp_path: Path, refused: int, orders: str) -> dict[str, str]:
    """URLs of synchronous drivers that lead nowhere."""
    there = make_url(server.dsn("postgres")).set(drivername="postgresql+psycopg")
    read_only = tmp_path / "read_only.db"
    with create_engine(f"sqlite:///{read_only}").begin() as conn:
        conn.exec_driver_sql("create table other (id int)")
    return {
        "unknown host": f"postgresql+psycopg://u:secret@{NOT_THERE}/x",
        "refused port": f"postgresql+psycopg://u:secret@127.0.0.1:{refused}/x",
        "wrong user": there.set(username="nobody", password="secret").render_as_string(hide_password=False),
        "no such database": there.set(database="not_there").render_as_string(hide_password=False),
        "MySQL, unknown host": f"mysql+pymysql://u:secret@{NOT_THERE}/x",
        "MySQL, refused port": f"mysql+pymysql://u:secret@127.0.0.1:{refused}/x",
        "SQLite, a folder": f"sqlite:///{tmp_path}",
        "SQLite, no folder": f"sqlite:///{tmp_path / 'no' / 'x.db'}",
        "SQLite, no database": f"sqlite:///{__file__}",
        "SQLite, read only": f"sqlite:///file:{read_only}?mode=ro&uri=true",
    }


def require_ours(call: str, error: BaseException, wrong: list[str], url: str) -> None:
    """Note what is wrong with an error."""
    said = str(error)
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if not isinstance(error, errors.Error):
        wrong.append(f"{call}: {type(error).__name__}: {said}")
    elif "secret" in said or "\n" in said:
        wrong.append(f"{call} says too much: {said}")
    elif Path(str(make_url(url).database)).name not in said:
        wrong.append(f"{call} does not name the database: {said}")
    elif not isinstance(error, (errors.LedgerError, errors.ConfigurationError)) and len(causes) < 2:
        wrong.append(f"{call} has no cause: {said}")


class Library(NamedTuple):
    """What the synchronous library has, or the asynchronous one."""

    ledger: Any
    producer: Any
    outbox: Any
    inbox: Any
    reconciler: Any
    realign: Any
    handler: Any
    begin: Any


def handle(message: mqpg.Message) -> None:
    raise AssertionError("the database cannot be used")


async def handle_async(message: mqpg.Message) -> None:
    raise AssertionError("the database cannot be used")


def begin(producer: Any) -> None:
    with producer.transaction("orders", 1):
        raise AssertionError("the database cannot be used")


async def begin_async(producer: Any) -> None:
    async with producer.transaction("orders", 1):
        raise AssertionError("the database cannot be used")


SYNC = Library(
    mqpg.Ledger, mqpg.TransactionalProducer, protocols.OutboxProducer, protocols.Inbox, protocols.Reconciler,
    protocols.realign, handle, begin,
)  # fmt: skip
ASYNC = Library(
    mqpg.AsyncLedger, mqpg.AsyncTransactionalProducer, protocols.AsyncOutboxProducer, protocols.AsyncInbox,
    protocols.AsyncReconciler, protocols.realign_async, handle_async, begin_async,
)  # fmt: skip


def calls(library: Library, mq: Any, url: str, closing: Callable[[Any], object]) -> dict[str, Callable[[], Any]]:
    ledger = library.ledger(url)
    producer = library.producer(mq, ledger=url, group="shop")
    keeping = library.producer(mq, ledger=url, group="shop", keep_messages=True)
    outbox = library.outbox(mq, database=url, group="outbox")
    inbox = library.inbox(url, name="inbox")
    reconciler = library.reconciler(mq, url)
    consumer: Any = mqpg.consumer("orders", group="g", database=url, consumer="c")(library.handler)
    for used in (ledger, producer, keeping, outbox, inbox, reconciler, consumer):
        closing(used.close)
    return {
        "Ledger.create": ledger.create,
        "Ledger.create, identify": lambda: ledger.create(identify=True, keep_messages=True),
        "Ledger.verify": ledger.verify,
        "Ledger.identity": ledger.identity,
        "Ledger.known_identities": ledger.known_identities,
        "Ledger.verdict": lambda: ledger.verdict(HANDLE, 0.1),
        "Ledger.final_payload": lambda: ledger.final_payload(HANDLE),
        "Ledger.mark_done": lambda: ledger.mark_done([HANDLE]),
        "Ledger.purge": ledger.purge,
        "TransactionalProducer.create_ledger": producer.create_ledger,
        "TransactionalProducer.transaction": lambda: library.begin(producer),
        "TransactionalProducer.transaction, keep_messages": lambda: library.begin(keeping),
        "TransactionalProducer.recover": lambda: producer.recover(older_than=_SOON),
        "TransactionalProducer.recover_lost": producer.recover_lost,
        "OutboxProducer.create_outbox": outbox.create_outbox,
        "OutboxProducer.send": lambda: outbox.send("orders", 1),
        "OutboxProducer.transaction": lambda: library.begin(outbox),
        "OutboxProducer.recover": lambda: outbox.recover(older_than=_SOON),
        "Reconciler.step": reconciler.step,
        "Inbox.create_inbox": inbox.create_inbox,
        "Consumer.step": lambda: consumer.step(mq),
        "realign": lambda: library.realign(mq, url, "g", "orders"),
    }


@pytest.fixture
def broker(mq: mqpg.Client, orders: str) -> mqpg.Client:
    """A broker with a message for the consumer, and a group for the outbox."""
    mq.create_producer_group("outbox", checker="due_checks")
    mq.subscribe("g", orders, "pinned")
    mq.send(orders, 1)
    mq.append()
    return mq


KINDS = ("unknown host", "refused port", "wrong user", "no such database", "MySQL, unknown host",
         "MySQL, refused port", "SQLite, a folder", "SQLite, no folder", "SQLite, no database",
         "SQLite, read only")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_sync_calls(broker: mqpg.Client, urls: dict[str, str], kind: str) -> None:
    wrong: list[str] = []
    with ExitStack() as closing:
        for name, call in calls(SYNC, broker, urls[kind], closing.callback).items():
            try:
                result = call()
            except BaseException as error:
                require_ours(name, error, wrong, urls[kind])
            else:
                if result is not Verdict.WAIT:
                    wrong.append(f"{name} returned {result!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", KINDS)
async def test_async_calls(dsn: str, broker: mqpg.Client, urls: dict[str, str], kind: str) -> None:
    url = urls[kind].replace("pymysql", "aiomysql").replace("sqlite:", "sqlite+aiosqlite:")
    wrong: list[str] = []
    async with await mqpg.connect_async(dsn) as mq, AsyncExitStack() as closing:
        for name, call in calls(ASYNC, mq, url, closing.push_async_callback).items():
            try:
                result = await call()
            except BaseException as error:
                require_ours(name, error, wrong, url)
            else:
                if result is not Verdict.WAIT:
                    wrong.append(f"{name} returned {result!r}")
    assert not wrong, "\n".join(wrong)


def test_a_ledger_that_is_away_is_no_fault_of_the_broker(broker: mqpg.Client, urls: dict[str, str]) -> None:
    """A producer with several brokers does not leave them alone because of its own database."""
    producer = mqpg.TransactionalProducer(broker, ledger=urls["refused port"], group="shop")
    with pytest.raises(errors.ConnectionFailed, match="connection to database"):
        producer.recover(older_than=_SOON)
    assert not any(endpoint.away for endpoint in producer.brokers.endpoints)


async def test_the_callers_engine(urls: dict[str, str]) -> None:
    with pytest.raises(errors.ConnectionFailed, match="connection to database"):
        mqpg.Ledger(create_engine(urls["refused port"])).verify()
    with pytest.raises(errors.ConnectionFailed, match="connection to database"):
        await asyncio.wait_for(mqpg.AsyncLedger(create_async_engine(urls["refused port"])).verify(), 20)
