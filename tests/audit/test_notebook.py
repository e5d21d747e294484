"""A thread of a process that has a Spark session of its own, as a notebook has; test_engines.py audits in one."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from mqpg.spark.read.session import open_session

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"


def test_a_thread_uses_the_same_session(spark: SparkSession) -> None:
    def count() -> tuple[int, str | None]:
        with open_session(memory="2g") as session:
            return session.range(4).count(), session.conf.get(ZONE)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(count).result() == (4, "UTC")
    assert spark.range(3).count() == 3
