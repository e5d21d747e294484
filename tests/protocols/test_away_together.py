"""A broker to which no connection was made yet, and that is away: callers do not wait for it one after the other."""

import threading
from typing import Any

import pytest

from mqpg import errors, protocols
from tests.support.waiting import eventually


class Counted:
    """A lock that says how many have come to it."""

    def __init__(self) -> None:
        self._lock, self.came = threading.Lock(), 0

    def __enter__(self) -> None:
        self.came += 1
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def test_one_attempt_is_that_of_all_who_waited_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, go_on, failed = [], threading.Event(), []

    def connect(dsn: str, **settings: Any) -> None:
        attempts.append(dsn)
        assert go_on.wait(45)
        raise errors.ConnectionFailed("away")

    monkeypatch.setattr("mqpg._sync.producer.brokers.connect", connect)
    brokers = protocols.Brokers(["host=one", "host=two"], pause=3600, longest_pause=7200)
    first, second = brokers._candidates("b")
    monkeypatch.setattr(first, "_lock", lock := Counted())

    def pick() -> None:
        try:
            brokers.pick("b")
        except errors.ConnectionFailed as error:
            failed.append(error)

    threads = [threading.Thread(target=pick) for _ in range(6)]
    for thread in threads:
        thread.start()
    eventually(lambda: lock.came == 6)
    go_on.set()
    for thread in threads:
        thread.join(45)
    assert len(failed) == 6
    assert attempts.count(first.dsn) == 1
    assert first.away
    assert first._away_until - second._away_until < 3600  # the pause was not doubled
    with pytest.raises(errors.ConnectionFailed):
        brokers.pick("b")
    assert attempts.count(first.dsn) == 2  # the last resort is tried again
