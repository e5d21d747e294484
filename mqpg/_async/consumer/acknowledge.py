"""Reporting to the broker what became of a delivery."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from mqpg._async._acompat import PgConnection
from mqpg._async.client.client import AsyncClient
from mqpg._async.client.execute import savepoint
from mqpg._async.consumer.attempts import DeliveryResult
from mqpg.handlers.failures import Failure, RecordedFailure, handler_traceback, nacks, reason_of
from mqpg.handlers.outcomes import Reject, Retry
from mqpg.values.errors import HandlerTimeout, InvalidArgument
from mqpg.values.messages import Message

if TYPE_CHECKING:
    from mqpg._async._acompat import Connection

__all__ = ["ack_delivery", "nack_failures"]

logger = logging.getLogger("mqpg")


async def nack_failures(
    mq: AsyncClient, receipt: str, failures: Sequence[Failure], *, conn: PgConnection | Connection | None = None
) -> None:
    """Send failed messages to the retry lane or to the dead letters, as their errors say."""
    _log_failures(failures)
    for nack, ids in nacks(failures).items():
        if nack.delay is None:
            await mq.nack_delivery(receipt, ids, nack.reason, None, nack.final, conn=conn)
            continue
        try:
            async with nullcontext() if conn is None else savepoint(conn):
                await mq.nack_delivery(receipt, ids, nack.reason, nack.delay, conn=conn)
        except InvalidArgument as error:
            # The handler's delay is no time span. The message must count its attempt all the same.
            await mq.nack_delivery(receipt, ids, f"{nack.reason} ({reason_of(error)})", conn=conn)


def _log_failures(failures: Sequence[Failure]) -> None:
    """Log one line for each message, with one traceback for each unexpected error."""
    logged: set[int] = set()
    for failure in failures:
        message, error = failure.message, failure.error
        known = isinstance(error, (HandlerTimeout, RecordedFailure, Reject, Retry)) or id(error) in logged
        logger.warning(
            "message %d of topic %s failed in attempt %d: %s",
            message.message_id,
            message.topic,
            message.attempt,
            failure.reason,
            exc_info=None if known else (type(error), error, handler_traceback(error)),
        )
        logged.add(id(error))


async def ack_delivery(
    mq: AsyncClient,
    delivery: Sequence[Message],
    tried: Sequence[Message],
    result: DeliveryResult,
    *,
    conn: PgConnection | Connection | None = None,
) -> None:
    """Acknowledge what was tried and did not fail, and give the rest of the delivery back.

    `tried` is the beginning of the delivery.
    """
    receipt, rest = str(delivery[0].receipt), delivery[len(tried) :]
    if result.waiting:
        # The nack has given them back, unless the subscription was altered just before it.
        kept = {message.message_id for message in result.waiting}
        kept.update(failure.message.message_id for failure in result.failures)
        await mq.ack([message for message in tried if message.message_id not in kept], conn=conn)
    elif result.unacknowledged < len(tried):
        await mq.ack_delivery(receipt, tried[-1].queue_offset if rest else None, conn=conn)
    if not all(result.blocks(message) for message in rest):
        await mq.release(receipt, conn=conn)
