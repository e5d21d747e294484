"""A seeded random history of concurrent producers, with what each of them committed and when.

Stamps come from one counter. `begun` is drawn before the transaction takes its xid, and `done`
after its commit returned. So a.done < b.begun means that a committed before b took its xid,
whatever the clocks say.
"""

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from tests.support.broker import Broker, Session, message_id

__all__ = ["History", "Sent", "run_history"]


@dataclass(frozen=True)
class Sent:
    """One call that made messages, with their ids in argument order and its stamps."""

    ids: tuple[int, ...]
    key: str | None
    begun: int
    done: int
    kind: str


@dataclass
class History:
    committed: list[Sent] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)  # rolled back or undecided: must never be seen

    @property
    def ids(self) -> list[int]:
        return [i for sent in self.committed for i in sent.ids]


class _Producer:
    """One session that makes random transactions and records them."""

    def __init__(self, mq: Session, rng: random.Random, clock: Callable[[], int], topic: str, keys: int) -> None:
        self.mq, self.rng, self.clock, self.topic, self.keys = mq, rng, clock, topic, keys
        self.history = History()

    def _key(self) -> str | None:
        return f"k{self.rng.randrange(self.keys)}" if self.rng.random() < 0.8 else None

    def _hold(self) -> None:
        """Sometimes keep the transaction open over several calls of the appender."""
        if self.rng.random() < 0.25:
            time.sleep(self.rng.random() * 0.02)

    def _transaction(self, work: Callable[[], list[Sent]]) -> None:
        """Run `work` in one transaction and commit it or not.

        Its sends share the stamps of the transaction.
        """
        begun, abort = self.clock(), self.rng.random() < 0.2
        with self.mq.transaction() as tx:
            made = work()
            self._hold()
            tx.force_rollback = abort
        done = self.clock()
        for sent in made:
            if abort:
                self.history.gone.update(sent.ids)
            else:
                self.history.committed.append(Sent(sent.ids, sent.key, begun, done, sent.kind))

    def send(self) -> None:
        def work() -> list[Sent]:
            made = []
            for _ in range(self.rng.randint(1, 3)):
                key = self._key()
                made.append(Sent((self.mq.send(self.topic, "1", key=key),), key, 0, 0, "send"))
            return made

        self._transaction(work)

    def send_batch(self) -> None:
        def work() -> list[Sent]:
            n, key = self.rng.choice([1, 2, 7, 40, 1030]), self._key()
            ids = self.mq.send_batch(self.topic, ["1"] * n, keys=[key] * n)
            if key is None:
                return [Sent((i,), None, 0, 0, "batch") for i in ids]
            return [Sent(tuple(ids), key, 0, 0, "batch")]

        self._transaction(work)

    def half(self) -> None:
        key = self._key()
        handle = self.mq.prepare(self.topic, "1", key=key)
        self._hold()
        fate = self.rng.random()
        if fate < 0.25:
            self.mq.rollback(handle)
        if fate < 0.4:
            self.history.gone.add(message_id(handle))
            return
        begun = self.clock()
        final = ["2"] if self.rng.random() < 0.3 else []
        assert self.mq.commit(handle, *final) == "committed"
        self.history.committed.append(Sent((message_id(handle),), key, begun, self.clock(), "half"))

    def half_batch(self) -> None:
        key, n = self._key(), self.rng.randint(2, 12)
        rows = self.mq.call("prepare_batch", self.topic, ["1"] * n, "pg", keys=[key] * n)
        handles = [row[0] for row in rows]
        if self.rng.random() < 0.5:
            self.rng.shuffle(handles)  # else they are decided at once
        begun = self.clock()
        self.mq.call("commit_batch", handles)
        ids = tuple(sorted(message_id(h) for h in handles))
        made = [ids] if key is not None else [(i,) for i in ids]
        done = self.clock()
        self.history.committed += [Sent(part, key, begun, done, "half batch") for part in made]

    def run(self, steps: int) -> History:
        for _ in range(steps):
            self.rng.choice([self.send, self.send, self.send_batch, self.half, self.half_batch])()
        return self.history


def _append_until(mq: Session, stop: Event, rng: random.Random) -> None:
    while not stop.is_set():
        mq.append(*([rng.choice([1, 5, 50])] if rng.random() < 0.5 else []))
        time.sleep(rng.random() * 0.004)


def run_history(
    broker: Broker, rng: random.Random, topic: str, *, producers: int = 6, steps: int = 20, keys: int = 3
) -> History:
    """Run concurrent producers beside two appenders, and return when everything committed is
    appended.
    """
    ticket = itertools.count(1)
    clock = ticket.__next__
    stop = Event()
    appenders = [
        broker.background(_append_until, broker.session(), stop, random.Random(rng.random())) for _ in range(2)
    ]
    running = [
        broker.background(
            _Producer(broker.session(), random.Random(rng.random()), clock, topic, keys).run,
            steps,
        )
        for _ in range(producers)
    ]
    whole = History()
    try:
        for future in running:
            part = future.result(60)
            whole.committed += part.committed
            whole.gone |= part.gone
    finally:
        stop.set()
    for appender in appenders:
        appender.result(30)
    last = broker.session()
    while last.append():
        pass
    return whole
