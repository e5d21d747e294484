# Generated from mqpg/_async/producer/prepare_again.py by tools/async_to_sync.py: change that file.
"""Preparing again what a broker has lost (protocol T2, step 5).

A promoted standby may lack the last transactions of its primary, and a restored copy lacks what
came after it. If such a half message belonged to a local transaction that has committed, and the
ledger keeps messages, protocol T2 runs once more: `prepare`, then a local transaction that gives
the ledger row the new handle, then `commit`. The ledger row exists once, so of several recoveries
only one replaces its handle, and the half messages of the others are rolled back. A crash before
that local transaction leaves a half message without a ledger row, which the check-back rolls back.
A crash after it leaves a ledger row that is not marked done, which recovery commits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from mqpg._sync.client.client import Client
from mqpg._sync.producer.prepare_and_decide import decide, prepare_half, rollback_half
from mqpg._sync.stores.ledger import Ledger
from mqpg._sync.stores.ledger_messages import LedgerMessage
from mqpg.values.errors import ConnectionFailed, Error
from mqpg.values.messages import EARLIER_IDS, LostHalf

__all__ = ["find_lost", "prepare_again"]

logger = logging.getLogger("mqpg")


def find_lost(mq: Client, ledger: Ledger, handles: Sequence[str]) -> list[LostHalf]:
    """Which of these committed ledger rows name half messages that this broker has lost."""
    found = mq.queries.lost_halves(handles) if handles else []
    topics = ledger._topics(found)
    return [LostHalf(handle, _message_id(handle), topics.get(handle), None, None) for handle in found]


def prepare_again(mq: Client, ledger: Ledger, lost: LostHalf) -> LostHalf | None:
    """Send a lost message again, if the ledger keeps it.

    Returns what became of it. None if another process has replaced the handle, or does so.
    """
    kept = ledger.messages.read(lost.handle) if ledger.messages.exists() else None
    if kept is None and not ledger._topics([lost.handle]):
        return None
    if kept is None:
        logger.error("ledger row %s (local): the broker has lost it, and the ledger keeps no message", lost.handle)
        return lost
    headers = _with_earlier_id(kept, lost.message_id)
    try:
        handle = prepare_half(mq, kept.producer_group, kept.draft(headers), ledger=ledger)
    except ConnectionFailed:
        raise
    except Error as error:
        logger.error("ledger row %s (local): the broker has lost it, and refuses it now: %s", lost.handle, error)
        # It may be marked done. Recovery would not look at it again then, and a purge would delete it.
        ledger._reopen(lost.handle)
        return lost
    if not ledger.messages.replace_handle(lost.handle, handle, headers):
        rollback_half(mq, handle)
        return None
    logger.warning("ledger row %s: the broker had lost it; prepared again as %s", lost.handle, handle)
    try:
        outcome = decide(mq, handle, ledger.final_payload(handle))
    except Error as error:
        # The row is open. The other messages do not wait for it.
        logger.error("ledger row %s stays open, because its broker refuses it: %s", handle, error)
        outcome = None
    if outcome is not None:
        ledger.mark_done([handle])
    return LostHalf(lost.handle, lost.message_id, kept.topic, handle, outcome)


def _message_id(handle: str) -> int:
    return int(handle.split(".")[2])


def _with_earlier_id(kept: LedgerMessage, message_id: int) -> str | None:
    """The headers with one more earlier id, so that a consumer may recognise the message.

    Headers that are no JSON object stay as they are.
    """
    headers = {} if kept.headers is None else json.loads(kept.headers)
    if not isinstance(headers, dict):
        return kept.headers
    earlier = headers.get(EARLIER_IDS)
    ids = earlier if isinstance(earlier, list) else []
    return json.dumps(headers | {EARLIER_IDS: [*ids, message_id]}, ensure_ascii=False, separators=(",", ":"))
