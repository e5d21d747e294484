"""One business transaction of each protocol, and what its producer learns about it.

Each function makes one transaction. It notes the ids as tried before, as done when it learns of the
commit, and as undone when it rolls back on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import Connection, text

import mqpg
from mqpg.protocols import Result

from .context import Context, Refused, payloads
from .names import HERE

__all__ = ["PROTOCOLS"]

_BUSINESS = text("insert into business select i, :protocol, :topic, :key from unnest(cast(:ids as bigint[])) as i")
_FENCED = (Refused, mqpg.Fenced)
_BUSINESS_HERE = "insert into public.business select i, %s, %s, %s from unnest(%s::bigint[]) as i"


def same_database(one: Context) -> None:
    """T1: business and messages in one transaction of a broker, with delays and late commits."""
    topic, key = one.topic(), one.key()
    ids = one.tried("t1", topic, one.batch())
    delay = timedelta(seconds=one.rng.random() * 2) if key is None and one.chance(0.2) else None
    mq = one.parties.brokers.pick(key)
    with suppress(Refused), one.noted("t1", topic, ids), mq.transaction() as conn:
        conn.execute(_BUSINESS_HERE, ("t1", topic, key, ids))
        mq.send_batch(topic, payloads(ids), keys=[key] * len(ids), delay=delay, conn=conn)
        one.linger(0.2, 0.3)
        one.refuse(0.1)


def dedup(one: Context) -> None:
    """A send that is repeated under its dedup id until the broker answers. It has no business."""
    topic = one.topic()
    key = one.key() or f"{one.parties.number}"
    ids = one.tried("dedup", topic, one.batch())
    mq = one.parties.brokers.pick(key)
    for _ in range(20):
        try:
            mq.send_batch(topic, payloads(ids), keys=[key] * len(ids), dedup_ids=[str(each) for each in ids])
        except (mqpg.ConnectionFailed, mqpg.OutcomeUnknown):
            time.sleep(0.3)
            continue  # always at the same broker: another one would not know the dedup id
        one.done("dedup", topic, ids)
        break


def half_message(one: Context) -> None:
    """T2, and T4 on relay topics: half messages, a local transaction, the decision."""
    topic, key = one.topic(relay=0.5), one.key()
    protocol = "t4" if topic.startswith("relay") else "t2"
    ids = one.tried(protocol, topic, one.batch(most=100))
    first, *others = payloads(ids)
    shop = one.parties.shop
    with suppress(Refused), one.noted(protocol, topic, ids), shop.transaction(topic, first, key=key) as tx:
        if others:
            tx.add_batch(topic, others, keys=[key] * len(others))
        tx.execute(_BUSINESS, {"protocol": protocol, "topic": topic, "key": key, "ids": ids})
        one.refuse()


def outbox(one: Context) -> None:
    """FastMiniMQ, P1 to P7: deduplicated by the broker, or by the consumer on relay topics."""
    topic, key = one.topic(relay=0.7), one.key()
    protocol = "outbox-relay" if topic.startswith("relay") else "outbox"
    ids = one.tried(protocol, topic, 1)
    producer = one.parties.outbox
    with suppress(Refused), one.noted(protocol, topic, ids), producer.transaction(topic, {"id": ids[0]}, key=key) as tx:
        tx.execute(_BUSINESS, {"protocol": protocol, "topic": topic, "key": key, "ids": ids})
        one.refuse()


def compensation(one: Context) -> None:
    """T5 (QoS 1): the message is stored with the business, and the loop sends it."""
    topic, key = one.topic(), one.key()
    ids = one.tried("t5", topic, one.rng.choice((1, 5)))
    with one.noted("t5", topic, ids), one.parties.engines["outbox"].begin() as conn:
        _insert(conn, "t5", topic, key, ids)
        for each in ids:
            one.parties.outbox.send(topic, {"id": each}, key=key, conn=conn)


def check_back(one: Context) -> None:
    """T3: the ledger is in the broker's database, and a third is left to the check-backs.

    Some transactions last longer than `check_after`, so the check-back meets an open one.
    """
    topic, key = one.topic(), one.key()
    ids = one.tried("t3", topic, one.rng.choice((1, 3)))
    mq = one.parties.brokers.pick(key)
    handles = mq.prepare_batch(topic, payloads(ids), HERE, keys=[key] * len(ids))
    with suppress(*_FENCED):
        with one.noted("t3", topic, ids, _FENCED), mq.transaction() as conn:
            for handle in handles:
                mq.local_begin(handle, conn=conn)
            conn.execute(_BUSINESS_HERE, ("t3", topic, key, ids))
            one.linger(0.15, 6.0)
            one.refuse()
        if one.chance(0.67):
            mq.commit_batch(handles)


def reconciled(one: Context) -> None:
    """T6: only the reconciler commits half of the messages."""
    topic, key = one.topic(), one.key()
    ids = one.tried("t6", topic, one.rng.choice((1, 5)))
    mq, ledger = one.parties.brokers.pick(key), one.parties.recon.ledger
    handles = mq.prepare_batch(topic, payloads(ids), "recon", keys=[key] * len(ids), ledger=ledger.identity())
    try:
        with one.noted("t6", topic, ids, _FENCED), one.parties.engines["recon"].begin() as conn:
            for handle in handles:
                ledger.begin(conn, handle, topic)
            _insert(conn, "t6", topic, key, ids)
            one.refuse()
    except _FENCED:
        mq.rollback_batch(handles)
    else:
        if one.chance(0.5):
            mq.commit_batch(handles)


def post_message(one: Context) -> None:
    """postMessage: the business is a callback, and some of its results never arrive."""
    topic, key = one.topic(), one.key()
    ids = one.tried("post", topic, 1)

    def business(handle: str) -> Result:
        if one.chance(0.15):
            one.undone("post", topic, ids)
            return Result.FAILURE
        with one.parties.engines["post"].begin() as conn:
            one.parties.posted.begin(conn, handle, topic)
            _insert(conn, "post", topic, key, ids)
        one.done("post", topic, ids)
        return Result.WAIT if one.chance(0.2) else Result.SUCCESS

    try:
        one.parties.post.post(topic, {"id": ids[0]}, business, key=key)
    except mqpg.Fenced:
        one.undone("post", topic, ids)


def _insert(conn: Connection, protocol: str, topic: str, key: str | None, ids: list[int]) -> None:
    conn.execute(_BUSINESS, {"protocol": protocol, "topic": topic, "key": key, "ids": ids})


PROTOCOLS: dict[str, Callable[[Context], None]] = {
    "t1": same_database,
    "dedup": dedup,
    "t2": half_message,
    "outbox": outbox,
    "t5": compensation,
    "t3": check_back,
    "t6": reconciled,
    "post": post_message,
}
