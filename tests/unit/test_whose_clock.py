"""Where the clocks of server, workers and this machine differ, the sentence says which one is wrong."""

from datetime import UTC, datetime, timedelta

import pytest

from mqpg.status.clocks import is_synchronised, judge_clocks
from mqpg.status.finding import Finding

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def judged(ahead: float, workers: dict[str, float], synchronised: bool = False) -> list[Finding]:
    """The server is ahead of this machine, `here`, by so many seconds."""
    return judge_clocks(NOON + timedelta(seconds=ahead), NOON, "here", 0.1, workers, synchronised)


@pytest.mark.parametrize("ahead", [4.0, -4.0, 0.0])
def test_clocks_that_agree(ahead: float) -> None:
    side = "ahead of" if ahead > 0 else "behind"
    (found,) = judged(ahead, {"a": 1.0})
    assert found.ok
    assert found.found == f"the clock of the server is {abs(ahead):.1f} s {side} that of here"


@pytest.mark.parametrize(
    ("workers", "synchronised", "words"),
    [
        ({"a": -3600.0}, False, "the clock of the server is wrong (a agrees with here): synchronise that one"),
        ({"a": 0.0, "b": 1.0}, False, "the clock of here is wrong (a, b agree with the server): synchronise"),
        ({"a": 0.0}, True, "the clock of here is wrong (a agrees with the server)"),  # machines that agree say more
        ({}, True, "the clock of the server is wrong (a time service keeps that of here)"),
        ({"here": -3600.0}, False, "a look at any other clock tells which"),  # its own worker is no witness
        ({"a": 0.0, "b": -3600.0}, False, "a look at any other clock tells which"),
        (dict.fromkeys("abcde", 0.0), False, "(a, b, c and 2 more agree with the server)"),
    ],
)
def test_whose_clock_is_wrong(workers: dict[str, float], synchronised: bool, words: str) -> None:
    found = judged(3600, workers, synchronised)[0]
    assert not found.ok
    assert found.found.endswith("(13:00:00 and 12:00:00 UTC)")  # for a look at a watch
    assert words in str(found.remedy)


def test_workers_whose_clocks_differ() -> None:
    here, *others = judged(1, {"here": 99.0, "a": 0.1, "b": -60.0, "c": 7.0})
    assert here.ok
    assert [(one.ok, one.found) for one in others] == [
        (False, "the clock of the worker's machine b is 60.0 s behind that of the server"),
        (False, "the clock of the worker's machine c is 7.0 s ahead of that of the server"),
    ]


def test_the_servers_fault_is_not_said_of_each_worker() -> None:
    """Machines that agree with this one differ from the server too, but their clocks are right."""
    of_server, of_worker = judged(3600, {"a": -3600.0, "b": -3601.0, "c": -1800.0})
    assert "the clock of the server is wrong (a, b agree with here)" in str(of_server.remedy)
    assert of_worker.found == "the clock of the worker's machine c is 1800.0 s behind that of the server"


def test_the_kernel_is_asked() -> None:
    assert is_synchronised() in (True, False)
