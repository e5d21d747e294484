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
    "Layout",
    "c2",
    "group",
    "shards",
]

PRODUCERS = CONSUMERS = (1, 2, 3, 4)
BROKERS = ("broker-1", "broker-2")
CLIENTS = (*(f"producer-{n}" for n in PRODUCERS), *(f"consumer-{n}" for n in CONSUMERS))
NODES = (*CLIENTS, *BROKERS)

EVENTS = tuple(f"events-{n}" for n in CONSUMERS)
RELAYS = tuple(f"relay-{n}" for n in CONSUMERS)  # each is read by one consumer
QUEUES = 2
LEASE = 3.0  # seconds, of receives outside of the effect's transaction

C1, C3, FRESH = "c1", "c3", "fresh"
HERE = "here"  # halves with their ledger in the broker's database
# The databases of a producer, each with a producer group.
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


def c2(consumer: int) -> str:
    """The consumer group whose effects are in a consumer's own database."""
    return f"c2-{consumer}"


def group(part: str, producer: int) -> str:
    """The producer group of one of a producer's databases."""
    return f"{part}-{producer}"


def shards(consumer: int) -> tuple[str, str]:
    """The topics that a consumer shares with its neighbours (C1 and C3)."""
    return EVENTS[consumer - 1], EVENTS[consumer % len(EVENTS)]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is. The nodes read it from a file that only their user may read.

    Attributes:
        brokers: The DSNs of the brokers, perhaps through a proxy, by the name of the node.
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
        path = Path(self.folder) / "layout.json"
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(self), file)
        return path

    @classmethod
    def read(cls, path: str) -> Layout:
        """Read the file."""
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))

    @property
    def quiet(self) -> Path:
        """The file whose existence tells producers to make no more messages."""
        return Path(self.folder) / "quiet"
