"""Each page over HTTP, of a real broker."""

import html
import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import mqpg.web
from mqpg.status import source
from mqpg.values.handle import HANDLE
from tests.support.broker import Session
from tests.support.roles import Roles
from tests.support.waiting import eventually
from tests.web.story import Operator, Story, log_in, visiting

PAGES = ["/", "/live", "/topics", "/topics/orders", "/groups", "/groups/billing/orders", "/groups/shipping/orders",
         "/half-messages", "/search", "/dead-letters", "/dead-letters/billing/orders", "/storage", "/workers", "/audits"]  # fmt: skip
VOID = {"meta", "link", "input", "br", "line", "path"}


class Balanced(HTMLParser):
    """Every element is closed, and nothing inline that the policy forbids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attributes}
        assert "style" not in names, self.getpos()
        assert not [name for name in names if name.startswith("on")], self.getpos()
        self.hrefs += [value or "" for name, value in attributes if name == "href"]
        if tag not in VOID and tag not in ("option", "p", "li", "dt", "dd"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and tag not in ("option", "p", "li", "dt", "dd"):
            assert self.open.pop() == tag, self.getpos()


def words(visitor: TestClient, path: str, status: int = 200) -> str:
    """The page's source, after the checks that every page must pass."""
    answer = visitor.get(path)
    assert answer.status_code == status, answer.text
    parser = Balanced()
    parser.feed(answer.text)
    assert parser.open == []
    assert "<script>" not in answer.text
    return html.unescape(answer.text)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_well_formed_and_has_the_headers(reader: TestClient, path: str) -> None:
    words(reader, path)
    headers = reader.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_every_link_leads_somewhere(reader: TestClient) -> None:
    seen, todo = set[str](), ["/"]
    while todo:
        path = todo.pop()
        if path in seen or path.startswith("#"):
            continue
        seen.add(path)
        answer = reader.get(path)
        assert answer.status_code == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            parser = Balanced()
            parser.feed(answer.text)
            todo += parser.hrefs
    assert {"/topics/orders", "/groups/billing/orders", "/static/style.css"} <= seen
    assert len(seen) > 20


def test_the_overview(visitor: TestClient, mq: Session) -> None:
    page = words(visitor, "/")
    assert "no keeper is at work" in page
    assert "group news of topic returns is paused with 4 messages unread" in page
    assert 'hx-get="/live"' in page
    assert page.count("<figure>") == 5
    mq.sent("returns", "{}")
    eventually(lambda: "with 5 messages unread" in words(visitor, "/live"))


def test_a_message_that_fails_again_and_again_leads_to_its_page(visitor: TestClient, mq: Session) -> None:
    mq.call("subscribe", "returning", "returns", start="latest", max_attempts=9)
    sent = mq.send("returns", "{}")
    unread = "select sum(lag) from mqpg.subscription_lag where consumer_group = 'returning'"
    for delay in ("1 ms", "1 hour"):
        eventually(lambda: mq.append() or mq.scalar(unread))
        (got,) = mq.receive("returns", group="returning")
        mq.nack(got.receipt, [sent], reason="ValueError: amount", delay=delay)
    eventually(lambda: f'href="/messages/{sent}"' in words(visitor, "/live"))
    assert "ValueError: amount" in words(visitor, f"/messages/{sent}")


def test_the_tile_of_half_messages_counts_the_parked_ones(reader: TestClient) -> None:
    tile = words(reader, "/").partition("Undecided half messages")[2].partition("</figure>")[0]
    assert "<b>2</b>" in tile
    assert "1 parked" in tile
    assert 'href="/half-messages?state=parked"' in tile


def test_links_of_the_part_that_is_renewed_are_known_again(reader: TestClient) -> None:
    """By their ids, without which the focus of the keyboard is lost with each renewal."""
    part = reader.get("/live").text
    ids = re.findall(r'<a id="([^"]+)"', part)
    assert len(ids) == part.count("<a ")
    assert len(set(ids)) == len(ids)


def test_topics(reader: TestClient) -> None:
    assert ">returns<" in words(reader, "/topics")
    assert ">returns<" not in words(reader, "/topics?q=ord")
    assert "No topic has this" in words(reader, "/topics?q=%25")
    page = words(reader, "/topics/returns")
    assert "30 days" in page
    assert "/groups/news/returns" in page
    words(reader, "/topics/missing", 404)


