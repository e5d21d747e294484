"""The filters of the dashboard's pages."""

from __future__ import annotations

from mqpg.web.rendering import environment


def test_a_time_in_a_sentence_is_short_and_that_of_a_command_is_exact() -> None:
    said = "skipped since 2026-11-24 13:55:57.698617+00, mqpg subscription seek g t '2026-11-24 13:55:57.698617+00'"
    shown = environment().filters["sentence"](said)
    assert shown.startswith("skipped since 2026-11-24 13:55:57 UTC, ")
    assert shown.endswith("seek g t '2026-11-24 13:55:57.698617+00'")
