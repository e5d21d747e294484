"""The page about Spark: its blocks, in one session."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg.spark.read.session import open_session
from tests.examples.pages import run_page
from tests.support.patience import patient

PAGE = Path(__file__).parents[2] / "docs" / "prove" / "spark.md"


@pytest.mark.spark
@pytest.mark.audits
@pytest.mark.timeout(600)
def test_page(dsn: str, db: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)
    monkeypatch.chdir(tmp_path)
    with mqpg.connect(dsn) as client:
        client.create_topic("orders")
        client.create_topic("clean_orders")
        client.send_batch("orders", [{"id": 1}, {"id": 2}, {"id": 3}])
        client.append()
    with open_session(2, memory="1g"):
        patient(lambda: run_page(PAGE, db))  # each block may be run again