def test_groups(reader: TestClient) -> None:
    page = words(reader, "/groups")
    assert page.index("billing") < page.index("news") < page.index("shipping")
    page = words(reader, "/groups/billing/orders")
    assert "billing-1" in page
    assert "shop:bill" in page
    assert "at most 1 attempt, the second after 10 s" in page
    assert "paused" in words(reader, "/groups/news/returns")
    words(reader, "/groups/missing/orders", 404)


def test_half_messages(reader: TestClient, story: Story) -> None:
    page = words(reader, "/half-messages")
    assert story.pending in page
    assert story.parked in page
    assert story.committed not in page
    assert story.pending not in words(reader, "/half-messages?state=parked")
    assert story.parked not in words(reader, "/half-messages?group=shop")
    page = words(reader, f"/half-messages/{story.parked}")
    assert "1× of at most 1, then park" in page
    assert "<td>asked" in page
    assert "due_checks" in page
    assert "<td>parked" in page
    assert "/search?topic=orders&key=o-3" in page
    assert "No checker was asked yet" in words(reader, f"/half-messages/{story.pending}")
    assert "It is decided" in words(reader, f"/half-messages/{story.committed}")
    words(reader, "/half-messages/nonsense", 404)


def test_a_message_with_its_whole_history(reader: TestClient, story: Story) -> None:
    page = words(reader, f"/messages/{story.order}")
    for event in ("born", "appended", "delivered", "dead"):
        assert f"<b>{event}</b>" in page
    assert '"amount": 12.5' in page
    assert '"trace": "abc"' in page
    named = HANDLE.match(story.parked)
    assert named
    assert "<b>prepared</b>" in words(reader, f"/messages/{named[2]}")
    words(reader, "/messages/99999999", 404)
    words(reader, "/messages/99999999999999999999", 404)
    words(reader, "/messages/abc", 404)


def test_search(reader: TestClient, story: Story) -> None:
    assert reader.get(f"/search?id={story.order}").headers["location"] == f"/messages/{story.order}"
    assert f"/messages/{story.order}" in words(reader, "/search?topic=orders&key=o-1")
    assert "prepared" in words(reader, "/search?topic=orders&key=o-2").lower()
    assert "0 found" in words(reader, "/search?topic=orders&key=none")
    words(reader, "/search?id=abc", 400)
    words(reader, "/search?topic=missing&key=a", 404)


def test_dead_letters(reader: TestClient, story: Story) -> None:
    assert "/dead-letters/billing/orders" in words(reader, "/dead-letters")
    page = reader.get("/dead-letters/billing/orders").text
    assert "the card was &lt;b&gt;refused&lt;/b&gt;" in page
    assert f"/messages/{story.order}" in page
    assert "There are none that match" in reader.get("/dead-letters/billing/orders?filter=$.amount > 100").text
    assert reader.get("/dead-letters/billing/orders?filter=((").status_code == 400
    assert reader.get("/dead-letters/billing/orders?after=x").status_code == 400
    words(reader, "/dead-letters/missing/orders", 404)


def test_why_something_waits(reader: TestClient, story: Story) -> None:
    for path in ("/groups/news/returns", f"/half-messages/{story.parked}", f"/messages/{story.order}"):
        page = words(reader, path)
        assert "Why it waits" in page, path
        assert 'class="cause"' in page, path
    page = words(reader, "/groups/news/returns")
    assert "Run mqpg subscription resume news returns" in page
    assert "select mqpg." not in page
    assert "shipping" in words(reader, f"/messages/{story.order}").partition("Time line")[0]
    page = words(reader, "/groups/billing/orders")
    assert "Nothing holds it up" in page
    assert "Why it waits" not in page
    assert 'class="why"' not in page


def test_storage_workers_and_audits(reader: TestClient) -> None:
    page = words(reader, "/storage")
    assert "commit_log" in page
    assert ">open<" in page
    page = words(reader, "/workers")
    assert "the clock of the server is" in page
    assert "4711" in page
    assert "node-1" in page
    assert "No keeper is at work." in page
    assert "Start it: <code>mqpg worker keeper</code>" in page
    assert "No appender is at work." not in page
    page = words(reader, "/audits")
    assert "2 messages were lost" in page
    assert ">invalid<" in page


def test_nothing_to_act_on_without_a_login(reader: TestClient, story: Story) -> None:
    for path in (*PAGES, f"/half-messages/{story.parked}"):
        page = reader.get(path).text
        assert 'name="token"' not in page
    assert reader.post("/actions/pause", data={"topic": "orders", "confirmed": "yes"}).status_code == 403


