"""Telling the broker what became of failed messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from mqpg._async._io import Connection, PgConnection
from mqpg._async.caller import savepoint
from mqpg._async.client import AsyncClient
from mqpg._failures import Failure, answers, reason_of
from mqpg.errors import InvalidArgument

__all__ = ["give_up"]


async def give_up(
    mq: AsyncClient, receipt: str, failures: Sequence[Failure], *, conn: PgConnection | Connection | None = None
) -> None:
    """Send failed messages of a delivery to retry or to the dead letters, as their errors say."""
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
