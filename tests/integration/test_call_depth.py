"""How many frames of the library lie between a public call and SQL, and between receive and the handler.

A reader who follows a call should reach the statement soon. The bounds are those of the release.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest

import mqpg
from tests.support.consuming import running, sent
from tests.support.proven import prove
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

LIBRARY = str(Path(mqpg.__file__).parent)


def depth() -> list[str]:
    """The functions of the library on the stack, the outermost one first."""
    frame: FrameType | None = sys._getframe(1)
    found = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(LIBRARY):
            found.append(frame.f_code.co_name)
        frame = frame.f_back
    return found[::-1]


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Record every statement that psycopg sends, with the library's frames above it."""
    seen: list[tuple[str, list[str]]] = []
    execute: Callable[..., Any] = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        seen.append((text, depth()))
        return execute(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return seen


def frames_to(statements: list[tuple[str, list[str]]], call: str) -> list[str]:
    return next(frames for text, frames in statements if f"mqpg.{call}(" in text)


def test_a_call_reaches_sql_in_five_frames(
    mq: mqpg.Client, orders: str, statements: list[tuple[str, list[str]]]
) -> None:
    mq.subscribe("billing", orders)
    sent(mq, orders, 1)
    (message,) = mq.receive("billing", orders)
    mq.commit(mq.prepare(orders, 2, "shop"))
    mq.ack(message)
    for call in ("send", "receive", "prepare", "commit", "ack"):
        frames = frames_to(statements, call)
        assert frames[0] == call
        assert len(frames) <= 5, frames


def test_a_local_transaction_reaches_prepare_in_six_frames(
    mq: mqpg.Client, orders: str, tmp_path: Path, statements: list[tuple[str, list[str]]]
) -> None:
    with mqpg.TransactionalProducer(mq, group="shop", ledger=f"sqlite:///{tmp_path / 'shop.db'}") as producer:
        producer.create_ledger()
        with producer.transaction(orders, 1):
            pass
    frames = frames_to(statements, "prepare")
    assert frames[0] == "transaction"
    assert len(frames) <= 6, frames


KINDS: dict[str, dict[str, Any]] = {
    "C1": {},
    "C1 with a session": {"session": True},
    "C1 in mode shared": {"mode": "shared"},
    "C2": {"database": "sqlite:///bills.db"},
    "C3": {"effect": "external"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_iteration_reaches_sql_in_eight_frames_and_the_handler_in_six_more(
    kind: str,
    mq: mqpg.Client,
    orders: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statements: list[tuple[str, list[str]]],
) -> None:
    monkeypatch.chdir(tmp_path)
    handled: list[list[str]] = []

    def handle(*_: Any) -> None:
        handled.append(depth())

    def handle_alone(_: mqpg.Message) -> None:
        handled.append(depth())

    consumer = mqpg.consumer(orders, group="g", **KINDS[kind])(handle_alone if kind == "C3" else handle)
    mq.subscribe(consumer.options.group, orders, consumer.options.wanted_mode)
    if kind in ("C1", "C1 with a session"):
        prove(consumer)
    sent(mq, orders, 1)
    with closing(consumer), running(consumer, mq):
        eventually(lambda: handled)
    to_sql = frames_to(statements, "receive")
    assert to_sql[0] == "run"
    assert len(to_sql) <= 8, to_sql
    above = to_sql.index("step") + 1  # the iteration itself: from there the delivery goes to the handler
    to_handler = [*handled[0][above:], "the handler"]
    assert len(to_handler) <= 6, to_handler
