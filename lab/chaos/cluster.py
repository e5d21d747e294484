"""The servers and databases of a run, and their schemas.

Each node has a server of its own: a broker that of its broker, a producer and a consumer that of its
local databases. It is killed with the node.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

import mqpg
from lab.audits import sqlalchemy_url
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from mqpg.protocols import Brokers, OutboxProducer

from .containers import Container, Engine, Server, engine
from .disk import SETTINGS as SMALL_DISK
from .disk import small_disk
from .hot import watch
from .names import (
    BROKERS,
    BUSINESS,
    C1,
    C2,
    C3,
    CLIENTS,
    CONSUMERS,
    EFFECT,
    EVENTS,
    HERE,
    NODES,
    PARTS,
    PRODUCERS,
    QUEUES,
    RELAYS,
    WORKERS,
    store,
)
from .schedule import Options

__all__ = ["Cluster", "cluster", "query"]

_SETTINGS: dict[str, str | int] = {"max_connections": 300, "log_min_messages": "fatal"}
# Segments and cursor slots are closed after seconds, and merged as soon as four are closed.
_BUSY_KEEPER = """
update mqpg.settings set value = case name when 'segments_most' then '4' else '2 s' end
where name in ('segment_age', 'cursor_slot_age', 'segments_most')
"""
_SMALL: dict[str, str | int] = {"shared_buffers": "16MB", "max_wal_size": "64MB"}
_CHECK_AFTER = "2 s"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the run happens.

    Attributes:
        servers: The servers, by the name of the node.
        brokers: The DSNs of the brokers.
        stores: The DSNs of the producers' databases, by their names.
        sinks: The DSNs of the consumers' databases, by the consumer's number.
        containers: The containers, by the name of the node. Empty: the nodes are processes.
    """

    folder: Path
    servers: dict[str, EmbeddedServer | Server]
    brokers: list[str]
    stores: dict[str, str]
    sinks: dict[str, str]
    judge: str
    containers: dict[str, Container] = field(default_factory=dict)


@contextmanager
def cluster(options: Options) -> Iterator[Cluster]:
    """Start ten servers and create all databases; they are deleted at the end unless `keep`."""
    folder = Path(tempfile.mkdtemp(prefix="mqpg-chaos-"))
    folder.chmod(0o711)  # root's servers run as another user, who must be able to enter
    with ExitStack() as stack:
        if not options.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers: dict[str, EmbeddedServer | Server] = {}
        containers: dict[str, Container] = {}
        settings = {}
        for name in NODES:
            settings[name] = _SETTINGS | (_SMALL if name in CLIENTS else dict(options.settings or {}))
            if "disk" in options.faults and name in BROKERS:
                stack.enter_context(small_disk(folder / name))
                settings[name] = SMALL_DISK | settings[name]
        if options.place == "containers":
            containers, servers = _contained(stack.enter_context(engine(folder)), folder, settings)
        else:
            embedded = {name: EmbeddedServer(folder / name, settings=settings[name]) for name in NODES}
            for one in embedded.values():
                stack.enter_context(one)
            _share_password([embedded[name] for name in CLIENTS])
            servers |= embedded
        made = Cluster(
            folder,
            servers,
            [servers[name].create_database("broker") for name in BROKERS],
            {store(part, n): servers[f"producer-{n}"].create_database(part) for n in PRODUCERS for part in PARTS},
            {str(n): servers[f"consumer-{n}"].create_database("effects") for n in CONSUMERS},
            servers[CLIENTS[0]].create_database("judge"),
            containers,
        )
        _prepare(made, options)
        yield made


def _contained(
    made: Engine, folder: Path, settings: Mapping[str, Mapping[str, str | int]]
) -> tuple[dict[str, Container], dict[str, EmbeddedServer | Server]]:
    """Create the containers, and start those that have a server."""
    containers: dict[str, Container] = {}
    servers: dict[str, EmbeddedServer | Server] = {}
    for name in (*NODES, *WORKERS):
        containers[name], server = made.create(name, folder / name if name in NODES else None, settings.get(name, {}))
        if server is not None:
            containers[name].start()
            servers[name] = server
    for one in servers.values():
        one.start()
    return containers, servers


def _share_password(servers: Sequence[EmbeddedServer]) -> None:
    """Give all servers the password of the first one, because an audit takes one for all of its databases."""
    password = (servers[0].directory / "password").read_text()
    for server in servers[1:]:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute(sql.SQL("alter role current_user password {}").format(password.strip()))
        (server.directory / "password").write_text(password)


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
        mq.create_topic(topic, queues=QUEUES, kind="relay")
    mq.create_producer_group(HERE, check_after=_CHECK_AFTER, checker="ledger")
    # The reconciler comes first, and the check-back only for what it leaves.
    for part, after in (("shop", _CHECK_AFTER), ("recon", "15 s")):
        mq.create_producer_group(part, check_after=after, checker="url", checker_target=part)
    for name in ("outbox", *(store("post", n) for n in PRODUCERS)):
        mq.create_producer_group(name, check_after=_CHECK_AFTER)
    retry: dict[str, Any] = {"max_attempts": 10_000, "retry_delay": 0.2}
    for topic in EVENTS:
        mq.subscribe(C1, topic, on_failure="block_key", **retry)
        mq.subscribe(C3, topic, mode="shared", **retry)
    for topic in (*EVENTS, *RELAYS):
        mq.subscribe(C2, topic, mode="pinned", **retry)
