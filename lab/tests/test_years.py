"""The bounds of a year: what grows is found, and what is flat is not."""

from __future__ import annotations

import pytest

from lab.years.samples import BOUNDS, growing

MINUTES = 60


def year(**steps: float) -> list[dict[str, float]]:
    """Samples of each minute in which all is flat but the named figures, which grow by their step a minute."""
    return [
        {"seconds": 60.0 * i, "effects/s": 100.0} | {name: 10 + steps.get(name, 0.0) * i for name in BOUNDS}
        for i in range(MINUTES)
    ]


@pytest.mark.parametrize("name", BOUNDS)
def test_what_grows_by_its_allowance_each_quarter_is_found(name: str) -> None:
    assert growing(year()) == []
    step = (10 + BOUNDS[name]) / 15
    assert [line.partition(":")[0] for line in growing(year(**{name: step}))] == [name]


def test_what_was_not_measured_is_found_and_so_are_fewer_effects() -> None:
    samples = year()
    for sample in samples:
        del sample["keep ms"]
    for sample in samples[MINUTES // 2 :]:
        sample["effects/s"] = 70
    assert growing(samples) == ["keep ms: not measured", "effects/s: 100 in the second quarter, 70 in the last"]