def test_pages_of_long_lists(visitor: TestClient, mq: Session) -> None:
    for n in range(60):
        mq.subscribed(f"t-{n:03}", group="many")
        mq.prepare("orders", "{}", "shop")
    seen = follow(visitor, "/topics")
    assert [f"t-{n:03}" in seen for n in range(60)] == [True] * 60
    seen = follow(visitor, "/groups?q=many")
    assert [f"/groups/many/t-{n:03}" in seen for n in range(60)] == [True] * 60
    assert follow(visitor, "/half-messages").count('class="handle"') == 62


def follow(visitor: TestClient, path: str) -> str:
    """All pages of a list."""
    text = ""
    while path:
        page = words(visitor, path)
        text += page
        _, _, rest = page.partition('<a rel="next" href="')
        path = rest.partition('"')[0]
    return text


def test_ten_thousand_topics_and_a_hundred_thousand_dead_letters(visitor: TestClient, mq: Session) -> None:
    """Every list reads a page of it, so it answers within a fraction of the limit."""
    mq.execute("select count(mqpg.create_topic('x-' || n, 1)) from generate_series(1, 10000) as n")
    mq.execute("select mqpg.send_batch('orders', array_fill('{}'::text, array[1000])) from generate_series(1, 100)")
    mq.append()
    mq.execute(
        "insert into mqpg.dead_letter (subscription_id, message_id, deliver_id, queue_id, attempts, reason)"
        " select s.subscription_id, l.batch_id * 1024 + i, l.batch_id * 1024 + i, 0, 1, 'x'"
        " from mqpg.subscription s, mqpg.commit_log l, generate_series(0, l.n - 1) i"
        " where s.consumer_group = 'shipping' and l.kind = 'n' and l.n > 100"
    )
    mq.execute("analyze mqpg.dead_letter, mqpg.topic")
    for path in ("/topics", "/topics?after=x-5", "/groups", "/dead-letters", "/dead-letters/shipping/orders", "/"):
        # a page that is slow by itself is slow each time, and another program delays one of them
        assert any(_seconds(visitor, path) < 5 for _ in range(3)), path
    assert "more than 1,000" in words(visitor, "/dead-letters")


def _seconds(visitor: TestClient, path: str) -> float:
    began = time.monotonic()
    words(visitor, path)
    return time.monotonic() - began


def test_a_mounted_dashboard_links_to_itself(dsn: str, story: Story) -> None:
    inner = mqpg.web.app(dsn)
    outer = TestClient(Starlette(routes=[Mount("/queue", inner)]), follow_redirects=False)
    page = outer.get("/queue/topics").text
    assert 'href="/queue/topics/orders"' in page
    assert 'href="/queue/static/style.css"' in page
    assert outer.get("/queue/static/style.css").status_code == 200
    assert 'href="/queue/topics" aria-current="page"' in page
    assert outer.get(f"/queue/search?id={story.order}").headers["location"] == f"/queue/messages/{story.order}"
    inner.state.site.source.close()


HOSTILE = '"><script>alert(1)</script>\u202e{{ 7*7 }}\x01'


def test_hostile_text_is_shown_as_text(visitor: TestClient, mq: Session, story: Story) -> None:
    payload = json.dumps({"a": HOSTILE, "</pre>": 1})
    sent = mq.sent("orders", payload, key=HOSTILE, tag=HOSTILE, headers=json.dumps({HOSTILE: HOSTILE}))
    got = mq.receive("orders", group="billing")
    while got:
        mq.nack(got[0].receipt, [one.message_id for one in got], reason=HOSTILE)
        got = mq.receive("orders", group="billing")
    detail = {HOSTILE: HOSTILE, "consumer_group": "billing", "topic": "orders", "consumer": HOSTILE, "verdict": HOSTILE}
    for role in ("consumer", "audit", "appender"):
        mq.execute(
            "select mqpg._heartbeat(%s, %s, %s, 1, 'active', %s::jsonb)", f"{role}-h", role, HOSTILE, json.dumps(detail)
        )
    for path in (*PAGES, f"/messages/{sent}"):
        text = visitor.get(path).text
        assert "<script>alert" not in text, path
        assert "\u202e" not in text, path
        assert "{{" not in text.replace("{{ 7*7 }}", ""), path
        assert ">49<" not in text, path
    for path in ("/topics", "/groups", "/half-messages", "/search", "/dead-letters/billing/orders"):
        answer = visitor.get(path, params=dict.fromkeys(("q", "state", "group", "topic", "key"), HOSTILE))
        assert "<script>alert" not in answer.text
    shown = visitor.get("/dead-letters/billing/orders").text
    assert "&lt;script&gt;alert(1)" in shown
    assert "\\u202e" in shown


