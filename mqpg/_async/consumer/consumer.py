"""The consumer: iterations of receive, effect and acknowledgement (protocols C1, C2 and C3)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mqpg._async._acompat import Event, Returns, cancellations, gather, raise_cancellation, require_event, wait_for
from mqpg._async.client.client import AsyncClient
from mqpg._async.client.wakeup import TopicWaiter
from mqpg._async.consumer.call_handler import HandlerInvoker
from mqpg._async.consumer.external import External
from mqpg._async.consumer.gone_owners import GoneOwners
from mqpg._async.consumer.no_delivery import NoDelivery
from mqpg._async.consumer.same_database import SameDatabase
from mqpg._async.consumer.silent_members import SilentMembers
from mqpg.connection.forking import in_child
from mqpg.connection.stopping import stops_with
from mqpg.connection.streak import FailureStreak
from mqpg.handlers.failures import PERMANENT_ERRORS, IterationLost, reason_of
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.arguments import seconds
from mqpg.values.errors import ConfigurationError, NotFound
from mqpg.values.messages import AbandonedQueues

if TYPE_CHECKING:
    from mqpg._async.consumer.own_database import OwnDatabase

__all__ = ["AsyncConsumer"]

logger = logging.getLogger("mqpg")

EffectSite: TypeAlias = "SameDatabase | OwnDatabase | External"


class AsyncConsumer:
    """A handler and what it reads, made by `mqpg.consumer`.

    It can still be called as the handler that it was.

    Args:
        handler: The decorated function.
        options: What it reads and how.
    """

    def __init__(self, handler: Callable[..., Returns[object]], options: ConsumerOptions) -> None:
        self.handler = handler
        self.options = options
        self._client: AsyncClient | None = None
        self._reset()
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", type(handler).__name__)
        in_child(self)

    def after_fork(self) -> None:
        """Leave to the parent what it knows and has under way."""
        self._client = None
        self._reset()

    def __call__(self, *args: Any, **kwargs: Any) -> Returns[object]:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__} of {self.options.group}/{self.options.topic}>"

    def with_options(self, **options: Any) -> AsyncConsumer:
        """Make a consumer of the same handler with other options, for instance another database in a test.

        Args:
            options: Arguments of `mqpg.consumer` that are to be others. The rest stays as it is.

        Returns:
            The new consumer. This one does not change.

        Raises:
            ConfigurationError: An option is unknown or not allowed, or two do not go together.
        """
        if unknown := options.keys() - {field.name for field in fields(self.options)}:
            raise ConfigurationError(f"{min(unknown)} is no option: they are the arguments of mqpg.consumer")
        return type(self)(self.handler, replace(self.options, **options))

    async def step(self, mq: AsyncClient, wait: float = 0.0) -> int:
        """Handle one delivery.

        Args:
            mq: The broker.
            wait: How many seconds to wait for a delivery where there is none. The appender wakes the
                call, which does not poll. 0 returns at once.

        Returns:
            How many messages were handled: applied, or sent to the retry lane. 0 where there were
            none.

        Raises:
            ConfigurationError: The client is of the other library, or the subscription has another
                mode.
            InvalidArgument: `wait` is out of range.
            ConnectionFailed: The broker or the consumer's database does not answer.
        """
        limit = seconds(wait, "wait")
        await self._serve(mq)
        if limit == 0:
            return await self._step(mq)
        deadline = time.monotonic() + limit
        with TopicWaiter(mq, self.options.topic, self.options.group, self.options.name) as waiter:
            while not (handled := await self._step(mq)) and (left := deadline - time.monotonic()) > 0:
                await waiter.wait(seconds=left)
        return handled

    async def run(self, mq: AsyncClient, stop: Event) -> None:
        """Handle deliveries until `stop` is set, `concurrency` of them at the same time.

        Deliveries under way are finished first, and a broker that is away is not waited for. Until
        then the consumer continues through restarts of both databases. It serves one client at a
        time.

        Args:
            mq: The broker.
            stop: An event that ends the consumer when it is set.

        Raises:
            OffsetBeyondLog: The consumer's offset is beyond the broker's log.
            LedgerError: A table in the consumer's database is not as it must be, or its engine is in
                autocommit mode.
            ConfigurationError: The options do not fit the client or the subscription, or `stop` is an
                event of the other library.
            InvalidArgument: The broker refuses an option.
            NotFound: The topic or the subscription is gone.
            WrongTopicKind: The topic is a relay topic, which this subscription cannot read.
            MissingBody: A message's body is gone from the log.
            SchemaError: The broker's schema is missing, or this release cannot work with it.
            HandlerStuck: Too many calls of the handler do not return.
        """
        require_event(stop)
        await self._serve(mq)
        count = self.options.concurrency
        if self.options.where == "broker" and self._invoke.wants_driver and count > mq.settings.pool_max_size:
            raise ConfigurationError(
                f"pool_max_size must be {count} or more, as concurrency is, not {mq.settings.pool_max_size}: "
                f"connect(pool_max_size={count})"
            )
        waiters = [TopicWaiter(mq, self.options.topic, self.options.group, self.options.name) for _ in range(count)]
        no_delivery = NoDelivery(self.options)
        try:
            with stops_with(stop):
                await gather([partial(self._work, mq, stop, worker, waiters, no_delivery) for worker in range(count)])
        except NotFound:
            await self._forget()  # the next run begins as the first one, which subscribes
            raise
        finally:
            # A worker's thread does not end with this one, which a signal may interrupt.
            ending = waiters[:]
            waiters.clear()
            for waiter in ending:
                waiter.wake()
                waiter.close()

    @property
    def blocked_by(self) -> tuple[AbandonedQueues, ...]:
        """Pinned queues with messages that no consumer reads, because their owner seems to be gone.

        `run` looks for them every 10 seconds and logs a warning with the call that frees them.
        """
        return self._gone_owners.found

    @property
    def ended_silent(self) -> dict[str, Any]:
        """Which session of a silent member it ended last, and how many, as heartbeats report it."""
        return self._silent_members.report

    @property
    def failing(self) -> dict[str, object] | None:
        """What each iteration of one of its workers fails with: `seconds`, `times` and `error`. None: they work."""
        found = [one for one in map(FailureStreak.described, self._streaks) if one is not None]
        return max(found, key=lambda one: int(str(one["times"])), default=None)

    async def close(self) -> None:
        """Close the connections to the consumer's own database."""
        await self._site.close()

    def _reset(self) -> None:
        self._invoke = HandlerInvoker(self.handler, self.options)
        self._site = _effect_site(self.options, self._invoke)
        self._gone_owners = GoneOwners(self.options)
        self._silent_members = SilentMembers(self.options)
        self._streaks = [FailureStreak() for _ in range(self.options.concurrency)]

    async def _serve(self, mq: AsyncClient) -> None:
        """Serve this client. What was learnt from another one's database is forgotten."""
        if not isinstance(mq, AsyncClient):
            raise ConfigurationError(
                f"{self!r} runs with {AsyncClient.__name__}, as mqpg.connect_async gives it, not {type(mq).__name__}"
            )
        if self._client not in (None, mq):
            await self._forget()
        self._client = mq

    async def _forget(self) -> None:
        with suppress(Exception):  # its event loop may be closed
            await self._site.close()
        self._reset()

    async def _step(self, mq: AsyncClient) -> int:
        before = cancellations()
        while True:
            raise_cancellation(before)
            with suppress(IterationLost):
                return await self._site.step(mq)

    async def _work(
        self, mq: AsyncClient, stop: Event, worker: int, waiters: list[TopicWaiter], no_delivery: NoDelivery
    ) -> None:
        """One worker.

        When it fails permanently it empties `waiters`, which ends the other workers too.
        """
        waiter, unread = waiters[worker], False
        try:
            while waiters and not stop.is_set():
                raise_cancellation(0)  # the task is its own
                try:
                    found = await self._site.step(mq, worker, stop)
                    self._invoke.require_not_stuck()
                except IterationLost:
                    continue
                except PERMANENT_ERRORS:
                    raise
                except Exception as error:
                    if mq.closed:
                        raise
                    self._streaks[worker].failed(reason_of(error))
                    await self._pause(stop, waiter, error)
                    continue
                waiter.succeeded(found)
                self._streaks[worker].worked()
                await self._gone_owners.check(mq)
                if found:
                    no_delivery.delivered()
                    continue
                if unread:
                    await self._silent_members.check(mq)
                await no_delivery.check(mq, unread=unread)
                soonest = _sooner(self._gone_owners.until_next_check(), no_delivery.until_next_check())
                unread = await waiter.wait(stop, soonest)
        except BaseException:
            others = waiters[:]
            waiters.clear()
            for other in others:
                other.wake()
            raise
        finally:
            await self._site.finish(mq, worker)
            waiter.close()

    async def _pause(self, stop: Event, waiter: TopicWaiter, error: Exception) -> None:
        raise_cancellation(0)
        pause = waiter.failed()
        logger.warning("%r: again in %.2f s after %s", self, pause, reason_of(error))
        await wait_for(stop, pause)


def _effect_site(options: ConsumerOptions, invoke: HandlerInvoker) -> EffectSite:
    if options.where == "broker":
        return SameDatabase(options, invoke)
    if options.where == "external":
        return External(options, invoke)
    from mqpg._async.consumer.own_database import OwnDatabase  # with SQLAlchemy, which others need not load

    return OwnDatabase(options, invoke)


def _sooner(one: float | None, other: float | None) -> float | None:
    """The smaller of two time limits, where None is no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)
