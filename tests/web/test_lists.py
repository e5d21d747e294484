"""Lists mark what needs attention, and pages say values in words."""

import html
import json
import re

import pytest
from starlette.testclient import TestClient

from mqpg.metrics.reading import read_metrics
from mqpg.status import Source
from mqpg.web.rates import Rates
from tests.support.broker import Session
from tests.support.retention import aged
from tests.support.waiting import eventually
from tests.web.story import Story


def row(client: TestClient, path: str, name: str) -> str:
    """The row of a table whose link has this text."""
    text = html.unescape(client.get(path).text)
    (found,) = [one for one in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL) if f">{name}</a>" in one]
    return found


def test_groups_that_need_attention_are_marked(reader: TestClient) -> None:
    assert re.search(r'href="/groups/news/returns" title="[^"]*is paused with 4[^"]*">paused</a>', row(reader, "/groups", "news"))  # fmt: skip
    assert row(reader, "/groups", "news").count("paused</") == 1
    assert re.search(
        r'href="/dead-letters/billing/orders" title=".*">dead letters</a>', row(reader, "/groups", "billing")
    )
    assert 'class="tag' not in row(reader, "/groups", "shipping")
    assert re.search(r'data-name="Oldest">\d+ s<', row(reader, "/groups", "shipping"))
    assert 'href="/dead-letters/billing/orders"' in row(reader, "/topics/orders", "billing")


def test_what_needs_attention_leads_to_the_page_that_shows_it(visitor: TestClient, mq: Session) -> None:
    mq.call("create_producer_group", "stock", checker="url", checker_target="nowhere")
    mq.call("create_producer_group", "many", max_undecided=1)
    mq.execute("update mqpg.producer_group set overfull_at = now() where name = 'many'")
    detail = {"failing": {"seconds": 9, "times": 9, "error": "no"}}
    mq.execute("select mqpg._heartbeat('appender-1', 'appender', 'n', 1, 'active', %s::jsonb)", json.dumps(detail))
    mq.execute("update mqpg.topic set max_bytes = 1, full_of = 'topic' where name = 'orders'")
    page = html.unescape(visitor.get("/").text)
    links = dict(re.findall(r"<li><b>(.*?)</b>.*?<a [^>]*href=\"(.*?)\"", page))
    for words, address in {
        "nobody answers for the half messages of producer group stock": "/workers",
        "producer group many has more than 1 undecided": "/half-messages?group=many",
        "the appender on n": "/workers",
        "no keeper is at work": "/workers",
        "topic orders is at its max_bytes": "/topics/orders",
        "group news of topic returns is paused": "/groups/news/returns",
        "group billing of topic orders has": "/dead-letters/billing/orders",
        "producer group app has 1 parked": "/half-messages?state=parked&group=app",
    }.items():
        assert [where for what, where in links.items() if words in what] == [address], links


def test_topics_whose_groups_need_attention_are_marked(reader: TestClient) -> None:
    assert re.search(r'href="/groups/news/returns"[^>]*>news: paused</a>', row(reader, "/topics", "returns"))
    assert "billing: dead letters" in row(reader, "/topics", "orders")
    assert re.search(r'<td class="n">\d+ s</td>', row(reader, "/topics", "returns"))


def test_values_are_words(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.call("subscribe", "receipts", "orders", filter='$.stat_x == "paid"')
    for _ in range(40):
        mq.send("orders", '{"state": "paid", "order": 1}')
    mq.append()
    while mq.receive("orders", group="receipts"):
        pass
    page = html.unescape(visitor.get("/groups/receipts/orders").text)
    assert "fields <i>state, order</i>" in page
    assert 'values <i>$."stat_x" nothing</i>' in page
    detail = {"blocked_by": ["a", "b"], "ledgers": {"far": {"state": "ok", "failures": 3}}, "functions": {}}
    mq.execute("select mqpg._heartbeat('c', 'compensator', 'n', 1, 'active', %s::jsonb)", json.dumps(detail))
    page = html.unescape(visitor.get("/workers").text)
    assert "<dd>a, b</dd>" in page
    assert "<dd>far (state ok, failures 3)</dd>" in page
    assert "<dd>nothing</dd>" in page


def test_the_payload_comes_before_the_time_line(reader: TestClient, story: Story) -> None:
    page = html.unescape(reader.get(f"/messages/{story.order}").text)
    assert '"amount": 12.5' in page.partition("<h2>Time line</h2>")[0]


def test_rates_are_known_after_two_heartbeats(dsn: str, mq: Session) -> None:
    source, rates = Source(dsn, "test"), Rates()

    def report(messages: int, at: float) -> float | None:
        detail = json.dumps({"messages": messages})
        mq.execute("select mqpg._heartbeat('a', 'appender', 'n', 1, 'active', %s::jsonb)", detail)
        return rates.add(at, read_metrics(source.rows)).appended

    assert report(100, 0.0) is None
    assert report(700, 6.0) == pytest.approx(100, rel=0.5)  # heartbeats are dated in whole seconds
    source.close()


def test_storage_says_how_many_bytes(reader: TestClient) -> None:
    page = html.unescape(reader.get("/storage").text)
    assert re.search(r"<b>[\d,.]+ [kMG]B</b> in all tables and indexes", page)
    assert re.search(r'<td>commit_log</td><td class="n">[\d,.]+ kB</td>', page)
    assert "days are left" not in page
    assert re.search(r'<td>log</td><td class="n">\d+</td><td>.*?open</span></td><td class="n">[\d,.]+ kB</td>', page)


def test_storage_says_how_many_days_are_left(visitor: TestClient, mq: Session) -> None:
    aged(mq)
    mq.execute("update mqpg.segment set opened_at = closed_at - interval '1 day' where closed_at is not null")

    def left() -> float | None:
        found = re.search(r"([\d.,]+) days are left", visitor.get("/storage").text)
        return float(found[1].replace(",", "")) if found else None

    def limit(max_bytes: int) -> None:
        mq.execute("update mqpg.settings set value = %s where name = 'max_bytes'", str(max_bytes))

    assert left() is None
    limit(1)
    eventually(lambda: left() == 0)  # visitors share a reading for some seconds
    limit(10**12)
    some = eventually(left)
    limit(2 * 10**12)
    eventually(lambda: left() == pytest.approx(2 * some, rel=0.01))


def test_members_that_are_gone_are_folded(visitor: TestClient, mq: Session, story: Story) -> None:
    for name, state in (("here", "active"), ("left", "stopped")):
        detail = {"consumer_group": "shipping", "topic": "orders", "consumer": name, "handler": "shop:ship"}
        mq.execute("select mqpg._heartbeat(%s, 'consumer', 'n', 1, %s, %s::jsonb)", name, state, json.dumps(detail))
    for path in ("/groups/shipping/orders", "/workers"):
        page = html.unescape(visitor.get(path).text)
        shown, _, folded = page.partition("gone or stopped</summary>")
        assert ">left<" in folded, path
        assert ">left<" not in shown, path
        assert ">here<" in shown, path


def test_queues_are_in_order_and_messages_are_near(reader: TestClient, story: Story) -> None:
    page = html.unescape(reader.get("/groups/shipping/orders").text)
    queues = re.findall(r'data-name="Queue">(\d+|retries)</td><td class="n" data-name="Unread"', page)
    assert queues == [*sorted((one for one in queues if one != "retries"), key=int), "retries"]
    assert 'href="/search?topic=orders"' in reader.get("/topics/orders").text
