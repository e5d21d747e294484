"""The snippets of the pages about protocols run, against a fresh database each, and do what they say."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.examples.pages import run_page, snippets

PROTOCOLS = Path(__file__).parents[2] / "docs" / "protocols"
PAGES = sorted(path.name for path in PROTOCOLS.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a page closes what matters to its reader
def test_snippets(name: str, db: psycopg.Connection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)
    monkeypatch.chdir(tmp_path)
    assert list(snippets(PROTOCOLS / name)), "a page without a snippet"
    run_page(PROTOCOLS / name, db)
