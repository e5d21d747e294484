"""Which queue a consumer asks next."""

from __future__ import annotations

from collections import deque

from mqpg._async.caller import Caller
from mqpg._async.client import AsyncClient
from mqpg._consumption import Options
from mqpg.errors import ConfigurationError, UnknownSubscription
from mqpg.message import Message

__all__ = ["Lanes"]

_RETRY_LANE = -1


class Lanes:
    """All queues of the topic, the server choosing; or those that were named, and the retry lane, in turn.

    Members of one name take over from each other (a restarted process finds its queues), so workers of one
    process that share a name must not meet on a queue: each gets queues of its own.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        named = options.queues
        self._turns: list[deque[int | None]] = [deque([None] if named is None else [*named, _RETRY_LANE])]
        self._subscribed = False
        self.mode = ""

    async def receive(self, mq: AsyncClient, worker: int = 0, *, conn: Caller | None = None) -> list[Message]:
        """The next delivery, of the queue whose turn it is; empty when no queue has any."""
        options = self._options
        turn = self._turns[worker % len(self._turns)]
        for _ in range(len(turn)):
            queue_id = turn[0]
            turn.rotate(-1)
            messages = await mq.receive(
                options.group,
                options.topic,
                options.max_messages,
                options.lease,
                consumer=options.name,
                queue_id=queue_id,
                conn=conn,
            )
            if messages:
                return messages
        return []

    async def ready(self, mq: AsyncClient) -> None:
        """Once: subscribe where nobody has; refuse a subscription of another mode."""
        if self._subscribed:
            return
        self.mode = await self._mode(mq)
        if self.mode in ("pinned", "broadcast") and self._options.concurrency > 1:
            await self._share_out(mq)
        self._subscribed = True

    async def _mode(self, mq: AsyncClient) -> str:
        options = self._options
        mode = await mq._subscription_mode(options.group, options.topic)
        if mode is None:
            if not options.subscribe:
                raise UnknownSubscription(
                    f"group {options.group} is not subscribed to topic {options.topic}, and subscribe=False: "
                    f"mqpg subscription add {options.group} {options.topic}"
                )
            await self._subscribe(mq)
            return options.wanted_mode
        if mode != options.wanted_mode and (options.mode is not None or options.database is not None):
            raise ConfigurationError(
                f"group {options.group} reads topic {options.topic} in mode {mode}, "
                f"this consumer wants {options.wanted_mode}"
            )
        return mode

    async def _subscribe(self, mq: AsyncClient) -> None:
        options = self._options
        await mq.subscribe(
            options.group,
            options.topic,
            options.wanted_mode,
            options.start,
            filter=options.filter,
            tags=options.tags,
            max_attempts=options.max_attempts,
            retry_delay=options.retry_delay,
            on_failure=options.on_failure,
        )

    async def _share_out(self, mq: AsyncClient) -> None:
        named = self._options.queues
        queues = [*(range(await mq._queues(self._options.topic)) if named is None else named), _RETRY_LANE]
        workers = min(self._options.concurrency, len(queues))
        self._turns = [deque(queues[worker::workers]) for worker in range(workers)]
