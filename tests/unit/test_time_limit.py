"""The limit of a call counts the time in which the server says nothing."""

import time
from collections.abc import Generator

import pytest

from mqpg.connection.time_limit import NoAnswer, _bounded

LIMIT = 0.1


def _step(ready: list[int]) -> Generator[int, int, str]:
    """A step of psycopg that waits until the socket was ready six times."""
    while len([one for one in ready if one]) < 6:
        ready.append((yield 1))
    return "done"


def test_a_transfer_that_makes_progress_is_not_ended() -> None:
    bounded = _bounded(_step([]), LIMIT, lambda: None)
    next(bounded)
    for _ in range(5):
        time.sleep(LIMIT)
        bounded.send(1)
    time.sleep(LIMIT)
    with pytest.raises(StopIteration) as end:
        bounded.send(1)
    assert end.value.value == "done"


def test_silence_is_ended() -> None:
    bounded = _bounded(_step([]), LIMIT, lambda: None)
    next(bounded)
    bounded.send(1)
    time.sleep(2 * LIMIT)
    with pytest.raises(NoAnswer, match=r"did not answer within 0\.1 s"):
        bounded.send(0)


def test_a_step_that_ends_at_once_has_its_result() -> None:
    with pytest.raises(StopIteration) as end:
        next(_bounded(_step([1] * 6), LIMIT, lambda: None))
    assert end.value.value == "done"
