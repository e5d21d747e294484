"""Receipts and handles are secrets: neither can be computed from another one, nor from what a receiver sees."""

import hashlib
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.support.broker import Broker, Session, refused, seconds

CALLS: dict[str, Callable[[Session, str], object]] = {
    "ack": lambda mq, receipt: mq.ack(receipt),
    "ack through": lambda mq, receipt: mq.ack(receipt, through=0),
    "ack offsets": lambda mq, receipt: mq.ack(receipt, offsets=[0]),
    "nack": lambda mq, receipt: mq.nack(receipt, [1]),
    "extend": lambda mq, receipt: mq.call("extend", receipt, seconds(30)),
    "release": lambda mq, receipt: mq.call("release", receipt),
}


@pytest.fixture
def mq(broker: Broker) -> Session:
    """Topic `t` with one queue and five messages, read by the groups `victim` and `mine`."""
    session = broker.session()
    session.call("create_topic", "t", queues=1)
    for group in ("victim", "mine"):
        session.call("subscribe", group, "t")
    session.call("create_producer_group", "pg")
    session.sent_batch("t", ["1"] * 5)
    return session


def refusal(mq: Session, call: str, receipt: str) -> str:
    with pytest.raises(psycopg.Error) as caught:
        CALLS[call](mq, receipt)
    assert caught.value.sqlstate == "MQ007", str(caught.value)
    return str(caught.value.diag.message_primary).replace(receipt, "…")


def guesses(mine: str) -> Iterator[str]:
    """What a guesser tries: another subscription's receipt, made of the parts of its own."""
    subscription, queue, epoch, *rest = mine.split(".")
    low = int(epoch) % 2**20
    for other in (int(subscription) - 1, int(subscription) + 1):
        for version in range(1, 4):
            for xid in range(low, max(low - 20, 0), -1):
                yield ".".join([str(other), queue, str(version * 2**20 + xid), *rest])


def test_another_groups_receipt_cannot_be_guessed(mq: Session) -> None:
    victims = mq.receive("t", group="victim", lease=seconds(60))[0].receipt
    mine = mq.receive("t", group="mine", lease=seconds(60))[0].receipt
    words = {refusal(mq, "ack", guess) for guess in guesses(mine)}
    assert len(words) == 1, "the refusal must not tell which part was right"
    # The parts before the last one are no secret: knowing all of them is not enough.
    *_, mac = mine.split(".")
    known = victims.rpartition(".")[0]
    for guess in (f"{known}.{mac}", f"{known}.{'0' * 32}", known, f"{known}.", f"{known}.{hashed(known)}"):
        assert {refusal(mq, call, guess) for call in CALLS} == words
    assert (
        mq.scalar("select committed from mqpg.subscription_lag where consumer_group = 'victim' and queue_id = 0") == 0
    )
    mq.ack(victims)


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@pytest.mark.parametrize("state", ["open", "spent", "stale", "unsubscribed"])
def test_the_refusal_of_an_edited_receipt_tells_nothing(mq: Session, state: str) -> None:
    """A receipt that differs in one place is refused alike, whatever became of the real one."""
    receipt = mq.receive("t", group="victim", lease=seconds(0.01))[0].receipt
    if state == "spent":
        mq.ack(receipt)
    elif state == "stale":
        mq.execute("select pg_sleep(0.02)")
        mq.receive("t", group="victim", lease=seconds(60))
    elif state == "unsubscribed":
        mq.call("unsubscribe", "victim", "t")
    words = set()
    for place, char in enumerate(receipt):
        for other in {"0", "1", "9", "a", "."} - {char}:
            words.add(refusal(mq, "release", receipt[:place] + other + receipt[place + 1 :]))
    assert len(words) == 1


def test_a_receipt_needs_the_secret_of_its_subscription(mq: Session) -> None:
    """A copy of the database that makes secrets of its own accepts no receipt of the original."""
    receipt = mq.receive("t", group="victim")[0].receipt
    mq.execute("update mqpg.subscription set receipt_secrets = default")
    assert refusal(mq, "ack", receipt)


def test_a_new_secret_leaves_open_receipts_valid(mq: Session) -> None:
    old = mq.receive("t", group="victim", max_messages=2)[0].receipt
    mq.execute("update mqpg.subscription set receipt_secrets = sha256('new') || receipt_secrets")
    mq.ack(old)
    new = mq.receive("t", group="victim", max_messages=2)[0].receipt
    mq.execute("update mqpg.subscription set receipt_secrets = receipt_secrets[:1]")
    mq.ack(new)
    with refused("MQ007"):
        mq.ack(old)


def test_old_receipts_are_stale_after_adopt(mq: Session) -> None:
    receipt = mq.receive("t", group="victim")[0].receipt
    mq.call("adopt")
    with refused("MQ009"):
        mq.ack(receipt)


def test_handles_of_a_batch_do_not_give_each_other_away(mq: Session) -> None:
    handles = [row[0] for row in mq.call("prepare_batch", "t", ["1"] * 3, "pg")]
    parts = [handle.split(".") for handle in handles]
    assert len({nonce for *_, nonce in parts}) == 3
    ids = [message_id for _, _, message_id, _ in parts]
    for given in range(3):
        for wanted in {0, 1, 2} - {given}:
            broker, incarnation, _, nonce = parts[given]
            guess = ".".join([broker, incarnation, ids[wanted], nonce])
            assert mq.commit(guess) == "unknown"
            assert mq.call("commit_batch", [guess])[0].outcome == "unknown"
            assert mq.call("half_states", [guess])[0].state == "unknown"
    assert [mq.commit(handle) for handle in handles[:2]] == ["committed"] * 2
    assert mq.call("rollback_batch", handles)[2].outcome == "rolled_back"
