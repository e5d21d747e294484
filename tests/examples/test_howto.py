"""The recipes of docs/howto run as they stand, each in a process of its own against a fresh database."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.examples.pages import snippets

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
RUN = """
import sys
from pathlib import Path
import psycopg
from tests.examples.pages import run_page
with psycopg.connect(sys.argv[2], autocommit=True) as conn:
    run_page(Path(sys.argv[1]), conn)
"""
PAGES = sorted(path.name for path in HOWTO.glob("*.md") if any(snippets(path)))


@pytest.mark.parametrize("name", PAGES)
def test_recipe(name: str, db: psycopg.Connection, dsn: str, tmp_path: Path) -> None:
    """In a process of its own: Django is set up once in a process."""
    environment = os.environ | {"MQPG_DATABASE_URL": dsn, "PYTHONPATH": str(HOWTO.parents[1])}
    command = [sys.executable, "-c", RUN, str(HOWTO / name), dsn]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150)
    assert found.returncode == 0, found.stderr
