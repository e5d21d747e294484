"""One business transaction of each protocol, and what its producer learns about it.

Each function makes one transaction and returns its number of messages. It notes the ids as tried
before, as done where it learns of the commit, and as undone where it rolls back on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Connection, text

import mqpg
from mqpg.protocols import Result

from .kit import Kit, payloads
from .names import HERE, group

__all__ = ["PROTOCOLS", "Refused"]

_BUSINESS = text("insert into business select i, :protocol, :topic, :key from unnest(cast(:ids as bigint[])) as i")
_BUSINESS_HERE = "insert into public.business select i, %s, %s, %s from unnest(%s::bigint[]) as i"


class Refused(Exception):
    """The business says no, so the transaction is rolled back."""


def same_database(kit: Kit) -> int:
    """T1: business and messages in one transaction of a broker, with delays and late commits."""
    topic, key = kit.topic(), kit.key()
    ids = kit.journal.tried("t1", topic, kit.batch())
    delay = timedelta(seconds=kit.rng.random() * 2) if key is None and kit.chance(0.2) else None
    mq = kit.parties.brokers.pick(key)
    try:
        with mq.transaction() as conn:
            conn.execute(_BUSINESS_HERE, ("t1", topic, key, ids))
            mq.send_batch(topic, payloads(ids), keys=[key] * len(ids), delay=delay, conn=conn)
            kit.linger(0.2, 0.3)
            if kit.chance(0.1):
                raise Refused
        kit.journal.done("t1", topic, ids)
    except Refused:
        kit.journal.undone("t1", topic, ids)
    return len(ids)


def dedup(kit: Kit) -> int:
    """A send that is repeated under its dedup id until the broker answers. It has no business."""
    topic = kit.topic()
    key = kit.key() or f"{kit.parties.number}"
    ids = kit.journal.tried("dedup", topic, kit.batch())
    mq = kit.parties.brokers.pick(key)
    for _ in range(20):
        try:
            mq.send_batch(topic, payloads(ids), keys=[key] * len(ids), dedup_ids=[str(one) for one in ids])
        except (mqpg.ConnectionFailed, mqpg.OutcomeUnknown):
            time.sleep(0.3)
            continue  # always at the same broker: another one would not know the dedup id
        kit.journal.done("dedup", topic, ids)
        break
    return len(ids)


def half_message(kit: Kit) -> int:
    """T2, and T4 on relay topics: half messages, a local transaction, the decision."""
    topic, key = kit.topic(relay=0.5), kit.key()
    protocol = "t4" if topic.startswith("relay") else "t2"
    ids = kit.journal.tried(protocol, topic, kit.batch(most=100))
    first, *others = payloads(ids)
    try:
        with kit.parties.shop.transaction(topic, first, key=key) as tx:
            if others:
                tx.add_batch(topic, others, keys=[key] * len(others))
            tx.execute(_BUSINESS, {"protocol": protocol, "topic": topic, "key": key, "ids": ids})
            if kit.chance(0.15):
                raise Refused
        kit.journal.done(protocol, topic, ids)
    except Refused:
        kit.journal.undone(protocol, topic, ids)
    return len(ids)


def outbox(kit: Kit) -> int:
    """FastMiniMQ, P1 to P7: deduplicated by the broker, or by the consumer on relay topics."""
    topic, key = kit.topic(relay=0.7), kit.key()
    protocol = "outbox-relay" if topic.startswith("relay") else "outbox"
    ids = kit.journal.tried(protocol, topic, 1)
    try:
        with kit.parties.outbox.transaction(topic, {"id": ids[0]}, key=key) as tx:
            tx.execute(_BUSINESS, {"protocol": protocol, "topic": topic, "key": key, "ids": ids})
            if kit.chance(0.15):
                raise Refused
        kit.journal.done(protocol, topic, ids)
    except Refused:
        kit.journal.undone(protocol, topic, ids)
    return 1


def compensation(kit: Kit) -> int:
    """T5 (QoS 1): the message is stored with the business, and the loop sends it."""
    topic, key = kit.topic(), kit.key()
    ids = kit.journal.tried("t5", topic, kit.rng.choice((1, 5)))
    with kit.parties.engines["outbox"].begin() as conn:
        _insert(conn, "t5", topic, key, ids)
        for one in ids:
            kit.parties.outbox.send(topic, {"id": one}, key=key, conn=conn)
    kit.journal.done("t5", topic, ids)
    return len(ids)


def check_back(kit: Kit) -> int:
    """T3: the ledger is in the broker's database, and a third is left to the check-backs.

    Some transactions last longer than `check_after`, so the check-back meets an open one.
    """
    topic, key = kit.topic(), kit.key()
    ids = kit.journal.tried("t3", topic, kit.rng.choice((1, 3)))
    mq = kit.parties.brokers.pick(key)
    handles = mq.prepare_batch(topic, payloads(ids), HERE, keys=[key] * len(ids))
    try:
        with mq.transaction() as conn:
            for handle in handles:
                mq.local_begin(handle, conn=conn)
            conn.execute(_BUSINESS_HERE, ("t3", topic, key, ids))
            kit.linger(0.15, 6.0)
            if kit.chance(0.15):
                raise Refused
        kit.journal.done("t3", topic, ids)
    except (Refused, mqpg.Fenced):
        kit.journal.undone("t3", topic, ids)
        return len(ids)
    if kit.chance(0.67):
        mq.commit_batch(handles)
    return len(ids)


def reconciled(kit: Kit) -> int:
    """T6: half of the messages are committed by nobody but the reconciler."""
    topic, key = kit.topic(), kit.key()
    ids = kit.journal.tried("t6", topic, kit.rng.choice((1, 5)))
    mq, ledger = kit.parties.brokers.pick(key), kit.parties.recon.ledger
    handles = mq.prepare_batch(topic, payloads(ids), group("recon", kit.parties.number), keys=[key] * len(ids))
    try:
        with kit.parties.engines["recon"].begin() as conn:
            for handle in handles:
                ledger.begin(conn, handle, topic)
            _insert(conn, "t6", topic, key, ids)
            if kit.chance(0.15):
                raise Refused
        kit.journal.done("t6", topic, ids)
    except (Refused, mqpg.Fenced):
        kit.journal.undone("t6", topic, ids)
        mq.rollback_batch(handles)
        return len(ids)
    if kit.chance(0.5):
        mq.commit_batch(handles)
    return len(ids)


def post_message(kit: Kit) -> int:
    """postMessage: the business is a callback, and some of its results never arrive."""
    topic, key = kit.topic(), kit.key()
    ids = kit.journal.tried("post", topic, 1)

    def business(handle: str) -> Result:
        if kit.chance(0.15):
            kit.journal.undone("post", topic, ids)
            return Result.FAILURE
        with kit.parties.engines["post"].begin() as conn:
            kit.parties.posted.begin(conn, handle, topic)
            _insert(conn, "post", topic, key, ids)
        kit.journal.done("post", topic, ids)
        return Result.WAIT if kit.chance(0.2) else Result.SUCCESS

    try:
        kit.parties.post.post(topic, {"id": ids[0]}, business, key=key)
    except mqpg.Fenced:
        kit.journal.undone("post", topic, ids)
    return 1


def _insert(conn: Connection, protocol: str, topic: str, key: str | None, ids: list[int]) -> None:
    conn.execute(_BUSINESS, {"protocol": protocol, "topic": topic, "key": key, "ids": ids})


PROTOCOLS: dict[str, Callable[[Kit], int]] = {
    "t1": same_database,
    "dedup": dedup,
    "t2": half_message,
    "outbox": outbox,
    "t5": compensation,
    "t3": check_back,
    "t6": reconciled,
    "post": post_message,
}
