"""The bounds of a year: what grows is found, and what is flat is not."""

from __future__ import annotations

import pytest

from lab.years.samples import BOUNDS, growing, quarters

MINUTES = 60


def year(**steps: float) -> list[dict[str, float]]:
    """Samples of each minute in which all is flat but the named figures.

    These grow by their step a minute.
    """
    return [
        {"seconds": 60.0 * i, "effects/s": 100.0} | {name: 10 + steps.get(name, 0.0) * i for name in BOUNDS}
        for i in range(MINUTES)
    ]


def test_a_flat_year_has_nothing_that_grows() -> None:
    assert growing(year()) == []


@pytest.mark.parametrize("name", BOUNDS)
def test_what_grows_by_its_allowance_each_quarter_is_found(name: str) -> None:
    step = (10 + BOUNDS[name]) / 15
    assert [line.partition(":")[0] for line in growing(year(**{name: step}))] == [name]


def test_growth_in_the_first_quarter_is_no_growth() -> None:
    samples = year()
    for sample in samples[: MINUTES // 4]:
        sample["partitions"] = 1
    assert growing(samples) == []


def test_what_was_not_measured_is_found() -> None:
    samples = year()
    for sample in samples:
        del sample["keep ms"]
    assert growing(samples) == ["keep ms: not measured"]


def test_fewer_effects_are_found() -> None:
    samples = year()
    for sample in samples[MINUTES // 2 :]:
        sample["effects/s"] = 70
    assert growing(samples) == ["effects/s: 100 in the second quarter, 70 in the last"]


def test_quarters_are_medians() -> None:
    assert quarters(year(partitions=1), "partitions") == [17, 32, 47, 62]
