"""What happened at the broker that the dashboard shows, and those who look at it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

import mqpg.web
from tests.support.broker import Session

__all__ = ["GONE", "PASSWORD", "Operator", "Story", "log_in", "password_file", "token_of", "visiting"]

PASSWORD = "correct horse"
_HASH = "$scrypt$ln=4,r=8,p=1$QUFBQUFBQUFBQUFBQUFBQQ$pdgxU25q4Yt1aORPg+pQBrP4h9HcCpnAWWPYSXfJWrs"
HEARTBEAT = "select mqpg._heartbeat(%s, %s, 'node-1', 4711, 'active', %s::jsonb)"
GONE = "update mqpg.worker set state = 'stopped' where worker_id = 'consumer-9'"
"""Ends the consumer of `Story.orphan`."""


@contextmanager
def visiting(dsn: str, **options: Any) -> Iterator[TestClient]:
    """Somebody at a dashboard of a broker."""
    app = mqpg.web.app(dsn, **options)
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        yield client
    app.state.site.source.close()


class Story:
    """What happened at the broker: one of everything that a page shows."""

    def __init__(self, mq: Session) -> None:
        mq.call("create_topic", "orders", queues=2)
        mq.call("create_topic", "returns", queues=1, retention="30 days")
        mq.call("subscribe", "billing", "orders", max_attempts=1)
        mq.call("subscribe", "shipping", "orders", mode="shared")
        mq.call("subscribe", "news", "returns")
        mq.call("create_producer_group", "shop", check_after="00:10:00", max_checks=3)
        mq.call("create_producer_group", "app", check_after="10 ms", max_checks=1)
        self.order = mq.send("orders", '{"order": 1, "amount": 12.5}', key="o-1", tag="new", headers='{"trace": "abc"}')
        self.pending = mq.prepare("orders", '{"order": 2}', "shop", key="o-2")
        self.parked = mq.prepare("orders", '{"order": 3}', "app", key="o-3")
        self.committed = mq.prepare("orders", '{"order": 4}', "shop", key="o-4")
        mq.commit(self.committed)
        mq.append()
        self.dead: list[int] = []
        while got := mq.receive("orders", group="billing"):
            self.dead += [one.message_id for one in got]
            mq.nack(got[0].receipt, [one.message_id for one in got], reason="the card was <b>refused</b>")
        for n in range(4):
            mq.send("orders", json.dumps({"order": 10 + n, "amount": n}), key=f"o-{10 + n}")
            mq.send("returns", json.dumps({"return": n}))
        mq.append()
        self.park(mq)
        mq.call("pause", "returns", "news")
        for role, detail in (
            ("appender", {"messages": 4711, "iterations": 900, "append_seconds": 1.5, "pass_seconds": 0.002}),
            ("compensator", {"checked": 3, "failures": 0, "ledgers": {}, "functions": {}}),
            ("consumer", {"consumer_group": "billing", "topic": "orders", "consumer": "billing-1", "handled": 12, "raised": 1, "handler": "shop:bill"}),
            ("audit", {"verdict": "invalid", "reasons": ["2 messages were lost"], "anomalies": {"lost": 2}, "at": "2026-11-23T16:00:00+00:00", "seconds": 3.5, "judged_messages": 1000}),
        ):  # fmt: skip
            mq.execute(HEARTBEAT, f"{role}-1", role, json.dumps(detail))

    def park(self, mq: Session) -> None:
        """Ask the group `app` until its checks are used up."""
        for _ in range(50):
            mq.call("due_checks", "app", lease="10 ms")
            if mq.scalar("select count(*) from mqpg.half_parked"):
                return
            mq.execute("select pg_sleep(0.02)")
        raise AssertionError("it is not parked")

    def orphan(self, mq: Session) -> int:
        """Send a message to a pinned queue, whose owner is at work until GONE."""
        mq.subscribed("p", group="ledger", mode="pinned")
        mq.sent("p")
        mq.ack(mq.receive("p", group="ledger", consumer="bill-1")[0].receipt)
        waiting = mq.sent("p")
        detail = {"consumer": "bill-1", "consumer_group": "ledger", "topic": "p"}
        mq.execute(HEARTBEAT, "consumer-9", "consumer", json.dumps(detail))
        return waiting


def password_file(folder: Path, *names: str) -> Path:
    """A password file with these users, or else ada, bob and eve, who all have the password PASSWORD."""
    file = folder / "users"
    file.write_text("".join(f"{name}:{_HASH}\n" for name in names or ("ada", "bob", "eve")))
    return file


def token_of(page: str) -> str:
    found = re.search(r'name="token" value="([\w-]+)"', page)
    assert found, page
    return found[1]


def log_in(client: TestClient, name: str = "ada", password: str = PASSWORD) -> int:
    token = token_of(client.get("/login").text)
    return client.post("/login", data={"token": token, "name": name, "password": password}).status_code


class Operator:
    """Somebody who has logged in, and presses buttons."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    @cached_property
    def token(self) -> str:
        return token_of(self.client.get("/topics/orders").text)

    def ask(self, action: str, **fields: object) -> str:
        """The first click: what the page asks."""
        answer = self.client.post(f"/actions/{action}", data={"token": self.token} | fields)
        assert answer.status_code == 200, answer.text
        assert 'name="confirmed" value="yes"' in answer.text
        return answer.text

    def do(self, action: str, **fields: object) -> str:
        """Both clicks: what the page says then."""
        self.ask(action, **fields)
        answer = self.client.post(f"/actions/{action}", data={"token": self.token, "confirmed": "yes"} | fields)
        assert answer.status_code == 200, answer.text
        assert 'role="status"' in answer.text
        return answer.text
