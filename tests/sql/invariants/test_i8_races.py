"""I8 in a race: two sessions settle the same delivery at the same moment, and the outcome is that of one after the other.

Most acknowledgements take a short way, which relies on the number of the cursor version that they write. Each race
ends as if one session had come first: what was told to each, and what comes again, must agree.
"""

import random
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, seconds
from tests.support.waiting import PATIENCE

_ROUNDS = 16

# What the rival does with a delivery. A number is how many messages it was given.
Rival = Callable[[Session, list[Any]], Any]


def _nack(mq: Session, got: list[Any]) -> None:
    mq.nack(got[0].receipt, [m.message_id for m in got], delay=seconds(0))


def _nack_last(mq: Session, got: list[Any]) -> None:
    mq.nack(got[0].receipt, [got[-1].message_id], delay=seconds(0))


def _seek(mq: Session, got: list[Any]) -> None:
    mq.call("seek", "g", "one", str(got[0].queue_offset), queue_id=0)


def _take_over(mq: Session, got: list[Any]) -> int:
    taken = mq.receive("one")
    if taken:
        mq.ack(taken[0].receipt)
    return len(taken)


RIVALS: dict[str, Rival] = {
    "ack": lambda mq, got: mq.ack(got[0].receipt),
    "ack_through": lambda mq, got: mq.ack(got[0].receipt, through=got[0].queue_offset),
    "extend": lambda mq, got: mq.call("extend", got[0].receipt, seconds(60)),
    "keep": lambda mq, got: mq.call("keep"),
    "nack": _nack,
    "nack_last": _nack_last,
    "purge": lambda mq, got: mq.call("purge_topic", "one"),
    "release": lambda mq, got: mq.call("release", got[0].receipt),
    "seek": _seek,
    "take_over": _take_over,
}


def _coming_again(name: str, got: list[Any], acked: str, rival: Any) -> list[int]:
    """The messages that must come again, by what the two sessions were told."""
    ids = [m.message_id for m in got]
    if name == "release":
        assert {acked, rival} in ({"done", "MQ008"},), "one of them was too late"
        return [] if acked == "done" else ids
    if name == "take_over":
        assert (acked, rival) in (("done", 0), ("MQ009", len(got)))
        return []
    if name in ("purge", "seek"):
        assert acked in ("done", "MQ009")
        assert rival == "done"
        return [] if name == "purge" else ids
    assert acked == "done"
    if name.startswith("nack"):
        assert rival in ("done", "MQ008")
        return [] if rival != "done" else ids if name == "nack" else ids[-1:]
    assert rival == "done" or (name == "extend" and rival == "MQ008")
    return []


def _told(work: Callable[[], Any]) -> Any:
    """What a session was told: an SQLSTATE, a number, or "done"."""
    try:
        answer = work()
    except psycopg.Error as error:
        return error.sqlstate
    return answer if isinstance(answer, int) else "done"


def _pause(mq: Session, rng: random.Random) -> None:
    if rng.random() < 0.5:
        mq.execute("select pg_sleep(%s)", rng.uniform(0, 0.004))


def _ack(mq: Session, receipt: str, began: threading.Barrier, rng: random.Random) -> Any:
    """Acknowledge in a transaction that stays open for a moment. It is repeated if it was undone, or lost the race."""
    isolation = rng.choice(["read committed", "read committed", "repeatable read"])
    undone = rng.random() < 0.15

    def at_once() -> None:
        with mq.transaction() as block:
            mq.execute(f"set transaction isolation level {isolation}")
            mq.execute("select 1 from mqpg.topic")  # takes the snapshot of REPEATABLE READ
            began.wait(PATIENCE)
            _pause(mq, rng)
            mq.ack(receipt)
            _pause(mq, rng)
            block.force_rollback = undone

    told = _told(at_once)
    return _told(lambda: mq.ack(receipt)) if undone or told == "40001" else told


def _race(mq: Session, broker: Broker, pair: tuple[Session, Session], rng: random.Random, rival: Rival) -> Any:
    """Let two sessions race for a delivery. Returns it, and what each of them was told."""
    mq.sent_batch("one", ["1"] * rng.randint(2, 4))
    brief = rival is RIVALS["take_over"]
    got = mq.receive("one", lease=seconds(0.01 if brief else 30))
    if brief:
        mq.execute("select pg_sleep(0.02)")
    began = threading.Barrier(2)
    theirs = random.Random(rng.random())

    def compete() -> Any:
        began.wait(PATIENCE)
        _pause(pair[1], theirs)
        return rival(pair[1], got)

    running = broker.background(_told, compete)
    acked = _ack(pair[0], got[0].receipt, began, rng)
    return got, acked, running.result(PATIENCE)


@pytest.mark.own_database
@pytest.mark.parametrize("name", RIVALS)
def test_I8_an_ack_and_a_rival_end_as_one_after_the_other(
    mq: Session, broker: Broker, rng: random.Random, name: str
) -> None:
    mq.execute("update mqpg.settings set value = '0 s' where name = 'cursor_slot_age'")  # each keep() begins a slot
    pair = broker.session(), broker.session()
    for _ in range(_ROUNDS):
        got, acked, rival = _race(mq, broker, pair, rng, RIVALS[name])
        expected = _coming_again(name, got, acked, rival)
        assert [m.message_id for m in mq.delivered("one")] == expected, (name, acked, rival)
