"""Lists mark what needs attention, and pages say values in words."""

import html
import json
import re

from starlette.testclient import TestClient

from mqpg.metrics.reading import read_metrics
from mqpg.status import Source
from mqpg.web.rates import Rates
from mqpg.web.rendering import plot
from tests.support.broker import Session
from tests.web.story import Story


def row(client: TestClient, path: str, name: str) -> str:
    """The row of a table whose link has this text."""
    text = html.unescape(client.get(path).text)
    (found,) = [one for one in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL) if f">{name}</a>" in one]
    return found


def test_groups_that_need_attention_are_marked(visitor: TestClient) -> None:
    assert re.search(r'href="/groups/news/returns" title="[^"]*is paused with 4[^"]*">paused</a>', row(visitor, "/groups", "news"))  # fmt: skip
    assert row(visitor, "/groups", "news").count("paused</") == 1
    assert re.search(
        r'href="/dead-letters/billing/orders" title=".*">dead letters</a>', row(visitor, "/groups", "billing")
    )
    assert 'class="tag' not in row(visitor, "/groups", "shipping")
    assert re.search(r'data-name="Oldest">\d+ s<', row(visitor, "/groups", "shipping"))
    assert 'href="/dead-letters/billing/orders"' in row(visitor, "/topics/orders", "billing")


def test_topics_whose_groups_need_attention_are_marked(visitor: TestClient) -> None:
    assert re.search(r'href="/groups/news/returns"[^>]*>news: paused</a>', row(visitor, "/topics", "returns"))
    assert "billing: dead letters" in row(visitor, "/topics", "orders")
    assert re.search(r'<td class="n">\d+ s</td>', row(visitor, "/topics", "returns"))


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


def test_the_payload_comes_before_the_time_line(visitor: TestClient, story: Story) -> None:
    page = html.unescape(visitor.get(f"/messages/{story.order}").text)
    assert '"amount": 12.5' in page.partition("<h2>Time line</h2>")[0]


def test_a_time_when_nobody_looked_is_a_gap(dsn: str, mq: Session) -> None:
    source, rates = Source(dsn, "test"), Rates()
    for at in (0.0, 3.0, 6.0, 600.0, 603.0):
        rates.add(at, read_metrics(source.rows))
    source.close()
    line = plot([(one.at, one.lag) for one in rates.samples()], "Unread", 0)
    (path,) = re.findall(r' d="([^"]+)"', line)
    assert [part.count("L") for part in path.split("M")] == [0, 2, 1]


def test_storage_says_how_many_bytes(visitor: TestClient) -> None:
    page = html.unescape(visitor.get("/storage").text)
    assert re.search(r"<b>[\d,.]+ [kMG]B</b> in all tables and indexes", page)
    assert re.search(r'<td>commit_log</td><td class="n">[\d,.]+ kB</td>', page)
    assert re.search(r'<td>log</td><td class="n">\d+</td><td>.*?open</span></td><td class="n">[\d,.]+ kB</td>', page)


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


def test_queues_are_in_order_and_messages_are_near(visitor: TestClient, story: Story) -> None:
    page = html.unescape(visitor.get("/groups/shipping/orders").text)
    queues = re.findall(r'data-name="Queue">(\d+|retries)</td><td class="n" data-name="Unread"', page)
    assert queues == [*sorted((one for one in queues if one != "retries"), key=int), "retries"]
    assert 'href="/search?topic=orders"' in visitor.get("/topics/orders").text
