"""The open deliveries on the page of a group."""

import html
import re

from starlette.testclient import TestClient

from tests.support.broker import Session, seconds
from tests.support.roles import Roles
from tests.support.waiting import eventually
from tests.web.story import Story, visiting


def part(visitor: TestClient, path: str = "/groups/shipping/orders") -> str:
    """The section of the open deliveries."""
    answer = visitor.get(path)
    assert answer.status_code == 200, answer.text
    return html.unescape(answer.text).partition('id="deliveries"')[2].partition("<h2>Members")[0]


def lines(text: str) -> list[list[str]]:
    """The cells of each row."""
    body = text.partition("<tbody>")[2].partition("</tbody>")[0]
    cells = [
        re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]
    return [[" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in row] for row in cells]


def test_each_delivery(visitor: TestClient, mq: Session, story: Story) -> None:
    assert "None." in part(visitor)
    first = mq.receive("orders", group="shipping", consumer="ship-1", max_messages=2, lease=seconds(600))
    second = mq.receive("orders", group="shipping", consumer="ship-2", max_messages=1, lease=seconds(60))
    page = part(visitor)
    two, one = lines(page)
    assert (two[1], two[2], two[6]) == ("ship-2", "1", "1"), "its lease ends first"
    assert (one[0], one[1], one[2]) == (str(first[0].queue_id), "ship-1", str(len(first)))
    assert one[3] == ", ".join(str(each.queue_offset) for each in first)
    assert re.fullmatch(r"\d+ s ago", one[4])
    assert re.match(r"ends in (9 min \d+ s|10 min), 20", one[5])
    place = f"/topics/orders/{second[0].queue_id}/{second[0].queue_offset}"
    assert f'href="{place}"' in page
    assert visitor.get(place).headers["location"] == f"/messages/{second[0].message_id}"
    mq.ack(first[0].receipt)
    assert [row[1] for row in lines(part(visitor))] == ["ship-2"]


def test_a_lease_that_has_ended_and_a_second_attempt(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.subscribed("bulk", group="shipping")
    mq.sent("bulk", "1")
    mq.receive("bulk", group="shipping", consumer="gone", lease=seconds(0.05))
    eventually(lambda: lines(part(visitor, "/groups/shipping/bulk"))[0][5].startswith("ended "))
    again = mq.receive("bulk", group="shipping", consumer="next", lease=seconds(60))
    assert again[0].attempt == 2
    (row,) = lines(part(visitor, "/groups/shipping/bulk"))
    assert (row[1], row[6]) == ("next", "2")


def test_since_when_it_is_open_although_its_lease_was_extended(visitor: TestClient, mq: Session, story: Story) -> None:
    got = mq.receive("orders", group="shipping", consumer="slow", max_messages=1)
    mq.execute("select pg_sleep(1.6)")
    mq.call("extend", got[0].receipt, seconds(300))
    (row,) = lines(part(visitor))
    assert int(row[4].split()[0]) >= 1, row
    assert "ends in" in row[5]


def test_a_part_of_a_delivery_that_is_acknowledged_is_left_out(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.subscribed("bulk", group="shipping", mode="shared")
    mq.sent_batch("bulk", ["1"] * 20)
    got = mq.receive("bulk", group="shipping", max_messages=10)
    assert lines(part(visitor, "/groups/shipping/bulk"))[0][2:4] == ["10", "0 to 9"]
    mq.ack(got[0].receipt, offsets=[one.queue_offset for one in got[1:9]])
    assert lines(part(visitor, "/groups/shipping/bulk"))[0][1:4] == ["without a name", "2", "0, 9"]


def test_many_are_shown_in_part_and_by_queue(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.subscribed("wide", queues=4, group="shipping", mode="shared")
    for n in range(16):
        mq.send_batch("wide", ["1"] * 25, keys=[f"k-{n}"] * 25)
    mq.append()
    while mq.receive("wide", group="shipping", max_messages=1, lease=seconds(600)):
        pass
    page = part(visitor, "/groups/shipping/wide")
    assert len(lines(page.partition("<details>")[2])) == 100
    assert "The first 100" in page
    counts = mq.rows("select queue_id, claims from mqpg.subscription_lag where topic = 'wide' and claims > 0")
    assert sum(one.claims for one in counts) > 100
    summary = {row[0]: row for row in lines(page)}
    assert {queue: int(row[2]) for queue, row in summary.items()} == {str(one.queue_id): one.claims for one in counts}
    assert {row[1] for row in summary.values()} == {"without a name"}
    assert all(re.match(r"end in (9 min \d+ s|10 min), 20.*, the last in ", row[5]) for row in summary.values())
    assert all(re.fullmatch(r"\d+ s ago", row[4]) for row in summary.values())
    for one in counts:
        rows = lines(part(visitor, f"/groups/shipping/wide?queue={one.queue_id}"))
        assert len(rows) == one.claims <= 64
        assert {row[0] for row in rows} == {str(one.queue_id)}
        assert (
            f'href="/groups/shipping/wide?queue={one.queue_id}#deliveries"' in visitor.get("/groups/shipping/wide").text
        )
    assert visitor.get("/groups/shipping/wide?queue=x").status_code == 400


def test_what_holds_two_queues_up_is_said_once(visitor: TestClient, mq: Session, story: Story) -> None:
    mq.subscribed("mails", queues=2, group="mailer", mode="shared")
    for n in range(200):
        mq.send("mails", "1", key=f"k-{n}")
    mq.append()
    while mq.receive("mails", group="mailer", max_messages=1, lease=seconds(600), consumer="mailer-7"):
        pass
    text = html.unescape(visitor.get("/groups/mailer/mails").text)
    assert text.count("<b>Too many deliveries</b>") == 1
    assert "queues <i>0, 1</i>" in text
    assert "the same holds for queue 1." in text
    assert not re.search(r"<i>\d{4}-\d\d-\d\dT", text)
    assert [row[:4] for row in lines(part(visitor, "/groups/mailer/mails"))] == [
        [queue, "mailer-7", "64", "64"] for queue in ("0", "1")
    ]


def test_an_operator_alone_does_not_see_them(mq: Session, story: Story, roles: Roles) -> None:
    plain = roles("plain")
    mq.call("grant_operator", plain.name)
    with visiting(plain.dsn) as client:
        assert "mqpg grant auditor ROLE" in part(client)
