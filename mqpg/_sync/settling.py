# Generated from mqpg/_async/settling.py by tools/async_to_sync.py: change that file.
"""Telling the broker what became of failed messages."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._failures import Failure, answers
from mqpg._sync.caller import Caller
from mqpg._sync.client import Client

__all__ = ["give_up"]


def give_up(mq: Client, receipt: str, failures: Sequence[Failure], *, conn: Caller | None = None) -> None:
    """Send failed messages of a delivery to retry or to the dead letters, as their errors say."""
    for answer, ids in answers(failures).items():
        mq.nack(receipt, ids, answer.reason, answer.delay, answer.final, conn=conn)
