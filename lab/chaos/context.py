"""What one thread of a producer works with."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import cycle
from typing import Any

from sqlalchemy import create_engine

import mqpg
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.protocols import Brokers, OutboxProducer, PostProducer, Reconciler, Result

from .journal import Journal
from .names import EVENTS, PARTS, RELAYS, Layout, store

__all__ = ["PERIOD", "Context", "Parties", "Refused", "payloads"]

PERIOD = 0.7  # seconds from one transaction of a thread to the next one
_KEYS = 6
_SMALL = (1, 2, 10)
_SINGLE = 15.0  # messages per second of the protocols without large batches
_VERDICTS = {"commit": Result.SUCCESS, "rollback": Result.FAILURE, "wait": Result.WAIT}


class Refused(Exception):
    """The business says no, so the transaction is rolled back."""


class Parties:
    """The producers of one process, each with a database of its own. Threads share them."""

    def __init__(self, layout: Layout, number: int) -> None:
        self.number = number
        # Time-outs are short, so that a connection that is half open ends within a round.
        dsns = layout.brokers[f"producer-{number}"]
        self.brokers = Brokers(dsns, longest_pause=2.0, call_timeout=8.0, pool_max_size=20)
        urls = {part: to_sqlalchemy(layout.stores[store(part, number)]) for part in PARTS}
        self.engines = {part: create_engine(url, pool_size=8) for part, url in urls.items()}
        self.shop = mqpg.TransactionalProducer(self.brokers, group="shop", ledger=self.engines["shop"])
        self.outbox = OutboxProducer(self.brokers, database=self.engines["outbox"], group="outbox")
        self.recon = Reconciler(self.brokers, self.engines["recon"], older_than=timedelta(seconds=1))
        self.posted = mqpg.Ledger(self.engines["post"])
        self.post = PostProducer(self.brokers, group=store("post", number), check=self._result)

    def _result(self, half: mqpg.HalfCheck) -> Result:
        """Answer the reverse flow. The fence of the ledger makes a failure certain."""
        return _VERDICTS[str(self.posted.verdict(half.handle))]


class Context:
    """A thread's own choices, and what it notes."""

    def __init__(self, parties: Parties, journal: Journal, name: str, layout: Layout) -> None:
        self.parties, self.name, self._life = parties, name, journal.life
        self.tried, self.done, self.undone = journal.tried, journal.done, journal.undone
        self.rng = random.Random(f"{layout.seed} {parties.number} {journal.life} {name}")
        self._generation = 0
        self._events = cycle(self.rng.sample(EVENTS, len(EVENTS)))
        self._relays = cycle(self.rng.sample(RELAYS, len(RELAYS)))
        # The batches of three protocols carry what the rate asks for beyond the single messages.
        per_batch = (layout.rate - _SINGLE) * PERIOD / 3
        self._bulk = max(10, round(4 * per_batch - sum(_SMALL)))

    def key(self) -> str | None:
        """Choose a key that no other thread uses, or none."""
        if self.rng.random() < 0.3:
            return None
        return f"{self.parties.number}.{self._life}.{self.name}.{self._generation}.{self.rng.randrange(_KEYS)}"

    def forget(self) -> None:
        """Use other keys from now on.

        The result of the last transaction is not known, so there is no order between it and the next
        one.
        """
        self._generation += 1

    def topic(self, relay: float = 0.0) -> str:
        """Take the next topic, a relay topic with the probability `relay`.

        They take turns, so that each topic soon has a message after a fault.
        """
        return next(self._relays if self.rng.random() < relay else self._events)

    def batch(self, most: int = 5000) -> int:
        """Choose how many messages a transaction has, up to `most`."""
        return min(most, self.rng.choice((*_SMALL, self._bulk)))

    def chance(self, share: float) -> bool:
        """Return True with a probability."""
        return self.rng.random() < share

    def refuse(self, share: float = 0.15) -> None:
        """Raise Refused with a probability."""
        if self.chance(share):
            raise Refused

    def linger(self, share: float, seconds: float) -> None:
        """Leave the transaction open for a while, now and then."""
        if self.chance(share):
            time.sleep(self.rng.random() * seconds)

    @contextmanager
    def noted(
        self, protocol: str, topic: str, ids: list[int], no: tuple[type[Exception], ...] = (Refused,)
    ) -> Iterator[None]:
        """Note what becomes of a transaction: done at the end, undone if it ends in one of `no`."""
        try:
            yield
        except no:
            self.undone(protocol, topic, ids)
            raise
        self.done(protocol, topic, ids)


def payloads(ids: Sequence[int]) -> list[dict[str, Any]]:
    """A payload for each id."""
    return [{"id": one} for one in ids]
