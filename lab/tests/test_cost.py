"""The counted calls and their budgets."""

from __future__ import annotations

import pytest

from lab.cost.__main__ import reached
from lab.cost.cases import CASES


@pytest.mark.parametrize("version", ["15", "18"])
def test_each_call_has_a_budget(version: str) -> None:
    budgets = {row["name"]: float(row["mqpg"] or 0) for row in reached() if row["postgresql"] == version}
    calls = {case.name for case in CASES if case.side == "mqpg"}
    assert calls == {name for name, count in budgets.items() if count > 0}