@pytest.mark.parametrize("word", ["%00", "9" * 5000, "-1", "%ff", "..%2f..", "a" * 3000, "%F0%9F%92%A9", "'", "%"])
def test_no_word_breaks_a_page(reader: TestClient, word: str) -> None:
    for path in ("/topics/{}", "/groups/{}/orders", "/groups/billing/{}", "/half-messages/{}", "/messages/{}",
                 "/dead-letters/{}/orders", "/dead-letters/billing/orders?after={}", "/search?id={}", "/topics?after={}",
                 "/dead-letters/billing/orders?after=1&after_consumer={}", "/dead-letters/billing/orders?filter={}",
                 "/search?topic=orders&at={}", "/search?topic={}&key={}", "/search?topic=orders&path={}", "/search?topic=orders&until={}&queue={}",
                 "/search?topic=orders&key=o-1&path={}", "/search?topic=orders&rest={}", "/topics/orders/{}/{}", "/half-messages?after_at={}&after={}",
                 "/half-messages?group={}&state={}", "/groups?after_group={}&after_topic={}", "/static/{}"):  # fmt: skip
        answer = reader.get(path.format(word, word))
        assert answer.status_code in (200, 303, 400, 403, 404), (path, answer.status_code, answer.text)
        assert "content-security-policy" in answer.headers


@pytest.fixture
def own_visitor(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """As `visitor`, at a server of this test's own. Each page that asks while that is away waits for a second."""
    monkeypatch.setitem(source._SETTINGS, "pool_timeout", 1)
    with visiting(own_server.dsn) as client:
        yield client


def test_the_database_goes_away_and_comes_back(own_visitor: TestClient, own_server: Any) -> None:
    eventually(lambda: own_visitor.get("/").status_code == 200)
    own_server.server.stop()
    for path in ("/topics", "/half-messages", "/workers", "/messages/1"):
        answer = own_visitor.get(path)
        assert answer.status_code == 503
        assert "The broker does not answer" in answer.text
        assert answer.headers["refresh"]
    part = own_visitor.get("/live", headers={"HX-Request": "true"})
    assert (part.status_code, "refresh" in part.headers, "<html" in part.text) == (503, False, False)
    assert own_visitor.get("/healthz").status_code == 200
    own_server.server.start()
    eventually(lambda: own_visitor.get("/topics").status_code == 200)
    eventually(lambda: own_visitor.get("/").status_code == 200)


def test_a_database_without_the_schema(empty_dsn: str) -> None:
    with visiting(empty_dsn) as client:
        answer = client.get("/topics")
    assert answer.status_code == 503
    assert "mqpg migrate" in answer.text


def test_a_role_without_rights_is_told_so(mq: Session, dsn: str, story: Story, roles: Roles) -> None:
    with visiting(roles("nobody").dsn) as client:
        for path in ("/", "/topics", "/half-messages", "/workers"):
            answer = client.get(path)
            assert answer.status_code == 403, path
            assert "mqpg grant auditor ROLE" in answer.text
            assert "news" not in answer.text


def test_what_a_reader_and_an_operator_need(mq: Session, story: Story, roles: Roles, users: Path) -> None:
    reader, operator = roles("reader"), roles("operator")
    for one in (reader, operator):
        mq.call("grant_auditor", one.name)
        mq.call("grant_receive", "*", "*", one.name)
    mq.call("grant_operator", operator.name)
    with visiting(reader.dsn) as client:
        for path in (
            *PAGES,
            f"/messages/{story.order}",
            f"/half-messages/{story.parked}",
            "/search?topic=orders&at=2020-01-01&path=$.order > 1",
        ):
            assert client.get(path).status_code == 200, path
    with visiting(operator.dsn, password_file=users, actions=True) as client:
        assert log_in(client) == 303
        Operator(client).do("commit", handle=story.parked, reason="paid")
        Operator(client).do("redrive", group="billing", topic="orders", scope="all")
