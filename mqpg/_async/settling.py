"""Telling the broker what became of failed messages."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._async.caller import Caller
from mqpg._async.client import AsyncClient
from mqpg._failures import Failure, answers

__all__ = ["give_up"]


async def give_up(mq: AsyncClient, receipt: str, failures: Sequence[Failure], *, conn: Caller | None = None) -> None:
    """Send failed messages of a delivery to retry or to the dead letters, as their errors say."""
    for answer, ids in answers(failures).items():
        await mq.nack(receipt, ids, answer.reason, answer.delay, answer.final, conn=conn)
