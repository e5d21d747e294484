"""Messages in every state, for a schema that is frozen at a release (tools/freeze_schema.py)."""

import json
from typing import Any

import psycopg

from tests.support.broker import Session
from tests.support.retention import aged, keep, pass_time
from tests.support.waiting import eventually

__all__ = ["GROUPS", "MEMBERS", "fill"]

# Consumer group -> its mode, or what else is special about it.
GROUPS: dict[str, dict[str, Any]] = {
    "exclusive": {},
    "shared": {"mode": "shared"},
    "pinned": {"mode": "pinned"},
    "blocking": {"on_failure": "block_key"},
    "filtered": {"filter": "$headers.half == true"},
    "everyone": {"mode": "broadcast"},
}
MEMBERS = {"pinned": "owner", "everyone": "member"}


def fill(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    """Bring messages into every state, and return what is still to be delivered and decided.

    Returns:
        `sent`: all payloads. `had`: for each group, those that must not be delivered again. `halves`: handles by
        state. `receipt`: one of a delivery in flight.
    """
    mq = Session(conn)
    _segments(mq)
    mq.call("create_topic", "evt", 2)
    for group, options in GROUPS.items():
        mq.call("subscribe", group, "evt", **({"retry_delay": "1 s", "max_attempts": 2} | options))
    mq.call("create_producer_group", "open", check_after="1 hour")
    mq.call("create_producer_group", "asked", check_after="10 ms", max_checks=1)
    mq.call("create_producer_group", "short", check_after="10 ms", expire_after="10 ms")
    mq.call("create_topic", "relay", 1, "7 days", "relay")
    sent: list[Any] = []

    def send(payload: str, **named: object) -> None:
        sent.append(payload)
        mq.send("evt", json.dumps(payload), **named)

    for number in range(60):
        send(f"early {number}", key=f"k{number % 5}", tag="early", headers='{"half": false}')
    mq.append()
    handled: dict[str, set[str]] = {group: set() for group in GROUPS}
    for group in GROUPS:
        _ack(mq, group, handled[group])
    in_flight = _receive(mq, "exclusive", 5, lease="1 hour")
    dead = _fail(mq, "exclusive", final=True)
    handled["exclusive"] |= dead
    for group in ("exclusive", "blocking"):
        _fail(mq, group, final=False)
    send("deduplicated", dedup_id="order 7")
    send("delayed", delay="1 hour")
    handles = {state: mq.prepare("evt", json.dumps(f"half {state}"), "open", headers='{"half": true}') for state in (
        "open", "committed", "rolled_back")}  # fmt: skip
    assert mq.commit(handles["committed"]) == "committed"
    assert mq.rollback(handles["rolled_back"]) == "rolled_back"
    handles["parked"] = mq.prepare("evt", '"half parked"', "asked", headers='{"half": true}')
    eventually(lambda: _parked(mq), timeout=300)
    handles["expired"] = mq.prepare("evt", '"half expired"', "short", headers='{"half": true}')
    eventually(lambda: _expired(mq), timeout=300)
    sent.append("half committed")
    mq.append()
    send("unappended")
    mq.execute(
        "insert into mqpg.worker (worker_id, role, host, pid, state, detail)"
        " values ('appender-frozen', 'appender', 'localhost', 1, 'active', '{}')"
    )
    return {
        "sent": sorted(sent),
        "had": {group: sorted(payloads) for group, payloads in handled.items()},
        "dead": sorted(dead),
        "halves": handles,
        "receipt": in_flight[0].receipt,
    }


def _segments(mq: Session) -> None:
    """Closed, merged and dropped segments, and an outbox and ledger of the broker's own database."""
    mq.call("create_topic", "old", 1, "1 day")
    mq.call("subscribe", "exclusive", "old")
    mq.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    mq.execute("update mqpg.settings set value = '0' where name = 'merge_waste'")
    for number in range(7):
        mq.sent("old", json.dumps(f"old {number}"))
        if number < 2:
            mq.ack(mq.receive("old", group="exclusive")[0].receipt)
        aged(mq)
        keep(mq, 3)
        pass_time(mq, "12 hours")
    merged = "select count(*) from mqpg.segment where merged_at is not null"
    eventually(lambda: (keep(mq, 3), mq.scalar(merged))[1], timeout=300)
    mq.execute("update mqpg.settings set value = '28' where name = 'segments_most'")
    eventually(
        lambda: (keep(mq, 3), mq.scalar("select count(*) from mqpg.segment where dropped_at is not null"))[1],
        timeout=300,
    )


def _parked(mq: Session) -> bool:
    mq.call("due_checks", "asked", lease="20 ms")
    mq.call("compensate")
    return bool(mq.scalar("select count(*) from mqpg.half_parked"))


def _expired(mq: Session) -> bool:
    mq.call("compensate")
    return bool(mq.scalar("select count(*) from mqpg.half_expired"))


def _receive(mq: Session, group: str, most: int, **named: object) -> list[Any]:
    return mq.call("receive", group, "evt", most, consumer=MEMBERS.get(group, "one"), **named)


def _ack(mq: Session, group: str, handled: set[str]) -> None:
    found = _receive(mq, group, 8)
    if found:
        mq.ack(found[0].receipt)
    handled.update(message.payload for message in found)


def _fail(mq: Session, group: str, *, final: bool) -> set[str]:
    found = _receive(mq, group, 3)
    mq.call("nack", found[0].receipt, [m.message_id for m in found], "it failed", None, final)
    return {message.payload for message in found}
