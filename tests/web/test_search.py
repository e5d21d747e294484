"""The page Search: by topic, key, payload and time, and never more than a bounded part of the log."""

import html
import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from mqpg.web import scan
from tests.support.broker import Session
from tests.web.story import Story


def search(visitor: TestClient, status: int = 200, **fields: Any) -> str:
    answer = visitor.get("/search", params={"topic": "orders"} | fields)
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def ids(page: str) -> list[int]:
    return [int(one) for one in re.findall(r'href="/messages/(\d+)"', page)]


@pytest.fixture
def paid(mq: Session, story: Story) -> list[int]:
    """Three hundred orders of eight customers."""
    mq.call("create_topic", "sales", queues=4)
    made = [
        mq.send(
            "sales",
            json.dumps({"sale": n, "customer": n % 8, "lines": [{"sku": f"s-{n}"}], "paid": n % 2 == 0}),
            key=f"c-{n % 8}",
            tag="web" if n % 3 else "shop",
            headers='{"region": "eu"}' if n < 10 else None,
        )
        for n in range(300)
    ]
    mq.append()
    return made


def test_by_payload(visitor: TestClient, story: Story, paid: list[int]) -> None:
    page = search(visitor, topic="sales", path="$.sale == 7")
    assert ids(page) == [paid[7]]
    assert "Looked at 300 of 300 messages in 4 queues, sent from 20" in page
    assert ids(search(visitor, path="$.order == 1")) == [story.order]
    assert "Looked at 6 of 6 messages in 2 queues" in search(visitor, path="$.order == 77")


PATHS: list[tuple[str, list[int]]] = [
    ("$.sale < 3", [2, 1, 0]),
    ("strict $.sale < 2 && $.customer == 1", [1]),
    ('$.lines[*].sku == "s-11"', [11]),
    ('$.lines[*] ? (@.sku == "s-12")', [12]),
    ('strict $.lines[*] ? (@.sku == "s-13")', [13]),
    ('exists($.lines[*] ? (@.sku like_regex "^s-1[45]$"))', [15, 14]),
    ('$headers.region == "eu" && $.sale > 7', [9, 8]),
    ('$key == "c-3" && $tag == "shop" && $.sale < 30', [27, 3]),
    ("$.nothing", []),
]


def test_paths(visitor: TestClient, paid: list[int]) -> None:
    for path, numbers in PATHS:
        assert ids(search(visitor, topic="sales", path=path)) == [paid[n] for n in numbers], path


def test_an_invalid_path(visitor: TestClient, story: Story) -> None:
    for path in ("((", "$.a >", "amount > 1", "$.a > $b", '$.a like_regex "("', "$.a) || ($.b"):
        for more in ({}, {"key": "o-1"}):
            page = search(visitor, 400, path=path, **more)
            assert "This is no jsonpath: " in page, path
            assert " found</h2>" not in page
            assert 'value="orders"' in page, "what was typed is still there"


