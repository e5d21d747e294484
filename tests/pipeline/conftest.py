"""One JVM for all tests of the data source, and a broker for each."""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import mqpg
from mqpg.spark import register
from mqpg.spark.read.session import open_session
from mqpg.spark.read.tuning import Tuning


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all tests of the data source share."""
    with open_session(2, memory="1g", tuning=Tuning(messages=10_000_000)) as session:
        register(session)
        yield session


@pytest.fixture
def mq(dsn: str) -> Iterator[mqpg.Client]:
    """A client of a broker with topic `orders` (4 queues) and producer group `spark`."""
    with mqpg.connect(dsn) as client:
        client.create_topic("orders", queues=4)
        client.create_producer_group("spark")
        yield client


@pytest.fixture
def load(spark: SparkSession, dsn: str) -> Callable[..., DataFrame]:
    """Read topic `orders` as a batch, with further options."""

    def read(**options: object) -> DataFrame:
        return spark.read.format("mqpg").options(dsn=dsn, **({"topic": "orders"} | options)).load()  # type: ignore[arg-type]

    return read


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow more time, because a JVM is slow on a busy machine."""
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
