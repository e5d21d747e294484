"""Consumers under test: messages for them, iterations until nothing is left, a consumer in a
thread.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mqpg
from mqpg.testing import draining

__all__ = ["drain", "ids_of", "is_acknowledged", "running", "send", "sent", "sent_batch"]

_QUIET = 0.3  # seconds after the last message in which a message may still come
_PATIENCE = 5.0  # the same while the group has not finished all: a slow machine takes longer


def send(mq: mqpg.Client, numbers: Sequence[int], key: str | None = "k", **more: Any) -> list[int]:
    """Send messages {"id": number} on topic orders and append them."""
    keys = None if key is None else [key] * len(numbers)
    found = mq.send_batch("orders", [{"id": number} for number in numbers], keys=keys, **more)
    mq.append()
    return found


def sent(mq: mqpg.Client, *message: Any, **more: Any) -> int:
    """Send a message, and append it."""
    found = mq.send(*message, **more)
    mq.append()
    return found


def sent_batch(mq: mqpg.Client, *messages: Any, **more: Any) -> list[int]:
    """Send messages, and append them."""
    found = mq.send_batch(*messages, **more)
    mq.append()
    return found


def ids_of(messages: Sequence[mqpg.Message]) -> list[int]:
    return [message.payload["id"] for message in messages]


def drain(consumer: mqpg.Consumer, mq: mqpg.Client) -> None:
    """Run iterations until nothing is left, including retries that become due.

    What the consumer cannot have, such as what its other instances hold, ends it after some seconds
    without a message.
    """
    last = time.monotonic()
    while True:
        if draining.drain(mq, consumer, wait=_QUIET):
            last = time.monotonic()
        finished = is_acknowledged(mq, consumer.options.group) and not retries_soon(mq, consumer.options.group)
        if finished or time.monotonic() >= last + _PATIENCE:
            return


def retries_soon(mq: mqpg.Client, group: str) -> bool:
    """Whether a retry is about to come."""
    with mq.transaction() as conn:
        query = """
            select from mqpg_audit.delayed
            where consumer_group = %s and not is_due and due_at < clock_timestamp() + interval '0.5 s'
        """
        return conn.execute(query, [group]).fetchone() is not None


def is_acknowledged(mq: mqpg.Client, group: str) -> bool:
    """Whether the group has acknowledged all messages of its topics."""
    with mq.transaction() as conn:
        row = conn.execute("select sum(lag) from mqpg.subscription_lag where consumer_group = %s", [group]).fetchone()
    return row is not None and row[0] == 0


@contextmanager
def running(consumer: mqpg.Consumer, mq: mqpg.Client) -> Iterator[threading.Event]:
    """Run the consumer in a thread.

    At the end it is stopped and drained, and its error is raised.
    """
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
