"""The public surface."""

from __future__ import annotations

import types

import mqpg


def test_all_lists_exactly_the_public_names() -> None:
    public = [
        name
        for name, value in vars(mqpg).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    ]
    assert mqpg.__all__ == sorted(public)
    assert len(mqpg.__all__) <= 27
