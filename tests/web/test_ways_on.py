"""What the pages say and offer where something is held up: commands, buttons and links."""

import html
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from tests.support.broker import Session, seconds
from tests.web.story import GONE, Operator, Story


class Why(HTMLParser):
    """The buttons and links of the section that says why something waits."""

    def __init__(self, page: str) -> None:
        super().__init__()
        section = page.partition('class="why"')[2].partition("</section>")[0]
        self.text = html.unescape(section)
        self.buttons: dict[str, tuple[str, dict[str, str]]] = {}
        self.links: list[str] = []
        self._action, self._fields, self._in_button = "", dict[str, str](), False
        self.feed(section)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attributes}
        if tag == "form":
            self._action, self._fields = named["action"].removeprefix("/actions/"), {}
        elif tag == "input" and named["name"] != "token":
            self._fields[named["name"]] = named["value"]
        elif tag == "a":
            self.links.append(named["href"])
        self._in_button = tag == "button"

    def handle_data(self, data: str) -> None:
        if self._in_button:
            self.buttons[data] = self._action, self._fields
            self._in_button = False


def why(client: TestClient, path: str) -> Why:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return Why(answer.text)


def press(operator: Operator, found: Why, title: str) -> str:
    """Press the button and the one that confirms it; what the first page asked."""
    action, fields = found.buttons[title]
    asked = operator.ask(action, **fields)
    operator.do(action, **fields)
    return html.unescape(asked)


def test_a_paused_group(operator: Operator, mq: Session) -> None:
    found = why(operator.client, "/groups/news/returns")
    assert "Run mqpg subscription resume news returns" in found.text
    assert "select mqpg." not in found.text
    assert (found.links, found.buttons) == ([], {}), "this is its page, which has a button"
    (sent,) = mq.sent_batch("returns", ["{}"])
    found = why(operator.client, f"/messages/{sent}")
    assert "/groups/news/returns" in found.links
    press(operator, found, "Resume the group…")
    assert len(mq.receive("returns", group="news")) == 5


def test_a_paused_topic(operator: Operator, mq: Session, story: Story) -> None:
    mq.call("pause", "orders")
    (sent,) = mq.sent_batch("orders", ["{}"])
    for path in (f"/messages/{sent}", "/groups/shipping/orders"):
        found = why(operator.client, path)
        assert "Run mqpg topic resume orders" in found.text
        assert "/topics/orders" in found.links
    press(operator, found, "Resume the topic…")
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False


def test_a_dead_letter(operator: Operator, mq: Session, story: Story) -> None:
    found = why(operator.client, f"/messages/{story.order}")
    assert f"mqpg dead-letters redrive billing orders --id {story.order}" in found.text
    assert "/dead-letters/billing/orders" in found.links
    press(operator, found, "Redrive…")
    left = [row[0] for row in mq.rows("select message_id from mqpg.dead_letter")]
    assert sorted(left) == sorted(set(story.dead) - {story.order})


def blocked(mq: Session) -> tuple[int, int]:
    """Two messages, of which the first has failed and blocks its queue."""
    mq.subscribed("k", group="strict", on_failure="block_queue", retry_delay=seconds(600))
    first, second = mq.sent_batch("k", ["1", "2"])
    mq.nack(mq.receive("k", group="strict")[0].receipt, [first], reason="select mqpg.unpin('strict', 'k');")
    return first, second


@pytest.mark.parametrize("title", ["Try it again at once…", "Leave it out…"])
def test_a_message_that_blocks_its_queue(operator: Operator, mq: Session, title: str) -> None:
    first, second = blocked(mq)
    assert "/groups/strict/k" in why(operator.client, f"/messages/{second}").links
    found = why(operator.client, "/groups/strict/k")
    assert f"/messages/{first}" in found.links
    assert set(found.buttons) == {"Try it again at once…", "Leave it out…"}, "the error of a handler makes no button"
    skips = title == "Leave it out…"
    assert f"It skips {'1 message' if skips else '0 messages'} and" in press(operator, found, title)
    assert [one.message_id for one in mq.receive("k", group="strict")] == [first, second][skips:]


def test_a_queue_whose_owner_is_gone(operator: Operator, mq: Session, story: Story) -> None:
    waiting = story.orphan(mq)
    fields = {"group": "ledger", "topic": "p", "consumer": "bill-1"}
    assert "It reports, so it is at work." in operator.ask("unpin", **fields)
    mq.execute(GONE)
    for path in (f"/messages/{waiting}", "/groups/ledger/p"):
        found = why(operator.client, path)
        assert "mqpg subscription unpin ledger p --consumer bill-1" in found.text
        assert found.buttons["Unpin…"] == ("unpin", fields)
    assert mq.receive("p", group="ledger", consumer="bill-2") == []
    asked = press(operator, found, "Unpin…")
    assert "It owns 1 queue with 1 message unread. It does not report." in asked
    assert "This cannot be undone" in asked
    assert [one.message_id for one in mq.receive("p", group="ledger", consumer="bill-2")] == [waiting]
    assert why(operator.client, "/groups/ledger/p").buttons == {}


def test_an_unpin_needs_a_consumer_and_a_pinned_group(operator: Operator) -> None:
    for fields in ({"consumer": ""}, {"consumer": "c"}):
        data = {"token": operator.token, "confirmed": "yes", "group": "shipping", "topic": "orders"} | fields
        assert operator.client.post("/actions/unpin", data=data).status_code == 400


def test_who_only_reads_gets_commands_and_links(visitor: TestClient, mq: Session, story: Story) -> None:
    story.orphan(mq)
    mq.execute(GONE)
    blocked(mq)
    for path in ("/groups/ledger/p", "/groups/strict/k", f"/messages/{story.order}", "/groups/news/returns"):
        found = why(visitor, path)
        assert found.buttons == {}
        assert "mqpg " in found.text, path


def test_a_missing_worker(visitor: TestClient, mq: Session) -> None:
    mq.execute("update mqpg.worker set state = 'stopped'")
    found = why(visitor, f"/messages/{mq.send('orders')}")
    assert "Start mqpg worker" in found.text
    assert "/workers" in found.links
