"""The page about Spark: its blocks, in one session."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

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
        names = patient(lambda: run_page(PAGE, db))  # each block may be run again
        with mqpg.connect(dsn) as client:
            client.send_batch("orders", [{"id": 4}, {"id": 5}], keys=["a", "a"])
            client.append()
        for table in ("delta", "iceberg"):
            write = names[f"to_{table}"]

            def die(batch: DataFrame, number: int, write: Callable[[DataFrame, int], None] = write) -> None:
                write(batch, number)
                raise OSError("killed when the batch was in the table")

            with pytest.raises(StreamingQueryException, match="killed when"):
                names["copy"](die, table)
            names["copy"](write, table)
        delta, iceberg = names["DeltaTable"](names["table"]), names["catalog"].load_table("lake.orders")
        snapshot = iceberg.current_snapshot()
        assert json.loads(delta.history(1)[0]["offsets"]) == json.loads(snapshot.summary["offsets"])
        for rows in (delta.to_pyarrow_table(), iceberg.scan().to_arrow()):
            assert sorted(json.loads(payload)["id"] for payload in rows["payload"].to_pylist()) == [1, 2, 3, 4, 5]
