"""The servers and databases of a run, and their schemas.

Each broker is a server of its own. All databases of producers and consumers are on a third server,
which no kill of a node takes down: a kill hits a node's processes, not its disk.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

import mqpg
from lab.audits import sqlalchemy_url
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from mqpg.protocols import Brokers, OutboxProducer

from .disk import SETTINGS as SMALL_DISK
from .disk import small_disk
from .hot import watch
from .names import (
    BROKERS,
    BUSINESS,
    C1,
    C3,
    CONSUMERS,
    EFFECT,
    EVENTS,
    HERE,
    PARTS,
    PRODUCERS,
    QUEUES,
    RELAYS,
    c2,
    group,
)
from .schedule import Options

__all__ = ["Cluster", "cluster", "query"]

_SETTINGS: dict[str, str | int] = {"max_connections": 300, "log_min_messages": "fatal"}
# Segments and cursor slots are closed after seconds, and merged as soon as four are closed.
_BUSY_KEEPER = """
update mqpg.settings set value = case name when 'segments_most' then '4' else '2 s' end
where name in ('segment_age', 'cursor_slot_age', 'segments_most')
"""
_CHECK_AFTER = "2 s"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the run happens.

    Attributes:
        side: The server of all other databases.
        stores: The DSNs of the producers' databases, by producer group.
        sinks: The DSNs of the consumers' databases, by the consumer's number.
    """

    folder: Path
    servers: list[EmbeddedServer]
    side: EmbeddedServer
    brokers: list[str]
    stores: dict[str, str]
    sinks: dict[str, str]
    judge: str


@contextmanager
def cluster(options: Options) -> Iterator[Cluster]:
    """Start three servers and create all databases; they are deleted at the end unless `keep`."""
    folder = Path(tempfile.mkdtemp(prefix="mqpg-chaos-"))
    folder.chmod(0o711)  # root's servers run as another user, who must be able to enter
    with ExitStack() as stack:
        if not options.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = []
        for name in (*BROKERS, "side"):
            extra = {} if name == "side" else dict(options.settings or {})
            if "disk" in options.faults and name != "side":
                stack.enter_context(small_disk(folder / name))
                extra = SMALL_DISK | extra
            servers.append(stack.enter_context(EmbeddedServer(folder / name, settings=_SETTINGS | extra)))
        *brokers, side = servers
        made = Cluster(
            folder,
            brokers,
            side,
            [server.create_database("broker") for server in brokers],
            {group(part, n): side.create_database(group(part, n)) for n in PRODUCERS for part in PARTS},
            {str(n): side.create_database(f"consumer-{n}") for n in CONSUMERS},
            side.create_database("judge"),
        )
        _prepare(made, options)
        yield made


def query(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    """Execute one statement, and return its rows."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as conn:
        cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def _prepare(made: Cluster, options: Options) -> None:
    for dsn in made.brokers:
        migrate.upgrade(dsn)
        with mqpg.connect(dsn) as mq:
            _create_names(mq)
        for statement in (BUSINESS, EFFECT, *([_BUSY_KEEPER] if "keep" in options.faults else [])):
            query(dsn, statement)
        with psycopg.connect(dsn, autocommit=True) as conn:
            watch(conn)
        if options.prepared is not None:
            options.prepared(dsn)
    for name, dsn in made.stores.items():
        query(dsn, BUSINESS)
        if name.startswith("outbox-"):
            brokers = Brokers([made.brokers[0]])
            with OutboxProducer(brokers, database=sqlalchemy_url(dsn)) as producer:
                producer.create_outbox()
            brokers.close()
        else:
            with mqpg.Ledger(sqlalchemy_url(dsn)) as ledger:
                ledger.create()
    for dsn in made.sinks.values():
        query(dsn, EFFECT)


def _create_names(mq: mqpg.Client) -> None:
    """Create the topics, the groups and the subscriptions of a broker."""
    for topic in EVENTS:
        mq.create_topic(topic, queues=QUEUES)
    for topic in RELAYS:
        mq.create_topic(topic, queues=1, kind="relay")
    mq.create_producer_group(HERE, check_after=_CHECK_AFTER, checker="ledger")
    for producer in PRODUCERS:
        for part in ("shop", "recon"):
            name = group(part, producer)
            # The reconciler comes first, and the check-back only for what it leaves.
            after = _CHECK_AFTER if part == "shop" else "15 s"
            mq.create_producer_group(name, check_after=after, checker="url", checker_target=name)
        for part in ("outbox", "post"):
            mq.create_producer_group(group(part, producer), check_after=_CHECK_AFTER)
    retry: dict[str, Any] = {"max_attempts": 10_000, "retry_delay": 0.2}
    for number, (events, relay) in enumerate(zip(EVENTS, RELAYS, strict=True), 1):
        mq.subscribe(C1, events, on_failure="block_key", **retry)
        mq.subscribe(C3, events, mode="shared", **retry)
        for topic in (events, relay):
            mq.subscribe(c2(number), topic, mode="pinned", **retry)
