"""Several independent brokers: which one a transaction goes to, and which are left alone for a while.

A transaction is pinned to one broker: a handle belongs to the broker that issued it. Before the local
transaction any other may be taken instead, since only the handle in the ledger counts; after it none.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from mqpg._async._io import Lock
from mqpg._async.client import AsyncClient, connect_async
from mqpg._sql import statement
from mqpg.dsn import describe
from mqpg.errors import ConfigurationError, ConnectionFailed, UnknownHandle

__all__ = ["AsyncBrokers", "Seat"]

logger = logging.getLogger("mqpg")

_PING = statement("select 1")

# A broker that is away must not keep a transaction waiting for another one.
_IMPATIENT: dict[str, Any] = {"connect_timeout": 3, "pool_timeout": 3.0, "retry_timeout": 3.0}


class Seat:
    """One broker of several: its client, connected when first needed, and how it has been doing."""

    def __init__(self, dsn: str, settings: dict[str, Any], pause: float, longest: float) -> None:
        self.dsn = dsn
        self.broker_id: str | None = None
        self._settings = settings
        self._pause, self._longest = pause, longest
        self._client: AsyncClient | None = None
        self._own = True
        self._lock = Lock()
        self._failures = 0
        self._away_until = 0.0

    @classmethod
    def taken_by(cls, client: AsyncClient) -> Seat:
        """A seat of a client that stays the caller's."""
        seat = cls(client.dsn, {}, 0.0, 0.0)
        seat._client, seat._own = client, False
        return seat

    @property
    def away(self) -> bool:
        """Whether it failed lately and its pause is not over."""
        return time.monotonic() < self._away_until

    async def client(self) -> AsyncClient:
        """The connected client. Raises ConnectionFailed, SchemaError."""
        async with self._lock:
            if self._client is None:
                self._client = await connect_async(self.dsn, **self._settings)
            if self.broker_id is None:
                self.broker_id = (await self._client.info()).broker_id
            return self._client

    def failed(self, error: Exception) -> None:
        """Leave it alone for a while, longer each time."""
        wait = min(self._longest, self._pause * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        self._away_until = time.monotonic() + wait
        if self._own:
            logger.warning("broker %s is left alone for %.1f s: %s", describe(self.dsn), wait, error)

    def worked(self) -> None:
        """It answered."""
        self._failures, self._away_until = 0, 0.0

    async def close(self) -> None:
        if self._client is not None and self._own:
            await self._client.close()


class AsyncBrokers:
    """Brokers that know nothing of one another, in a fixed order; give it to a producer instead of a client.

    A key goes to the broker that its hash names, and to the next one while that is away (messages of one key
    are ordered on one broker only); without a key they take turns. One that fails is left alone for `pause`
    seconds, doubled up to `longest_pause`. `settings` are those of `connect`, with shorter time-outs by default.
    """

    def __init__(
        self, dsns: Sequence[str], *, pause: float = 1.0, longest_pause: float = 30.0, **settings: Any
    ) -> None:
        if isinstance(dsns, str) or not dsns:
            raise ConfigurationError("dsns must be a list of one DSN at least")
        self.seats = [Seat(dsn, _IMPATIENT | settings, pause, longest_pause) for dsn in dsns]
        self._turn = 0

    @classmethod
    def around(cls, mq: AsyncClient | AsyncBrokers) -> AsyncBrokers:
        """The brokers themselves, or those of one client, which stays the caller's."""
        if isinstance(mq, AsyncBrokers):
            return mq
        brokers = cls([mq.dsn])
        brokers.seats = [Seat.taken_by(mq)]
        return brokers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        for seat in self.seats:
            await seat.close()

    def candidates(self, key: str | None = None) -> Iterator[Seat]:
        """The brokers in the order to try them in; those left alone come last, for when nothing else is left."""
        if key is None:
            self._turn += 1
            first = self._turn
        else:
            first = zlib.crc32(key.encode())
        count = len(self.seats)
        ordered = [self.seats[(first + step) % count] for step in range(count)]
        rested = [seat for seat in ordered if not seat.away]
        yield from rested
        yield from (seat for seat in ordered if seat not in rested)

    async def each(self, work: Callable[[AsyncClient], Any]) -> int:
        """`work` at every broker in turn; the sum of what it returns. One that is away is passed over.

        Raises ConnectionFailed when no broker answers.
        """
        done, failures = 0, []
        for seat in self.seats:
            try:
                done += await work(await seat.client())
            except ConnectionFailed as error:
                seat.failed(error)
                failures.append(error)
            else:
                seat.worked()
        if len(failures) == len(self.seats):
            raise failures[0]
        return done

    async def pick(self, key: str | None = None) -> AsyncClient:
        """A broker that answers. Raises ConnectionFailed where none does."""
        if len(self.seats) == 1:
            return await self.seats[0].client()
        failures: list[str] = []
        for seat in self.candidates(key):
            try:
                client = await seat.client()
                # Connected once is not connected now.
                await client._rows(_PING, {}, repeat=False)
            except ConnectionFailed as error:
                seat.failed(error)
                failures.append(str(error))
            else:
                seat.worked()
                return client
        raise ConnectionFailed(f"no broker answers: {'; '.join(failures)}")

    async def of(self, handle: str) -> AsyncClient:
        """The broker that issued a handle.

        Raises UnknownHandle where it is none of these, ConnectionFailed where one that did not answer may be it.
        """
        return await self.by_id(handle.partition(".")[0])

    async def by_id(self, broker_id: str) -> AsyncClient:
        """The broker with this id. Raises as `of`."""
        silent: list[str] = []
        for seat in self.seats:
            if seat.broker_id is None:
                try:
                    await seat.client()
                except ConnectionFailed as error:
                    silent.append(str(error))
            if seat.broker_id == broker_id:
                return await seat.client()
        if silent:
            raise ConnectionFailed(f"broker {broker_id} may be one that does not answer: {'; '.join(silent)}")
        raise UnknownHandle(f"none of these brokers is {broker_id!r}")
