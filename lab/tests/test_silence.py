"""What a run of lab.silence says of what it saw. The run itself needs a Docker engine, root and an hour."""

import pytest

from lab.silence.run import LIMITS, Result


def result(seconds: float = 1.0, **counts: int) -> Result:
    seen = {("kill", "leader"): [0.5, seconds]}
    return Result(1, seen, 0, {"leader": {"sent": 9, "lost": 0, "doubled": 0} | counts}, 60.0)


def test_limits_and_counts_that_hold() -> None:
    assert result(LIMITS["leader"]).holds
    (row,) = result(3.0).as_json()["rows"]
    assert row == {"fault": "kill", "target": "leader", "times": 2, "p50": 0.5, "p99": 3.0, "max": 3.0, "limit": 10.0}


@pytest.mark.parametrize("made", [result(LIMITS["leader"] + 0.1), result(lost=1), result(doubled=1)])
def test_one_that_does_not_hold(made: Result) -> None:
    assert not made.holds
