"""Each action over HTTP, and everything that must refuse one."""

import html
from pathlib import Path

import pytest

from tests.support.broker import Session
from tests.web.story import Operator, Story, log_in, token_of, visiting


def checks(mq: Session, handle: str) -> list[tuple[str, str, str | None]]:
    return [
        (row.event, row.by, row.reason)
        for row in mq.rows(
            "select event, by, reason from mqpg.check_log where message_id = %s order by at", id_of(handle)
        )
    ]


def id_of(handle: str) -> int:
    return int(handle.split(".")[2])


@pytest.mark.parametrize(("action", "outcome"), [("commit", "already_committed"), ("rollback", "already_rolled_back")])
@pytest.mark.parametrize("which", ["parked", "pending"])
def test_a_half_message_is_decided_by_hand(
    operator: Operator, mq: Session, story: Story, action: str, outcome: str, which: str
) -> None:
    handle = getattr(story, which)
    page = operator.ask(action, handle=handle)
    assert handle in page
    assert "This cannot be undone" in page
    assert mq.scalar("select count(*) from mqpg.op_log where message_id = %s", id_of(handle)) == 0, "asked, not done"
    page = operator.do(action, handle=handle, reason="order 3 was <paid>")
    assert "ada: order 3 was &lt;paid&gt;" in page
    assert mq.value(action, handle) == outcome
    assert mq.scalar("select reason from mqpg.op_log where message_id = %s", id_of(handle)) == "ada: order 3 was <paid>"
    assert "ada: order 3 was" in operator.client.get(f"/half-messages/{handle}").text
    assert handle not in operator.client.get("/half-messages").text


def test_a_decision_needs_a_reason(operator: Operator, mq: Session, story: Story) -> None:
    fields = {"token": operator.token, "confirmed": "yes", "handle": story.parked, "reason": " "}
    answer = operator.client.post("/actions/commit", data=fields)
    assert 'name="reason"' in answer.text
    assert mq.scalar("select count(*) from mqpg.half_parked") == 1


def test_the_first_decision_stands(operator: Operator, story: Story) -> None:
    operator.do("commit", handle=story.parked, reason="yes")
    assert "already committed" in operator.do("rollback", handle=story.parked, reason="no")


def test_a_parked_one_is_checked_again(operator: Operator, mq: Session, story: Story) -> None:
    operator.do("rearm", handle=story.parked)
    assert mq.scalar("select count(*) from mqpg.half_parked") == 0
    assert checks(mq, story.parked)[-1][0] == "rearmed"
    refused = {"token": operator.token, "confirmed": "yes", "handle": "nonsense"}
    assert operator.client.post("/actions/rearm", data=refused).status_code == 404


def test_pause_and_resume(operator: Operator, mq: Session) -> None:
    operator.do("pause", topic="orders")
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is True
    assert "paused" in operator.client.get("/topics/orders").text
    operator.do("resume", topic="orders")
    assert mq.scalar("select paused from mqpg.topics where topic = 'orders'") is False
    operator.do("resume", group="news", topic="returns")
    assert len(mq.receive("returns", group="news")) == 4


def test_seek(operator: Operator, mq: Session) -> None:
    mq.drain("orders", group="shipping")
    asked = operator.ask("seek", group="shipping", topic="orders", target="earliest")
    assert "It skips 0 messages and repeats 6, on 2 queues." in asked
    assert 'href="/groups/shipping/orders">No<' in asked, "who changes their mind is where they were"
    assert not mq.drain("orders", group="shipping"), "asked, not done"
    operator.do("seek", group="shipping", topic="orders", target="earliest")
    assert len(mq.drain("orders", group="shipping")) == 6
    operator.do("seek", group="shipping", topic="orders", target="0", queue="0")
    for wrong in ({"target": ""}, {"target": "some day"}, {"target": "1", "queue": "x"}):
        fields = {"token": operator.token, "confirmed": "yes", "group": "shipping", "topic": "orders"} | wrong
        assert operator.client.post("/actions/seek", data=fields).status_code == 400


def left(mq: Session) -> list[int]:
    return [row[0] for row in mq.rows("select message_id from mqpg.dead_letter order by message_id")]


def test_redrive_what_is_ticked(operator: Operator, mq: Session, story: Story) -> None:
    page = operator.do("redrive", group="billing", topic="orders", scope="chosen", id=[str(story.order)])
    assert "1 dead letter is delivered again" in page
    assert left(mq) == sorted(set(story.dead) - {story.order})
    nothing = {"token": operator.token, "confirmed": "yes", "group": "billing", "topic": "orders", "scope": "chosen"}
    assert operator.client.post("/actions/redrive", data=nothing).status_code == 400
    assert len(left(mq)) == 1


def test_discard_by_filter_and_all(operator: Operator, mq: Session, story: Story) -> None:
    fields = {"group": "billing", "topic": "orders", "scope": "all"}
    operator.do("discard", filter="$.amount == 12.5", **fields)
    assert story.order not in left(mq)
    assert len(left(mq)) == len(story.dead) - 1
    operator.do("discard", **fields)
    assert left(mq) == []


def test_another_site_is_refused(operator: Operator) -> None:
    fields = {"confirmed": "yes", "topic": "orders", "token": operator.token}
    answer = operator.client.post("/actions/pause", data=fields, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


def test_an_action_is_no_link(operator: Operator) -> None:
    assert operator.client.get("/actions/pause?topic=orders&confirmed=yes").status_code == 404
    assert operator.client.post("/actions/drop_everything", data={"token": operator.token}).status_code == 404
    assert operator.client.post("/actions/pause", content=b"x" * 200_000).status_code == 413


def test_a_login_that_only_reads(dsn: str, story: Story, mq: Session, users: Path) -> None:
    with visiting(dsn, password_file=users) as client:
        assert log_in(client) == 303
        page = client.get(f"/half-messages/{story.parked}").text
        assert "/actions/" not in page
        fields = {"token": token_of(page), "confirmed": "yes", "topic": "orders"}
        assert client.post("/actions/pause", data=fields).status_code == 403


def test_hidden_fields_are_escaped(operator: Operator) -> None:
    page = operator.ask("pause", group='"><script>', topic="orders", target="'\"&")
    assert "<script>" not in page
    assert 'value="\'"&"' in html.unescape(page)
