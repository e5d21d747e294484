"""Nodes, topics, groups and tables, and the file that tells the nodes where everything is."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = [
    "BROKERS",
    "BUSINESS",
    "C1",
    "C2",
    "C3",
    "CLIENTS",
    "CONSUMERS",
    "EFFECT",
    "EVENTS",
    "FRESH",
    "HERE",
    "LEASE",
    "NODES",
    "PARTS",
    "PRODUCERS",
    "PROTOCOL_NAMES",
    "QUEUES",
    "RELAYS",
    "WORKERS",
    "Layout",
    "group",
    "store",
]

PRODUCERS = CONSUMERS = (1, 2, 3, 4)
BROKERS = ("broker-1", "broker-2")
CLIENTS = (*(f"producer-{n}" for n in PRODUCERS), *(f"consumer-{n}" for n in CONSUMERS))
NODES = (*CLIENTS, *BROKERS)
WORKERS = ("worker-1", "worker-2", "worker-3", "worker-4")  # in containers: two for each broker

EVENTS = ("events-1", "events-2")
RELAYS = ("relay",)
QUEUES = 4  # of each topic; in C2 each consumer has one
LEASE = 3.0  # seconds, of receives outside of the effect's transaction

C1, C2, C3, FRESH = "c1", "c2", "c3", "fresh"
HERE = "here"  # halves with their ledger in the broker's database
# The databases of a producer. The four of one name are of one producer group, but for those of `post`,
# whose producers answer themselves.
PARTS = ("shop", "outbox", "recon", "post")

PROTOCOL_NAMES = ("t1", "dedup", "t2", "outbox", "t5", "t3", "t6", "post")

# No key anywhere: what happens twice must be seen twice.
BUSINESS = """
create table business (id bigint not null, protocol text not null, topic text not null, message_key text)
"""
EFFECT = """
create table effect (
    nth bigint generated always as identity, consumer_group text not null, broker int not null, topic text not null,
    queue_id int not null, queue_offset bigint not null, message_key text, message_id bigint not null,
    id bigint not null, attempt int not null)
"""


def store(part: str, producer: int) -> str:
    """The name of one of a producer's databases."""
    return f"{part}-{producer}"


def group(store: str) -> str:
    """The producer group of one of the producers' databases."""
    return store if store.startswith("post") else store.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is. The nodes read it from a file that only their user may read.

    Attributes:
        brokers: The DSNs of the brokers, perhaps through a proxy, by the name of the node.
        stores: The DSNs of the producers' databases, by their names.
        sinks: The DSNs of the consumers' databases, by the consumer's number.
    """

    folder: str
    brokers: dict[str, list[str]]
    stores: dict[str, str]
    sinks: dict[str, str]
    rate: float
    seed: int
    protocols: list[str]

    def write(self) -> Path:
        """Write the file, and return its path."""
        new = self.path.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(self), file)
        new.rename(self.path)
        return self.path

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.folder) / "layout.json"

    @classmethod
    def read(cls, path: str) -> Layout:
        """Read the file."""
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))

    @property
    def quiet(self) -> Path:
        """The file whose existence tells producers to make no more messages."""
        return Path(self.folder) / "quiet"
