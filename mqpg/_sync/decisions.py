# Generated from mqpg/_async/decisions.py by tools/async_to_sync.py: change that file.
"""What a transactional producer tells a broker (protocol T2, steps 1 and 3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mqpg._sync._io import Handled
from mqpg._sync.brokers import Brokers
from mqpg._sync.client import Client
from mqpg.errors import ConnectionFailed, Error, UnknownHandle, WrongState
from mqpg.message import Interval, Json, Outcome

__all__ = ["decide", "decide_all", "prepare_half", "prepare_somewhere", "rollback_half", "rollback_halves"]

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


def prepare_somewhere(
    brokers: Brokers, key: str | None, prepare: Callable[..., Handled], *arguments: Any
) -> tuple[Client, str]:
    """Step 1 by `prepare(mq, *arguments)`, at the first broker that can be reached; that broker and the handle.

    Where an answer was lost the half is nobody's: its handle is in no ledger. Raises ConnectionFailed when none can.
    """
    failure: ConnectionFailed | None = None
    for seat in brokers.candidates(key):
        try:
            mq = seat.client()
            handle = str(prepare(mq, *arguments))
        except ConnectionFailed as error:
            seat.failed(error)
            failure = error
        else:
            seat.worked()
            return mq, handle
    assert failure is not None  # there is a broker at least
    raise failure


def decide(mq: Client, handle: str, final_payload: Json | None) -> Outcome | None:
    """Step 3: the half message follows the local transaction, which has committed.

    None when the broker cannot be reached: recovery sends the decision again.
    """
    try:
        outcome = mq.commit(handle, final_payload)
    except ConnectionFailed as error:
        logger.warning("committed locally, the broker does not know yet (recovery tells it): %s", error)
        return None
    _refuse(handle, outcome)
    return outcome


def decide_all(mq: Client, handles: Sequence[str], final_payloads: Mapping[str, Json]) -> dict[str, Outcome] | None:
    """Step 3 for all halves of one local transaction: one call, so that consumers get all or none.

    None when the broker cannot be reached. Raises as `decide`, once the others are committed.
    """
    payloads = [final_payloads.get(handle) for handle in handles] if final_payloads else None
    try:
        outcomes = dict(mq.commit_batch(handles, payloads))
    except ConnectionFailed as error:
        logger.warning("committed locally, the broker does not know yet (recovery tells it): %s", error)
        return None
    for handle, outcome in outcomes.items():
        _refuse(handle, outcome)
    return outcomes


def _refuse(handle: str, outcome: Outcome) -> None:
    if outcome is Outcome.ALREADY_ROLLED_BACK:
        raise WrongState(f"the local transaction has committed, but its half message was rolled back before ({handle})")
    if outcome is Outcome.UNKNOWN:
        raise UnknownHandle(f"the local transaction has committed, but the broker has lost its half message ({handle})")


def rollback_half(mq: Client, handle: str) -> Outcome | None:
    """The half message of a local transaction that has rolled back; best effort, else the check-back does it."""
    try:
        return mq.rollback(handle)
    except Error as error:
        logger.warning("rolled back locally, the broker does not know yet (the check-back settles it): %s", error)
        return None


def rollback_halves(mq: Client, handles: Sequence[str]) -> None:
    """As `rollback_half`, for what a local transaction added beside its first half message."""
    try:
        mq.rollback_batch(handles)
    except Error as error:
        logger.warning("rolled back locally, the broker does not know yet (the check-back settles it): %s", error)
