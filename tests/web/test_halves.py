"""Half messages that wait for somebody: their payload, why they wait, and what the pages say to do."""

import html
import json

from starlette.testclient import TestClient

from tests.support.broker import Session
from tests.support.roles import Roles
from tests.web.story import Operator, Story, visiting

COMPENSATOR = "select mqpg._heartbeat('compensator-1', 'compensator', 'node-1', 4711, 'active', %s::jsonb)"


def words(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return html.unescape(answer.text)


def id_of(handle: str) -> str:
    return handle.split(".")[2]


def overdue(mq: Session) -> str:
    """A half message whose check is due for 14 minutes, of a ledger that was asked 80 times."""
    mq.call("create_producer_group", "far", checker="url", checker_target="far", check_after="1 s")
    handle = mq.prepare("orders", '{"order": 5}', "far", key="o-5")
    mq.execute("update mqpg.commit_log set check_at = clock_timestamp() - interval '14 min 5 s' where batch_id = %s",
               int(id_of(handle)) // 1024)  # fmt: skip
    mq.execute("update pgmq.q_mqpg_oplog set vt = clock_timestamp() - interval '14 min 5 s'"
               " where (message ->> 'message_id')::bigint = %s", int(id_of(handle)))  # fmt: skip
    detail = {"ledgers": {"far": {"state": "no verdict", "reason": "connection <b>refused</b>", "failures": 80}}}
    mq.execute(COMPENSATOR, json.dumps(detail))
    return handle


def test_the_page_shows_the_payload(reader: TestClient, story: Story) -> None:
    for handle, order in ((story.parked, 3), (story.pending, 2)):
        page = words(reader, f"/half-messages/{handle}")
        assert f'"order": {order}' in page
        assert f">o-{order}<" in page
        page = words(reader, f"/messages/{id_of(handle)}")
        assert f'"order": {order}' in page
        assert f'href="/half-messages/{handle}"' in page
    assert '<td data-name="Key">o-3</td>' in words(reader, "/half-messages")


def test_a_payload_is_cut_and_escaped(visitor: TestClient, mq: Session) -> None:
    handle = mq.prepare("orders", json.dumps({"a": "<b>" + "x" * 30000}), "shop")
    page = visitor.get(f"/half-messages/{handle}").text
    assert "&lt;b&gt;xxx" in page
    assert "… and 10,012 characters more" in page
    assert len(page) < 40000


def test_why_it_is_parked(visitor: TestClient, story: Story, mq: Session) -> None:
    for path in (f"/half-messages/{story.parked}", "/half-messages?state=parked"):
        page = words(visitor, path)
        assert "max_checks 1, check_after 10 ms: parked " in page
        assert "Checked again, it is parked again after 10 ms unless it is answered by then" in page
    mq.call("alter_producer_group", "app", check_after="10 minutes", max_checks=5)
    assert "parked again" not in words(visitor, f"/half-messages/{story.parked}")


def test_what_to_do_is_said_with_commands_where_nobody_may_act(reader: TestClient, story: Story) -> None:
    page = words(reader, f"/half-messages/{story.parked}")
    assert f"mqpg half settle {story.parked} VERDICT --reason REASON" in page
    for path in ("/half-messages", f"/half-messages/{story.parked}", f"/messages/{id_of(story.parked)}"):
        page = words(reader, path)
        assert "mqpg half rearm" in page, path
        assert "settle()" not in page, path
        assert "half_parked has its handle" not in page, path


def test_what_to_do_is_said_with_the_buttons(operator: Operator, story: Story) -> None:
    assert "decide it with the buttons below" in words(operator.client, f"/half-messages/{story.parked}")
    assert "its buttons commit it" in words(operator.client, "/half-messages")
    for path in ("/half-messages", f"/half-messages/{story.parked}", f"/messages/{id_of(story.parked)}"):
        page = words(operator.client, path)
        assert "mqpg half settle" not in page, path
        assert "settle()" not in page, path


def test_a_ledger_that_was_asked_in_vain(visitor: TestClient, mq: Session) -> None:
    handle = overdue(mq)
    page = words(visitor, f"/half-messages/{handle}")
    assert "asked 80 times without an answer: connection <b>refused</b>" in page
    assert "connection <b>refused" not in visitor.get(f"/half-messages/{handle}").text
    assert "No checker was asked yet" not in page
    assert "overdue by 14 min" in page
    page = words(visitor, "/half-messages?group=far")
    assert "asked 80 times without an answer" in page
    assert "overdue by 14 min" in page
    assert "ledger" in page.partition('aria-label="What to do"')[2].partition("</section>")[0]


def test_without_the_right_to_read_there_is_no_payload(mq: Session, story: Story, roles: Roles) -> None:
    blind = roles("blind")
    mq.call("grant_operator", blind.name)
    mq.call("grant_auditor", blind.name)
    with visiting(blind.dsn) as client:
        page = words(client, "/half-messages")
        assert story.parked in page
        assert "o-3" not in page
        for path in (f"/half-messages/{story.parked}", f"/messages/{id_of(story.parked)}"):
            answer = client.get(path)
            assert '"order"' not in html.unescape(answer.text), path
