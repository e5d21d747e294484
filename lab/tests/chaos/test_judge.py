"""The comparison of ids: a sound history has no fault, and each planted fault is found, alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from lab.chaos.cluster import Cluster
from lab.chaos.journal import Journal
from lab.chaos.judge import Findings, compare
from lab.chaos.names import BUSINESS, EFFECT

NewDatabase = Callable[..., str]
BUSINESS_ROW = "insert into business values (%s, %s, 'events-1', 'k')"
EFFECT_ROW = (
    "insert into effect (consumer_group, broker, topic, queue_id, queue_offset, message_key, message_id, id, attempt)"
    " values (%s, 1, 'events-1', 0, %s, 'k', %s, %s, 1)"
)


class History:
    """Three messages of T1 and one of dedup at one broker, with all effects, that a test then spoils."""

    def __init__(self, folder: Path, new_database: NewDatabase) -> None:
        self.broker, self.store, self.sink, judge = (new_database(empty=True) for _ in range(4))
        self.cluster = Cluster(folder, {}, [self.broker], {"shop-1": self.store}, {"1": self.sink}, judge)
        for dsn, scripts in ((self.broker, (BUSINESS, EFFECT)), (self.store, (BUSINESS,)), (self.sink, (EFFECT,))):
            for script in scripts:
                self.do(dsn, script)
        self.journal = Journal(folder, 1)
        self.ids = self.journal.tried("t1", "events-1", 3)
        self.journal.done("t1", "events-1", self.ids)
        self.sent = self.journal.tried("dedup", "events-1", 1)
        self.journal.done("dedup", "events-1", self.sent)
        for one in self.ids:
            self.do(self.broker, BUSINESS_ROW, one, "t1")
        for offset, one in enumerate([*self.ids, *self.sent]):
            for group, dsn in (("c1", self.broker), ("fresh", self.broker), ("c2", self.sink), ("c3", self.sink)):
                self.do(dsn, EFFECT_ROW, group, offset, offset, one)

    def do(self, dsn: str, statement: str, *values: object) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(statement.encode(), values or None)

    def judge(self) -> Findings:
        return compare(self.cluster)


@pytest.fixture
def history(tmp_path: Path, new_database: NewDatabase) -> Iterator[History]:
    made = History(tmp_path, new_database)
    yield made
    made.journal.close()


def test_a_sound_history_has_no_fault(history: History) -> None:
    found = history.judge()
    assert found.faults == {}
    assert (found.messages, found.by_protocol, found.repeated) == (4, {"dedup": 1, "t1": 3}, 0)


def test_what_was_never_acknowledged_may_have_happened_or_not(history: History) -> None:
    first, second = history.journal.tried("dedup", "events-1", 2)
    for group, dsn in (("c1", history.broker), ("fresh", history.broker), ("c2", history.sink), ("c3", history.sink)):
        history.do(dsn, EFFECT_ROW, group, 4, 4, first)
    assert second
    assert history.judge().faults == {}


def test_c3_may_have_an_effect_again(history: History) -> None:
    history.do(history.sink, EFFECT_ROW, "c3", 0, 0, history.ids[0])
    found = history.judge()
    assert (found.faults, found.repeated) == ({}, 1)


def _lose_business(made: History) -> None:
    # An effect without business is another fault, so the message goes, too.
    made.do(made.broker, "delete from business where id = %s", made.ids[0])
    made.do(made.broker, "delete from effect where id = %s", made.ids[0])
    made.do(made.sink, "delete from effect where id = %s", made.ids[0])


def _keep_what_was_rolled_back(made: History) -> None:
    (one,) = made.journal.tried("t2", "events-1", 1)
    made.journal.undone("t2", "events-1", [one])
    made.do(made.store, BUSINESS_ROW, one, "t2")


def _swap(made: History) -> None:
    made.do(made.sink, "update effect set nth = default where consumer_group = 'c2' and queue_offset = 0")


FAULTS: dict[str, Callable[[History], None]] = {
    "business that was acknowledged is gone": _lose_business,
    "effect missing": lambda made: made.do(
        made.sink, "delete from effect where consumer_group = 'c3' and queue_offset = 3"
    ),
    "effect of nothing": lambda made: made.do(made.broker, EFFECT_ROW, "c1", 9, 9, 77),
    "effect twice": lambda made: made.do(made.broker, EFFECT_ROW, "fresh", 3, 3, made.sent[0]),
    "effects of a key out of order": _swap,
    "business twice": lambda made: made.do(made.broker, BUSINESS_ROW, made.ids[1], "t1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_alone(history: History, fault: str) -> None:
    FAULTS[fault](history)
    assert set(history.judge().faults) == {fault}


def test_business_that_was_rolled_back_is_found(history: History) -> None:
    _keep_what_was_rolled_back(history)
    assert set(history.judge().faults) == {"business that was rolled back is there", "effect missing"}


def test_an_effect_of_what_was_rolled_back_is_found(history: History) -> None:
    (one,) = history.journal.tried("t2", "events-1", 1)
    history.journal.undone("t2", "events-1", [one])
    history.do(history.broker, EFFECT_ROW, "c1", 9, 9, one)
    assert set(history.judge().faults) == {"effect of nothing", "effect of what was rolled back"}


def test_sends_of_a_key_out_of_order_are_found(history: History) -> None:
    history.do(history.sink, "update effect set id = %s - id where queue_offset in (0, 2) and consumer_group = 'c2'",
               history.ids[0] + history.ids[2])  # fmt: skip
    assert set(history.judge().faults) == {"sends of a key out of order"}
