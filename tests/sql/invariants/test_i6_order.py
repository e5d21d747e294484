"""I6 order: a message that committed before another one took its xid has the smaller offset, for
one key. A commit counts as a send that was made when it was decided. One call keeps the argument
order, and one commit_batch the order of message ids.
"""

import random
from itertools import pairwise

from tests.support.broker import Broker, Session, messages_by_queue, positions
from tests.support.history import History, run_history


def violations(history: History, place: dict[int, tuple[int, int]]) -> list[str]:
    """Return the pairs of one key whose offsets contradict the order of their transactions, and the
    calls out of order.
    """
    found = []
    by_key: dict[str, list[tuple[int, int, int, int, str]]] = {}
    for sent in history.committed:
        offsets = [place[i] for i in sent.ids]
        if sent.key is None:
            continue
        if any(a >= b for a, b in pairwise(offsets)):
            found.append(f"{sent.kind} of key {sent.key}: ids {sent.ids} lie at {offsets}")
        if len({queue for queue, _ in offsets}) != 1:
            found.append(f"key {sent.key} on more than one queue")
        by_key.setdefault(sent.key, []).append(
            (sent.begun, sent.done, offsets[0][1], offsets[-1][1], f"{sent.kind} {sent.ids[0]}")
        )
    for key, calls in by_key.items():
        for _, done, _, last, what in calls:
            found += [
                f"key {key}: {what} committed before {other} began, but lies behind it"
                for begun, _, first, _, other in calls
                if done < begun and last >= first
            ]
    return found


def assert_ordered(mq: Session, topic: str, history: History) -> None:
    place = {m: (q, o) for q, o, m in positions(mq, topic)}
    assert set(place) == set(history.ids)
    assert violations(history, place) == []


def test_I6_random_concurrent_senders_and_commits(mq: Session, broker: Broker, rng: random.Random) -> None:
    assert_ordered(mq, "t", run_history(broker, rng, "t", producers=8, steps=25))


def test_I6_random_history_on_one_queue(mq: Session, broker: Broker, rng: random.Random) -> None:
    assert_ordered(mq, "one", run_history(broker, rng, "one", producers=6, steps=20, keys=1))


def test_I6_one_producer_is_in_order(mq: Session) -> None:
    ids = [mq.send("t", "1", key="k") for _ in range(50)]
    mq.append()
    assert list(messages_by_queue(mq, "t").values()) == [ids]


def test_I6_a_commit_is_in_order_with_sends(mq: Session) -> None:
    early = mq.prepare("t", "1", key="k")
    a = mq.send("t", "1", key="k")
    mq.commit(early)
    b = mq.send("t", "1", key="k")
    late = mq.prepare("t", "1", key="k")
    mq.commit(late)
    mq.append()
    expected = [a, int(early.split(".")[2]), b, int(late.split(".")[2])]
    assert list(messages_by_queue(mq, "t").values()) == [expected]


def test_I6_argument_order_within_one_call(mq: Session) -> None:
    ids = mq.sent_batch("t", ["1"] * 2100, keys=["k"] * 2100)
    assert list(messages_by_queue(mq, "t").values()) == [ids]


def test_I6_message_id_order_within_one_commit_batch(mq: Session) -> None:
    rows = mq.call("prepare_batch", "t", ["1"] * 30, "pg", keys=["k"] * 30)
    handles = [r[0] for r in rows]
    mq.call("commit_batch", handles[15:] + handles[:15])
    mq.append()
    assert list(messages_by_queue(mq, "t").values()) == [[int(h.split(".")[2]) for h in handles]]


def test_I6_a_run_of_halves_is_in_order_with_sends(mq: Session, broker: Broker, other: Session) -> None:
    """One run is decided at once, and the other one by one, because it meets a decision."""
    runs = [[row[0] for row in mq.call("prepare_batch", "t", ["1"] * 4, "pg", keys=["k"] * 4)] for _ in range(2)]
    a = mq.send("t", "1", key="k")
    mq.call("commit_batch", runs[1])
    b = mq.send("t", "1", key="k")
    with other.transaction():
        other.rollback(runs[0][0])
        racing = broker.blocked(mq, mq.call, "commit_batch", runs[0])
    racing.result(45)
    c = mq.sent("t", "1", key="k")
    first, second = ([int(handle.split(".")[2]) for handle in run] for run in runs)
    assert list(messages_by_queue(mq, "t").values()) == [[a, *second, b, *first[1:], c]]


def test_I6_a_long_transaction_that_took_its_xid_early(mq: Session, broker: Broker) -> None:
    """Its message may lie before or after those that overlapped it, but before those that began after its commit."""
    with broker.transaction() as slow:
        held = slow.send("one", "1", key="k")
        overlapping = mq.sent("one", "1", key="k")
    after = mq.sent("one", "1", key="k")
    order = messages_by_queue(mq, "one")[0]
    assert sorted(order) == sorted([held, overlapping, after])
    assert order[-1] == after
