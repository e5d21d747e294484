"""tools/call_cost.py measures every step that docs/testing/performance.md shows."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "call_cost.py"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("call_cost", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    steps = {title: (kind, 4, sent and 4, 3) for title, (kind, _, sent, _) in module.STEPS.items()}
    monkeypatch.setattr(module, "STEPS", steps)
    return module


def test_each_step_has_a_figure_of_each_side(tool: Any, dsn: str) -> None:
    figures = tool._all(dsn)
    for title in tool.STEPS:
        assert set(figures[title]) == {"mqpg", "pgmq", "bare"}
        assert all(calls["sum"] > 0 for calls in figures[title].values())
