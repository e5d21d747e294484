# Generated from mqpg/_async/producer/brokers.py by tools/async_to_sync.py: change that file.
"""Several independent brokers: which one a transaction uses, and which ones are left alone.

A transaction is pinned to one broker, because a handle belongs to the broker that issued it. Before
the local transaction any other broker may be used instead, since only the handle in the ledger
counts. After it no other broker may.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Generic, TypeVar

from mqpg._sync._acompat import Lock, Returns, cancellations, raise_cancellation
from mqpg._sync.client.client import Client, connect
from mqpg._sync.closing import Closing
from mqpg._sync.stores.database import DatabaseAway
from mqpg.connection.backoff import Backoff
from mqpg.connection.dsn import describe
from mqpg.connection.forking import in_child
from mqpg.values.arguments import text_of
from mqpg.values.choices import Checker
from mqpg.values.errors import ConfigurationError, ConnectionFailed, UnknownHandle, UnknownProducerGroup, shown

__all__ = ["Brokers", "Endpoint", "Answers"]

logger = logging.getLogger("mqpg")

T = TypeVar("T")

# A broker that is away must not keep a transaction waiting that another broker could serve.
_IMPATIENT: dict[str, Any] = {"connect_timeout": 3, "pool_timeout": 3.0, "retry_timeout": 3.0}


class Endpoint:
    """One broker of several: its client, connected when first needed, and its failures."""

    def __init__(self, dsn: str, settings: dict[str, Any], pause: float, longest: float) -> None:
        self.dsn = dsn
        self.broker_id: str | None = None
        self._settings = settings
        self._client: Client | None = None
        self._own = True
        self._lock = Lock()
        self._backoff = Backoff(pause, longest, jitter=0.0)
        self._away_until = 0.0
        self._refused: tuple[float, ConnectionFailed] | None = None  # when the last attempt to connect failed
        in_child(self)

    def after_fork(self) -> None:
        """Another thread of the parent may have held the lock."""
        self._lock = Lock()

    @classmethod
    def of(cls, client: Client) -> Endpoint:
        """An endpoint whose client stays the caller's."""
        endpoint = cls(client.dsn, {}, 0.0, 0.0)
        endpoint._client, endpoint._own = client, False
        return endpoint

    @property
    def connected(self) -> bool:
        """Whether its client was needed before."""
        return self._client is not None

    @property
    def away(self) -> bool:
        """Whether it failed lately and its pause is not over."""
        return time.monotonic() < self._away_until

    def client(self) -> Client:
        """The connected client. Raises ConnectionFailed, SchemaError.

        Callers that waited for an attempt which failed do not make it once more, one after the other.
        """
        began = time.monotonic()
        with self._lock:
            if self._client is None and self._refused is not None and self._refused[0] >= began:
                raise ConnectionFailed(str(self._refused[1]))
            if self._client is None:
                try:
                    self._client = connect(self.dsn, **self._settings)
                except ConnectionFailed as error:
                    self._refused = time.monotonic(), error
                    raise
            if self.broker_id is None:
                self.broker_id = (self._client.info()).broker_id
            return self._client

    def failed(self, error: Exception) -> None:
        """Leave the broker alone for a while, longer after each failure in a row.

        Calls that were under way together fail together, which counts once.
        """
        if self.away:
            return
        wait = self._backoff.next()
        self._away_until = time.monotonic() + wait
        if self._own:
            logger.warning("broker %s is left alone for %.1f s: %s", describe(self.dsn), wait, error)

    def worked(self) -> None:
        """Note that the broker answered."""
        self._backoff.reset()
        self._away_until = 0.0

    def close(self) -> None:
        """Close the client, unless it is the caller's."""
        if self._client is not None and self._own:
            self._client.close()


@dataclass
class Answers(Generic[T]):
    """The results of the brokers that answered, and the failures of those that did not."""

    results: list[tuple[Client, T]] = field(default_factory=list)
    failures: list[ConnectionFailed] = field(default_factory=list)

    def first(self) -> tuple[Client, T]:
        """The first result and its broker. Raises the last failure if no broker answered."""
        if self.results:
            return self.results[0]
        raise self.failures[-1]

    def all(self) -> list[T]:
        """All results. Raises the first failure if no broker answered."""
        if self.failures and not self.results:
            raise self.failures[0]
        return [result for _, result in self.results]


