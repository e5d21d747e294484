"""postMessage: the message first, the business in a callback, and a reverse flow.

The forward flow has six steps. 1 to 3: the message is stored and not delivered. 4: the callback
does the business. 5 and 6: its result is sent, and the message is delivered or dropped.

In the reverse flow the broker hands out messages whose result never came, and `check` answers what
became of the business, until that is known. The business may be anywhere, for example behind an
API. If it is in a database of your own, AsyncTransactionalProducer does not need `check`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mqpg._async._acompat import Event, Returns
from mqpg._async.client.client import AsyncClient
from mqpg._async.producer.brokers import AsyncBrokers
from mqpg._async.producer.loop import run_periodically
from mqpg._async.producer.prepare_and_decide import decide, rollback_half
from mqpg.values.choices import Checker
from mqpg.values.draft import Draft
from mqpg.values.errors import ConfigurationError, InvalidArgument, shown
from mqpg.values.messages import HalfCheck, Interval, Outcome, Result

__all__ = ["AsyncPostProducer", "Posted"]

logger = logging.getLogger("mqpg")

# The other checkers look into a ledger, which this producer does not write.
_CHECKERS: tuple[Checker, ...] = ("due_checks", "function")


@dataclass(frozen=True, slots=True)
class Posted:
    """What a `post` came to.

    Attributes:
        handle: The message's handle.
        result: The result of the business.
        outcome: What became of the message. None if the broker does not know yet: the result is
            WAIT, or the broker could not be reached.
    """

    handle: str
    result: Result
    outcome: Outcome | None


class AsyncPostProducer:
    """Sends messages by the result of a business action: success, failure or wait.

    Threads and tasks may share it.

    Args:
        mq: The broker, or several of them (AsyncBrokers).
        group: A producer group with the checker due_checks, or function, which then answers instead
            of `check`.
        check: The reverse flow. `check(half)` returns the Result of the business that belongs to a
            message, and WAIT if it is not sure. None: `answer` is not used.
    """

    def __init__(
        self,
        mq: AsyncClient | AsyncBrokers,
        *,
        group: str,
        check: Callable[[HalfCheck], Returns[object]] | None = None,
    ) -> None:
        self.brokers = AsyncBrokers._around(mq)
        self.group = group
        self._check = check

    async def post(
        self,
        topic: str,
        payload: Any,
        callback: Callable[[str], Returns[object]],
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
    ) -> Posted:
        """Store the message, call `callback(handle)`, and send its Result.

        The business should store the handle, so that the reverse flow knows exactly which message
        it is about. If the message cannot be stored, the callback is never called. If the
        callback raises, or returns no Result, the business may have happened or not: the message
        waits for the reverse flow, and the error is raised again.

        Args:
            topic: The topic's name.
            payload: Any object that JSON can hold, or mqpg.Json.
            callback: Does the business. It is called with the message's handle and returns its
                Result.
            key: Messages with the same key keep their order; it also chooses among several brokers.
                None: no key.
            tag: A word that subscriptions may choose messages by. None: no tag.
            headers: Any object that JSON can hold. None: none.
            delay: How long after the result the message becomes visible. None: at once.

        Returns:
            The handle, the result, and what became of the message.

        Raises:
            InvalidArgument: The callback returned no Result, or an argument is out of range.
            ConfigurationError: The group's checker looks into a ledger.
            UnknownTopic: There is no such topic.
            UnknownProducerGroup: There is no such producer group.
            ConnectionFailed: No broker answers; the callback was not called.
        """
        mq = await self.brokers.pick(key)
        await mq.queries.require_checker(self.group, *_CHECKERS)
        handle = await store(mq, self.group, Draft(topic, payload, key, tag, headers, delay))
        try:
            result = _result(await callback(handle))
        except BaseException:
            logger.warning("%s: the result of the business is unknown; the reverse flow asks for it", handle)
            raise
        return Posted(handle, result, await _send_result(mq, handle, result))

    async def answer(self, max_messages: int = 100, lease: Interval = 30.0) -> int:
        """Run the reverse flow once: ask `check`, and send the results.

        An answer that does not arrive is asked for again, and also after an error of `check`.

        Args:
            max_messages: How many messages to ask about at each broker.
            lease: How long the answers may take, 30 seconds by default.

        Returns:
            How many messages `check` was asked about.

        Raises:
            ConfigurationError: No `check` was given.
            ConnectionFailed: No broker answers.
        """
        if self._check is None:
            raise ConfigurationError(f"producer group {self.group} has no check: PostProducer(…, check=…)")
        return await self.brokers._each(lambda mq: self._answer_at(mq, max_messages, lease))

    async def run_answers(self, stop: Event, interval: float = 5.0) -> None:
        """Run `answer` periodically, through restarts of the brokers.

        Args:
            stop: An event that ends the loop when it is set.
            interval: Seconds between two runs.

        Raises:
            ConfigurationError: No `check` was given.
        """
        what = f"reverse flow of producer group {self.group}"
        await run_periodically(self.answer, stop, interval, what, fatal=(ConfigurationError,))

    async def _answer_at(self, mq: AsyncClient, max_messages: int, lease: Interval) -> int:
        halves = await mq.due_checks(self.group, max_messages, lease)
        for half in halves:
            await self._answer(mq, half)
        return len(halves)

    async def _answer(self, mq: AsyncClient, half: HalfCheck) -> None:
        assert self._check is not None
        try:
            result = _result(await self._check(half))
            if result is Result.WAIT:  # does not count as a check
                await mq.check_wait(half.handle)
            else:
                await _send_result(mq, half.handle, result)
        except Exception as error:
            logger.warning("reverse flow of %s: no answer, so it is asked again: %s", half.handle, error)


async def store(mq: AsyncClient, group: str, draft: Draft) -> str:
    """Steps 1 to 3.

    The message is stored once, however often the call is repeated, and at one broker only. A second
    broker would also ask about its copy, and find that the business was done.
    """
    return await mq.prepare(draft.topic, draft.payload, group, dedup_id=uuid4().hex, **draft.options())


async def _send_result(mq: AsyncClient, handle: str, result: Result) -> Outcome | None:
    if result is Result.SUCCESS:
        return await decide(mq, handle, None)
    return await rollback_half(mq, handle) if result is Result.FAILURE else None


def _result(value: object) -> Result:
    try:
        return Result(str(value))
    except ValueError:
        raise InvalidArgument(f"a result must be success, failure or wait, not {shown(value)}") from None
