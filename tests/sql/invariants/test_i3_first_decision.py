"""I3: the first decision remains, and repetitions say so."""

import random
from collections import Counter
from threading import Barrier

import pytest

from tests.support.broker import Broker, Session, tolerating

STANDING = {"committed": "already_committed", "rolled_back": "already_rolled_back"}


def test_I3_repeats_in_every_form_say_what_stands(mq: Session) -> None:
    for first, said in (("commit", "already_committed"), ("rollback", "already_rolled_back")):
        handle = mq.prepare("one", "1")
        mq.value(first, handle)
        for _ in range(2):
            assert mq.commit(handle) == said
            assert mq.commit(handle, "2") == said
            assert mq.rollback(handle) == said
            assert mq.call("commit_batch", [handle])[0].outcome == said
            assert mq.call("commit_batch", [handle], ["3"])[0].outcome == said
            assert mq.call("rollback_batch", [handle])[0].outcome == said
            assert mq.value("settle", handle, "commit", "r") == said
            assert mq.value("settle", handle, "rollback", "r") == said
    assert mq.append() == 1


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_I3_a_caller_with_an_old_snapshot_is_not_told_a_lie(mq: Session, other: Session, level: str) -> None:
    """The caller cannot see the decision that it lost to.

    It gets an error that says to retry, never a wrong outcome.
    """
    handle = mq.prepare("one", "1")
    with tolerating("40001"), other.transaction():
        other.execute(f"set transaction isolation level {level}")
        other.execute("select 1 from mqpg.topic")
        mq.rollback(handle)
        assert other.commit(handle) == "already_rolled_back"
    assert mq.append() == 0
    assert mq.commit(handle) == "already_rolled_back"


def _decide(mq: Session, rng: random.Random, rounds: list[list[str]], barrier: Barrier) -> list[dict[str, str]]:
    answers = []
    for handles in rounds:
        barrier.wait(30)
        mine = list(handles)
        rng.shuffle(mine)
        said: dict[str, str] = {}
        if rng.random() < 0.5:
            function = rng.choice(["commit_batch", "rollback_batch"])
            said = {r.handle: r.outcome for r in mq.call(function, mine)}
        else:
            said = {h: mq.value(rng.choice(["commit", "rollback"]), h) for h in mine}
        answers.append(said)
    return answers


def test_I3_one_winner_whom_all_agree_with(mq: Session, broker: Broker, rng: random.Random) -> None:
    deciders, n_rounds = 6, 12
    rounds = [[mq.prepare("t", "1") for _ in range(6)] for _ in range(n_rounds)]
    barrier = Barrier(deciders)
    running = [
        broker.background(_decide, broker.session(), random.Random(rng.random()), rounds, barrier)
        for _ in range(deciders)
    ]
    answers = [f.result(60) for f in running]
    committed = 0
    for i, handles in enumerate(rounds):
        for handle in handles:
            said = Counter(answer[i][handle] for answer in answers)
            (winner,) = [o for o in said if o in STANDING]
            assert said == {winner: 1, STANDING[winner]: deciders - 1}
            committed += winner == "committed"
    assert mq.append() == committed
    assert mq.scalar("select count(*) from mqpg.op_log") == 6 * n_rounds
