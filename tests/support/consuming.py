"""Consumers under test: messages for them, rounds until they are quiet, a consumer in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mqpg

__all__ = ["drain", "ids_of", "running", "send"]


def send(mq: mqpg.Client, numbers: Sequence[int], key: str | None = "k", **more: Any) -> list[int]:
    """Messages {"id": number} on topic orders, made visible."""
    keys = None if key is None else [key] * len(numbers)
    found = mq.send_batch("orders", [{"id": number} for number in numbers], keys=keys, **more)
    mq.append()
    return found


def ids_of(messages: Sequence[mqpg.Message]) -> list[int]:
    return [message.payload["id"] for message in messages]


def drain(consumer: mqpg.Consumer, mq: mqpg.Client) -> None:
    """Rounds, retries that fall due included."""
    quiet, empty = time.monotonic() + 0.3, 0
    while empty < 3 or time.monotonic() < quiet:
        mq.append()
        empty += 1
        if consumer.step(mq):
            quiet, empty = time.monotonic() + 0.3, 0


@contextmanager
def running(consumer: mqpg.Consumer, mq: mqpg.Client) -> Iterator[threading.Event]:
    """The consumer in a thread; stopped, drained and its error raised at the end."""
    stop, failed = threading.Event(), []

    def run() -> None:
        try:
            consumer.run(mq, stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()
    if failed:
        raise failed[0]
