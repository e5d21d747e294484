"""The recipes of docs/howto run as they stand, each in a process of its own against a fresh database."""

import os
from pathlib import Path

import psycopg
import pytest

from tests.examples.pages import snippets
from tests.support.forking import run_forked

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGES = sorted(path.name for path in HOWTO.glob("*.md") if any(snippets(path)))


@pytest.mark.parametrize("name", PAGES)
def test_recipe(name: str, db: psycopg.Connection, dsn: str, tmp_path: Path) -> None:
    """In a process of its own: Django is set up once in a process."""
    environment = os.environ | {"MQPG_DATABASE_URL": dsn}
    page = [str(HOWTO / name), dsn]
    found = run_forked(page, function="tests.examples.pages:main", cwd=tmp_path, env=environment, timeout=150)
    assert found.returncode == 0, found.stderr
    assert "will be refused" not in found.stderr  # a producer that is made before its group warns
