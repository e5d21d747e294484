"""What a producer sends to a broker: half message and decision (protocol T2, steps 1 and 3)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from mqpg._async.client.client import AsyncClient
from mqpg._async.stores.database import UserDatabase
from mqpg.values.choices import Checker
from mqpg.values.draft import Draft
from mqpg.values.errors import ConnectionFailed, Error, UnknownHandle, WrongState
from mqpg.values.messages import Json, Outcome

__all__ = ["Identified", "decide", "decide_all", "identity_at", "prepare_half", "rollback_half", "rollback_halves"]

logger = logging.getLogger("mqpg")


class Identified(Protocol):
    """A ledger or an outbox."""

    database: UserDatabase

    async def identity(self) -> str:
        """Its identity, which the first call writes into it."""


async def identity_at(mq: AsyncClient, group: str, ledger: Identified) -> str:
    """The identity of a ledger for `prepare`, which the broker knows."""
    identity = await ledger.identity()
    await mq.queries.note_ledger(group, identity, ledger.database.place)
    return identity


async def prepare_half(
    mq: AsyncClient, group: str, draft: Draft, checkers: Sequence[Checker] = (), ledger: Identified | None = None
) -> str:
    """Step 1: store the half message durably, before the local transaction begins.

    Returns its handle.

    `checkers` are those that the producer group may have; a group with another one is refused
    (ConfigurationError). `ledger` gets the row of the local transaction. None: it has no identity.
    """
    if checkers:
        await mq.queries.require_checker(group, *checkers)
    identity = None if ledger is None else await identity_at(mq, group, ledger)
    return await mq.prepare(draft.topic, draft.payload, group, ledger=identity, **draft.options())


async def decide(mq: AsyncClient, handle: str, final_payload: Json | None) -> Outcome | None:
    """Step 3: commit the half message, because the local transaction has committed.

    Returns None if the broker cannot be reached; recovery sends the decision again. Raises
    WrongState, UnknownHandle.
    """
    try:
        outcome = await mq.commit(handle, final_payload)
    except ConnectionFailed as error:
        logger.warning("committed locally, but the broker does not know yet; recovery sends the decision: %s", error)
        return None
    _require_committed(handle, outcome)
    return outcome


async def decide_all(
    mq: AsyncClient, handles: Sequence[str], final_payloads: Mapping[str, Json]
) -> dict[str, Outcome] | None:
    """Step 3 for all half messages of one local transaction. Consumers receive all or none.

    Returns None if the broker cannot be reached. Raises as `decide` does, after the others were
    committed.
    """
    payloads = [final_payloads.get(handle) for handle in handles] if final_payloads else None
    try:
        outcomes = dict(await mq.commit_batch(handles, payloads))
    except ConnectionFailed as error:
        logger.warning("committed locally, but the broker does not know yet; recovery sends the decision: %s", error)
        return None
    for handle, outcome in outcomes.items():
        _require_committed(handle, outcome)
    return outcomes


def _require_committed(handle: str, outcome: Outcome) -> None:
    if outcome is Outcome.ALREADY_ROLLED_BACK:
        raise WrongState(f"the local transaction has committed, but its half message was rolled back before ({handle})")
    if outcome is Outcome.UNKNOWN:
        raise UnknownHandle(f"the local transaction has committed, but the broker has lost its half message ({handle})")


async def rollback_half(mq: AsyncClient, handle: str) -> Outcome | None:
    """Roll a half message back after its local transaction has rolled back.

    A failure is left to the check-back.
    """
    try:
        return await mq.rollback(handle)
    except Error as error:
        logger.warning("rolled back locally, but the broker does not know yet; the check-back decides: %s", error)
        return None


async def rollback_halves(mq: AsyncClient, handles: Sequence[str]) -> None:
    """Roll back further half messages of a local transaction, as `rollback_half` does one."""
    try:
        await mq.rollback_batch(handles)
    except Error as error:
        logger.warning("rolled back locally, but the broker does not know yet; the check-back decides: %s", error)