class Brokers(Closing):
    """Independent brokers, in a fixed order.

    Hand it to a producer instead of a client.

    A key goes to the broker that its hash chooses, and to the next one while that broker is away.
    Messages of one key are therefore ordered only within one broker. Messages without a key take
    the brokers in turn.

    Args:
        dsns: One DSN for each broker.
        pause: How many seconds a broker that failed is left alone; doubled with each failure in a
            row.
        longest_pause: The longest of these pauses, in seconds.
        **settings: Fields of `mqpg.connection.settings.Settings`. The time-outs are shorter
            than those of `connect` by default.

    Raises:
        ConfigurationError: `dsns` is empty or not a list.
    """

    def __init__(
        self, dsns: Sequence[str], *, pause: float = 1.0, longest_pause: float = 30.0, **settings: Any
    ) -> None:
        if isinstance(dsns, str) or not dsns:
            raise ConfigurationError("dsns must be a list of at least one DSN")
        self.endpoints = [Endpoint(dsn, _IMPATIENT | settings, pause, longest_pause) for dsn in dsns]
        self._turn = 0

    @classmethod
    def _around(cls, mq: Client | Brokers) -> Brokers:
        """One client as brokers. The client stays the caller's; brokers are returned unchanged."""
        if isinstance(mq, Brokers):
            return mq
        brokers = cls([mq.dsn])
        brokers.endpoints = [Endpoint.of(mq)]
        return brokers

    def close(self) -> None:
        """Close all connections."""
        for endpoint in self.endpoints:
            endpoint.close()

    def _candidates(self, key: str | None = None) -> Iterator[Endpoint]:
        """The brokers in the order in which to try them. Those that are left alone come last."""
        if key is None:
            self._turn += 1
            first = self._turn
        else:
            first = zlib.crc32(text_of(key, "key").encode("utf-8", "surrogatepass"))
        count = len(self.endpoints)
        ordered = [self.endpoints[(first + step) % count] for step in range(count)]
        rested = [endpoint for endpoint in ordered if not endpoint.away]
        yield from rested
        yield from (endpoint for endpoint in ordered if endpoint not in rested)

    def _visit(
        self,
        work: Callable[[Client], Returns[T]],
        endpoints: Iterable[Endpoint],
        *,
        until: Callable[[T], bool] = lambda result: False,
    ) -> Answers[T]:
        """Do some work at one broker after another, until a result fits. This is the only loop over brokers.

        ConnectionFailed of `work` means that the broker is away, unless it is a DatabaseAway.
        """
        answers: Answers[T] = Answers()
        before = cancellations()
        for endpoint in endpoints:
            try:
                client = endpoint.client()
                result = work(client)
            except DatabaseAway:
                raise
            except ConnectionFailed as error:
                raise_cancellation(before)
                endpoint.failed(error)
                answers.failures.append(error)
                continue
            endpoint.worked()
            answers.results.append((client, result))
            if until(result):
                break
        return answers

    def _each(self, work: Callable[[Client], Returns[int]]) -> int:
        """Do some work at every broker that answers, and add the results up. Raises if none answers."""
        return sum((self._visit(work, self.endpoints)).all())

    def _warn_of_group(self, group: str, checkers: Sequence[Checker]) -> None:
        """Log that a producer group cannot work, before its first message.

        It is no error, because a producer that only recovers needs no group. Only brokers that are connected are
        asked. One that is away is skipped.
        """

        def look(mq: Client) -> None:
            try:
                mq.queries.require_checker(group, *checkers)
            except (UnknownProducerGroup, ConfigurationError) as error:
                logger.warning("the first message will be refused: %s", error)

        self._visit(look, [endpoint for endpoint in self.endpoints if endpoint.connected])

    def pick(self, key: str | None = None) -> Client:
        """Find a broker that answers.

        Args:
            key: The message's key, as in `candidates`. None: the brokers take turns.

        Returns:
            The broker's client.

        Raises:
            ConnectionFailed: No broker answers.
        """
        if len(self.endpoints) == 1:
            return self.endpoints[0].client()
        # A broker that was connected once may be away now.
        answers = self._visit(lambda mq: mq.queries.ping(), self._candidates(key), until=_is_enough)
        if not answers.results:
            raise ConnectionFailed(f"no broker answers: {'; '.join(map(str, answers.failures))}")
        return answers.results[0][0]

    def _pin(self, key: str | None = None) -> str:
        """Choose the broker of a message that is stored now and sent later.

        It is the first candidate that was ever reached, and does not have to answer now. Returns its id. Raises
        ConnectionFailed if no broker was ever reached.
        """
        candidates = list(self._candidates(key))
        strangers = takewhile(lambda endpoint: endpoint.broker_id is None, candidates)
        answers = self._visit(_broker_id, strangers, until=_is_enough)
        known = [endpoint.broker_id for endpoint in candidates if endpoint.broker_id is not None]
        return known[0] if known else answers.first()[1]

    def of(self, handle: str) -> Client:
        """Find the broker that issued a handle.

        Args:
            handle: The handle of a half message.

        Returns:
            The broker's client.

        Raises:
            UnknownHandle: None of these brokers issued it.
            ConnectionFailed: The broker does not answer, or one that does not answer may be the
                one.
        """
        return self._by_id(handle.partition(".")[0])

    def _by_id(self, broker_id: str) -> Client:
        """Find a broker by its id, as `of` finds that of a handle. Raises as it does."""
        strangers = [endpoint for endpoint in self.endpoints if endpoint.broker_id is None]
        answers: Answers[str] = Answers()
        if all(endpoint.broker_id != broker_id for endpoint in self.endpoints):
            answers = self._visit(_broker_id, strangers, until=lambda found: found == broker_id)
        for endpoint in self.endpoints:
            if endpoint.broker_id == broker_id:
                return endpoint.client()
        if answers.failures:
            silent = "; ".join(map(str, answers.failures))
            raise ConnectionFailed(f"broker {broker_id} may be one that does not answer: {silent}")
        raise UnknownHandle(f"none of these brokers is {shown(broker_id)}")


def _broker_id(mq: Client) -> str:
    return (mq.info()).broker_id


def _is_enough(result: object) -> bool:
    return True
