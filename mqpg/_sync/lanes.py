# Generated from mqpg/_async/lanes.py by tools/async_to_sync.py: change that file.
"""Which queue a consumer asks next."""

from __future__ import annotations

from collections import deque

from mqpg._consumption import Options
from mqpg._sync.caller import Caller
from mqpg._sync.client import Client
from mqpg.errors import ConfigurationError
from mqpg.message import Message

__all__ = ["Lanes"]

_RETRY_LANE = -1


class Lanes:
    """All queues of the topic, the server choosing; or those that were named, and the retry lane, in turn."""

    def __init__(self, options: Options) -> None:
        self._options = options
        named = options.queues
        self._turn: deque[int | None] = deque([None] if named is None else [*named, _RETRY_LANE])
        self._subscribed = False

    def receive(self, mq: Client, *, conn: Caller | None = None) -> list[Message]:
        """The next delivery, of the queue whose turn it is; empty when no queue has any."""
        options = self._options
        for _ in range(len(self._turn)):
            queue_id = self._turn[0]
            self._turn.rotate(-1)
            messages = mq.receive(
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

    def ready(self, mq: Client) -> None:
        """Once: subscribe where nobody has; refuse a subscription of another mode."""
        if self._subscribed:
            return
        options = self._options
        mode = mq._subscription_mode(options.group, options.topic)
        if mode is None:
            mq.subscribe(
                options.group,
                options.topic,
                options.wanted_mode,
                options.start,
                options.max_attempts,
                options.retry_delay,
            )
        elif mode != options.wanted_mode and (options.mode is not None or options.database is not None):
            raise ConfigurationError(
                f"group {options.group} reads topic {options.topic} in mode {mode}, "
                f"this consumer wants {options.wanted_mode}"
            )
        self._subscribed = True
