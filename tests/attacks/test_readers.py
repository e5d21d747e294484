"""A source of Spark reads with the right to receive, and its group's position moves with it; no other right is needed."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from mqpg.errors import NotGranted
from mqpg.spark.pipeline.broker import Broker, Range
from mqpg.spark.pipeline.options import ReadOptions
from mqpg.spark.pipeline.reader import Part, StreamReader
from tests.support.company import Company

SCHEMA = StructType([StructField("offset", LongType())])


def reader(dsn: str, topic: str, group: str | None = None) -> StreamReader:
    options = {"dsn": dsn, "topic": topic, "columns": "offset"} | ({"group": group} if group else {})
    return StreamReader(ReadOptions.of(options, stream=True), SCHEMA)


def test_a_reader_needs_the_right_to_receive_and_no_other(company: Company) -> None:
    company.boss.execute("select mqpg.subscribe('lake', 'mine')")
    role = company.role()
    dsn = company.session(role).info.dsn + " password=x"
    mine = reader(dsn, "mine", "lake")
    with pytest.raises(NotGranted):
        mine.initialOffset()
    company.boss.execute("select mqpg.grant_receive('lake', 'mine', %s)", (role,))
    company.boss.execute("""select mqpg.send('mine', '{"a": 1}'::text), mqpg.send('theirs', '2'::text)""")
    company.boss.execute("select mqpg.append()")
    start = mine.initialOffset()
    end = mine.latestOffset(start, ReadAllAvailable())
    assert sum(batch.num_rows for part in mine.partitions(start, end) for batch in mine.read(part)) == 1
    mine.commit(end)
    with pytest.raises(NotGranted, match="grant_receive"):
        reader(dsn, "theirs").initialOffset()
    with pytest.raises(NotGranted, match="grant_receive"):
        list(mine.read(Part([Range("theirs", end["mine"]["identity"], 0, 0, 1)])))
    with pytest.raises(NotGranted, match="grant_receive"), Broker(dsn) as broker:
        broker.advance("other", "mine", end["mine"]["identity"], {0: 1})
    with pytest.raises(NotGranted, match="grant_"):
        reader(dsn, "mine", "new").initialOffset()
