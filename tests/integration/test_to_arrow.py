"""The messages of a topic as a table of Arrow."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

import mqpg
from mqpg.errors import ConfigurationError, InvalidArgument, UnknownTopic
from tests.support.consuming import sent, sent_batch

pytestmark = pytest.mark.shared_database


@pytest.fixture
def mq(dsn: str) -> Any:
    with mqpg.connect(dsn) as client:
        client.create_topic("orders", queues=2)
        yield client


def test_a_table_has_each_message_as_fetch_returns_it(mq: mqpg.Client) -> None:
    for number, text in enumerate(['"', "a,b\n\\N", "", "é€😀"]):
        mq.send("orders", {"n": number, "text": text}, key=text or None, tag="t", headers={"h": text})
    sent_batch(mq, "orders", list(range(10_050)), keys=["long"] * 10_050)
    table = mq.to_arrow("orders")
    names = ("offset", "message_id", "key", "tag", "born_at")
    fetched = [(q, one) for q in (0, 1) for first in range(0, 20_000, 10_000) for one in _fetched(mq, q, first)]
    for row, (queue, one) in zip(table.to_pylist(), fetched, strict=True):
        expected = (one.queue_offset, one.message_id, one.key, one.tag, one.born_at)
        assert tuple(row[name] for name in names) == expected
        assert (row["topic"], row["queue"]) == ("orders", queue)
        assert _parsed(row["payload"]) == one.payload
        assert _parsed(row["headers"]) == one.headers
        assert row["appended_at"] >= row["born_at"]


def _fetched(mq: mqpg.Client, queue: int, first: int) -> list[mqpg.Message]:
    try:
        return mq.fetch("orders", queue, first, 10_000)
    except mqpg.errors.OffsetOutOfRange:
        return []


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def test_only_what_became_visible_since_a_time(mq: mqpg.Client) -> None:
    sent(mq, "orders", 1)
    since = datetime.now(UTC)
    assert mq.to_arrow("orders", since=since).num_rows == 0
    sent(mq, "orders", 2)
    assert mq.to_arrow("orders", since=since)["payload"].to_pylist() == ["2"]
    assert mq.to_arrow("orders").num_rows == 2


def test_an_empty_topic_has_the_columns(mq: mqpg.Client) -> None:
    empty = mq.to_arrow("orders")
    sent(mq, "orders", 1)
    assert (empty.num_rows, empty.schema) == (0, mq.to_arrow("orders").schema)


def test_an_error_names_its_cause(mq: mqpg.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for since in (datetime(2026, 1, 1), "2026-01-01"):
        with pytest.raises(InvalidArgument, match="since must be a datetime with a time zone"):
            mq.to_arrow("orders", since=since)  # type: ignore[arg-type]
    with pytest.raises(UnknownTopic):
        mq.to_arrow("nowhere")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match="pip install pyarrow"):
        mq.to_arrow("orders")
