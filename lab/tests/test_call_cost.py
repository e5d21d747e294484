"""The cost of calls is measured for every step that docs/testing/performance.md shows."""

from __future__ import annotations

import pytest

from lab.bench import call_cost


def test_each_step_has_a_figure_of_each_side(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {title: (kind, 4, sent and 4, 3) for title, (kind, _, sent, _) in call_cost.STEPS.items()}
    monkeypatch.setattr(call_cost, "STEPS", steps)
    figures = call_cost.measure_all(dsn)
    for title in steps:
        assert set(figures[title]) == {"mqpg", "pgmq", "bare"}
        assert all(calls["sum"] > 0 for calls in figures[title].values())
