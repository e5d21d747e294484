"""Telling the broker what became of a delivery."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext

from mqpg._async._io import Connection, PgConnection
from mqpg._async.caller import savepoint
from mqpg._async.client import AsyncClient
from mqpg._async.trying import Tried
from mqpg._failures import Failure, KnownReason, answers, reason_of
from mqpg._signals import Reject, Retry
from mqpg.errors import HandlerTimeout, InvalidArgument
from mqpg.message import Message

__all__ = ["accept", "give_up"]

logger = logging.getLogger("mqpg")


async def give_up(
    mq: AsyncClient, receipt: str, failures: Sequence[Failure], *, conn: PgConnection | Connection | None = None
) -> None:
    """Send failed messages of a delivery to retry or to the dead letters, as their errors say."""
    _tell(failures)
    for answer, ids in answers(failures).items():
        if answer.delay is None:
            await mq.nack(receipt, ids, answer.reason, None, answer.final, conn=conn)
            continue
        try:
            async with nullcontext() if conn is None else savepoint(conn):
                await mq.nack(receipt, ids, answer.reason, answer.delay, conn=conn)
        except InvalidArgument as error:
            # The handler's delay is no time span: the message must count its attempt all the same.
            await mq.nack(receipt, ids, f"{answer.reason} ({reason_of(error)})", conn=conn)


def _tell(failures: Sequence[Failure]) -> None:
    """A line for each message; where its error comes from once, unless the handler said so in as many words."""
    told: set[int] = set()
    for failure in failures:
        message, error = failure.message, failure.error
        known = isinstance(error, (HandlerTimeout, KnownReason, Reject, Retry)) or id(error) in told
        logger.warning(
            "message %d of topic %s failed in attempt %d: %s",
            message.message_id,
            message.topic,
            message.attempt,
            failure.reason,
            exc_info=None if known else error,
        )
        told.add(id(error))


async def accept(
    mq: AsyncClient,
    delivery: Sequence[Message],
    messages: Sequence[Message],
    tried: Tried,
    *,
    conn: PgConnection | Connection | None = None,
) -> None:
    """Acknowledge what of `messages` did not fail; give the rest of the delivery back where only they were tried."""
    receipt, rest = str(delivery[0].receipt), delivery[len(messages) :]
    if tried.left < len(messages):
        await mq.ack(receipt, messages[-1].queue_offset if rest else None, conn=conn)
    # What a failure holds back was given back with it.
    if not all(tried.holds(message) for message in rest):
        await mq.release(receipt, conn=conn)
