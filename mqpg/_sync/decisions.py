# Generated from mqpg/_async/decisions.py by tools/async_to_sync.py: change that file.
"""What a transactional producer tells the broker (protocol T2, steps 1 and 3)."""

from __future__ import annotations

import logging
from typing import Any

from mqpg._sync.client import Client
from mqpg.errors import ConnectionFailed, Error, UnknownHandle, WrongState
from mqpg.message import Interval, Json, Outcome

__all__ = ["decide", "prepare_half", "rollback_half"]

logger = logging.getLogger("mqpg")


def prepare_half(
    mq: Client,
    group: str,
    topic: str,
    payload: Any,
    key: str | None = None,
    tag: str | None = None,
    headers: Any = None,
    delay: Interval | None = None,
) -> str:
    """Step 1: the half message, durable before the local transaction begins; its handle."""
    return mq.prepare(topic, payload, group, key=key, tag=tag, headers=headers, delay=delay)


def decide(mq: Client, handle: str, final_payload: Json | None) -> Outcome | None:
    """Step 3: the half message follows the local transaction, which has committed.

    None when the broker cannot be reached: recovery sends the decision again.
    """
    try:
        outcome = mq.commit(handle, final_payload)
    except ConnectionFailed as error:
        logger.warning("committed locally, the broker does not know yet (recovery tells it): %s", error)
        return None
    if outcome is Outcome.ALREADY_ROLLED_BACK:
        raise WrongState(f"the local transaction has committed, but its half message was rolled back before ({handle})")
    if outcome is Outcome.UNKNOWN:
        raise UnknownHandle(f"the local transaction has committed, but the broker has lost its half message ({handle})")
    return outcome


def rollback_half(mq: Client, handle: str) -> Outcome | None:
    """The half message of a local transaction that has rolled back; best effort, else the check-back does it."""
    try:
        return mq.rollback(handle)
    except Error as error:
        logger.warning("rolled back locally, the broker does not know yet (the check-back settles it): %s", error)
        return None
