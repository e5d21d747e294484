"""Code that is wrong on purpose: each mistake is found, and named."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mqpg.crashtest.options import CannotTry, Outcome, Result
from mqpg.values.errors import ConfigurationError

# Seconds on an idle machine.
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

MESSAGES = ('{"id": 7}',)

# Target, what it leaves, and how the advice begins.
HANDLERS = {
    "own_connection": (Outcome.DOUBLED, "The handler writes on a connection of its own"),
    "commits_in_sql": (Outcome.DOUBLED, "The handler ends the transaction itself (commit)"),
    "commits_own_database": (Outcome.DOUBLED, "The handler ends the transaction itself (commit)"),
    "file_effect": (Outcome.DOUBLED, "The handler has an effect outside the given connection (file mails.txt)"),
    "http_effect": (Outcome.DOUBLED, "The handler has an effect outside the given connection (connection 127.0.0.1:"),
    "thread": (Outcome.LOST, "Work continues after the handler has returned (thread or task Thread-"),
    "swallows": (Outcome.LOST, "The handler swallows an error"),
    "acknowledges_first": (Outcome.LOST, "ack='receive' acknowledges before the handler works"),
    "middleware_effect": (
        Outcome.DOUBLED,
        "The handler has an effect outside the given connection (HTTP request shop.example:80)",
    ),
    "own_connection_to_our_prefix": (Outcome.DOUBLED, "The handler writes on a connection of its own"),
    "own_sqlite_with_our_prefix": (
        Outcome.DOUBLED,
        "The handler has an effect outside the given connection (SQLite database bills.db)",
    ),
    "mail": (Outcome.DOUBLED, "effect='external' happens at least once"),
}
PRODUCERS = {
    "sends_first": (Outcome.DOUBLED, "The message is sent in a transaction of its own"),
    "sends_last": (Outcome.LOST, "The message is sent in a transaction of its own"),
    "async_http": (
        Outcome.DOUBLED,
        "The producer has an effect outside of its transaction (HTTP request shop.example:80)",
    ),
    "no_ledger": (Outcome.STUCK, "Half messages stay undecided"),
}
# How many of the points that are tried first contain one that shows the mistake. The others show it in five.
POINTS = {"file_effect": 3, "http_effect": 3, "mail": 3, "sends_first": 3}
POINTS |= {"commits_in_sql": 7, "commits_own_database": 7, "middleware_effect": 7, "async_http": 7, "thread": 6}


def check(result: Result, outcome: Outcome, advice: str) -> None:
    assert {one.outcome for one in result.tried} == {outcome, Outcome.ONCE}, result.as_dict()
    assert result.status == 1
    assert result.advice[0].startswith(advice)
    assert all(one.details for one in result.tried if one.outcome is outcome)


@pytest.mark.parametrize("name", HANDLERS)
def test_handlers(name: str, crash: Callable[..., Result]) -> None:
    check(crash(f"wrong:{name}", "bill.sql", "our_prefix.sql", points=POINTS.get(name, 5)), *HANDLERS[name])


@pytest.mark.parametrize("name", PRODUCERS)
def test_producers(name: str, crash: Callable[..., Result]) -> None:
    result = crash(f"wrong:{name}", "right:create_topic", "placed.sql", points=POINTS.get(name, 5))
    check(result, *PRODUCERS[name])
    if name == "sends_last":
        lost = next(one for one in result.tried if one.outcome is Outcome.LOST)
        assert lost.details[0].startswith("the business without its message: messages in topic orders: 1 lost")


def test_a_second_database_that_is_not_declared(crash: Callable[..., Result]) -> None:
    result = crash("wrong:second_database", "bill.sql", points=7, databases={"SHOP_URL": "postgresql+psycopg"})
    check(result, Outcome.DOUBLED, "The handler writes on a connection of its own")
    assert any("table bill (second database): 1 doubled" in line for one in result.tried for line in one.details)
    assert "SHOP_URL" not in os.environ


class _Server(BaseHTTPRequestHandler):
    """Answers each POST, and keeps its connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_kept_connection_is_not_counted_beside_its_requests(crash: Callable[..., Result], tmp_path: Path) -> None:
    """A process that resumes needs one more, which is no effect."""
    messages = ('{"id": 7}', '{"id": 8}')
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        threading.Thread(target=server.serve_forever).start()
        address = tmp_path / "address"
        address.write_text(str(server.server_port))
        result = crash("wrong:post_kept_alive", messages=messages, files=(address,), points=9)
        server.shutdown()
    assert {one.outcome for one in result.tried} == {Outcome.DOUBLED, Outcome.ONCE}, result.as_dict()
    details = [line for one in result.tried for line in one.details]
    assert details
    assert all(line.startswith("HTTP request 127.0.0.1:") for line in details), details


@pytest.mark.parametrize(
    ("target", "setup", "messages", "words"),
    [
        ("wrong:raises", "bill.sql", MESSAGES, "wrong:raises fails without a crash: ValueError: no such customer"),
        ("wrong:commits", "bill.sql", MESSAGES, "Leave COMMIT and ROLLBACK to mqpg"),
        ("wrong:commits_openly", "bill.sql", MESSAGES, "Leave COMMIT and ROLLBACK to mqpg"),
        ("wrong:nothing", "bill.sql", MESSAGES, "wrong:nothing leaves nothing that a crash could lose"),
        ("os:getpid", "bill.sql", (), "os:getpid leaves nothing that a crash could lose"),
        ("right:bill", "bill.sql", (), "no message reaches right:bill"),
        ("right:bill", "right:create_topic", ("1",), "right:bill fails without a crash"),
        ("right:bill", "broken.sql", MESSAGES, 'broken.sql: syntax error at or near "tabel"'),
        ("right:copy_sqlite", "broken.sql", MESSAGES, 'broken.sql: near "tabel": syntax error'),
        ("right:absent", "bill.sql", MESSAGES, "module 'right' has no 'absent'"),
        ("right", "bill.sql", MESSAGES, "the target must be module:name"),
        ("nowhere:bill", "bill.sql", MESSAGES, "cannot import 'nowhere'"),
    ],
)
def test_what_cannot_be_tried(
    target: str, setup: str, messages: tuple[str, ...], words: str, crash: Callable[..., Result]
) -> None:
    with pytest.raises((CannotTry, ConfigurationError), match=words):
        crash(target, setup, messages=messages)