def test_payloads_that_jsonb_refuses_are_passed_by(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.send("returns", '{"return": "\\u0000"}')
    found = mq.sent("returns", '{"return": 99}')
    assert ids(search(visitor, topic="returns", path="$.return == 99")) == [found]


def test_with_a_key(visitor: TestClient, paid: list[int]) -> None:
    page = search(visitor, topic="sales", key="c-3", path="$.sale < 20")
    assert ids(page) == [paid[19], paid[11], paid[3]]
    assert "every stored message with this key" in page
    page = search(visitor, topic="sales", key="c-3", path='$.sale < 20 && $tag == "shop"')
    assert ids(page) == [paid[3]]
    assert "Looked at 300 of 300 messages" in page, "the index has no tags"
    assert ids(search(visitor, topic="sales", key="c-9", path="$.sale < 20")) == []


def test_all_messages_with_a_key_on_several_pages(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.call("create_topic", "log", queues=2)
    made = [mq.send("log", json.dumps({"n": n}), key="k") for n in range(239)]
    page = search(visitor, topic="log", key="k")
    seen = [ids(page)]
    while further := re.search(r'rel="next" href="([^"]+)"', page):
        assert "every stored message with this key" not in page
        page = html.unescape(visitor.get(further[1].replace("&amp;", "&")).text)
        seen.append(ids(page))
    assert "every stored message with this key" in page
    assert [len(one) for one in seen] == [100, 100, 39]
    assert [one for found in seen for one in found] == made[::-1]
    assert len(ids(search(visitor, topic="log", key="k", path="$.n < 100"))) == 100
    assert "every stored message" in search(visitor, topic="log", key="k", path="$.n < 100")


def test_with_a_queue(visitor: TestClient, mq: Session, paid: list[int]) -> None:
    filters: tuple[dict[str, Any], ...] = ({}, {"key": "c-3"})
    for fields in filters:
        found = [ids(search(visitor, topic="sales", path="$.sale == 3", queue=n, **fields)) for n in range(4)]
        assert sorted(found) == [[], [], [], [paid[3]]]


def test_by_time(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.execute("select pg_sleep(0.05)")
    at = mq.scalar("select clock_timestamp()::text")
    later = [mq.send("orders", json.dumps({"order": 100 + n}), key="late") for n in range(3)]
    mq.append()
    page = search(visitor, at=at)
    assert ids(page) == later, "the oldest first"
    assert "Looked at 3 of 3 messages" in page
    assert ids(search(visitor, at=at, path="$.order > 100")) == later[1:]
    assert ids(search(visitor, at=at, key="late", path="$.order > 100")) == later[:0:-1]
    assert ids(search(visitor, until=at, key="late")) == []
    page = search(visitor, until=at)
    assert len(ids(page)) == 6
    assert not set(later) & set(ids(page))
    assert ids(search(visitor, at=at, until=at)) == []
    assert "9 found" in search(visitor, at="2020-01-01")
    assert "0 found" in search(visitor, at="2090-01-01")
    for field in ("at", "until"):
        assert "some day" in search(visitor, 400, **{field: "some day"})


def test_a_topic_alone_shows_its_newest(visitor: TestClient, paid: list[int]) -> None:
    page = search(visitor, topic="sales")
    assert "100 found" in page
    assert "Look at older ones" in page
    assert paid[-1] in ids(page)


def test_it_looks_at_so_many_and_goes_on(visitor: TestClient, paid: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """No message is read twice, and none is left out."""
    monkeypatch.setattr(scan, "MOST_LOOKED_AT", 70)
    monkeypatch.setattr(scan, "MOST_FOUND", 15)
    starts: tuple[dict[str, Any], ...] = ({}, {"at": "2020-01-01"})
    for fields in starts:
        seen: list[int] = []
        page = search(visitor, topic="sales", path="$.paid == true", **fields)
        assert "Looked at 70 of 300 messages" in page or "15 found" in page
        pages = 1
        while further := re.search(r'rel="next" href="([^"]+)"', page):
            seen += ids(page)
            page, pages = html.unescape(visitor.get(further[1].replace("&amp;", "&")).text), pages + 1
        seen += ids(page)
        assert sorted(seen) == paid[::2]
        assert pages >= 150 / 15


def test_a_rare_message_costs_no_more_than_the_limit(visitor: TestClient, mq: Session, story: Story) -> None:
    """Of 40,000 messages it looks at 10,000 and says so."""
    mq.call("create_topic", "log", queues=2)
    mq.execute("select mqpg.send_batch('log', array_fill('{\"n\": 1}'::text, array[1000])) from generate_series(1, 40)")
    mq.append()
    page = search(visitor, topic="log", path="$.n == 2")
    assert "Looked at 10,000 of 40,000 messages in 2 queues" in page
    assert "None of these matches" in page
    assert "Look at older ones" in page


def test_a_message_at_an_offset(visitor: TestClient, mq: Session, story: Story) -> None:
    found = mq.rows("select message_id, queue_id, queue_offset from mqpg.fetch('orders', 0, 0, 1)")[0]
    answer = visitor.get(f"/topics/orders/{found.queue_id}/{found.queue_offset}")
    assert answer.headers["location"] == f"/messages/{found.message_id}"
    for place in ("0/99", "7/0", "0/-1", "x/0"):
        assert visitor.get(f"/topics/orders/{place}").status_code in (400, 404)
