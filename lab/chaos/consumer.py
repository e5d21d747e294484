"""A consumer node, `python -m lab.chaos.consumer LAYOUT NUMBER`: C1, C2 and C3 at both brokers.

Its effects are rows without any key, so an effect that happens twice is seen twice. It runs until
it is killed.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text

import mqpg
from mqpg.connection.dsn import to_sqlalchemy

from .names import C1, C2, C3, EVENTS, LEASE, RELAYS
from .producer import TROUBLE, read_layout

__all__ = ["apply_here", "consumers", "main"]

log = logging.getLogger("lab.chaos.consumer")

_COLUMNS = {
    "broker": "int",
    "queue_id": "int",
    "queue_offset": "bigint",
    "message_key": "text",
    "message_id": "bigint",
    "id": "bigint",
    "attempt": "int",
}
_INTO = f"insert into {{}} (consumer_group, topic, {', '.join(_COLUMNS)}) select {{}}, {{}}, * from unnest({{}})"
_HERE = _INTO.format("public.effect", "%s", "%s", ", ".join(f"%s::{kind}[]" for kind in _COLUMNS.values()))
_ARRAYS = ", ".join(f"cast(:{name} as {kind}[])" for name, kind in _COLUMNS.items())
_THERE = text(_INTO.format("effect", ":consumer_group", ":topic", _ARRAYS))
# A statement of a handler has no time limit of its own, so on a half-open connection it would never
# end, and its message and its queue would wait for good.
_TIMEOUT = 20.0  # seconds
_SETTINGS: dict[str, Any] = {
    "batch": True,
    "lease": LEASE,
    "retry_delay": 0.2,
    "max_attempts": 10_000,
    "timeout": _TIMEOUT,
}
_LINGER = 0.3  # seconds; the world is slow, so a fault often meets an open claim


class Unlucky(Exception):
    """A handler fails now and then."""


def _effect_rows(broker: int, messages: Sequence[mqpg.Message]) -> dict[str, list[Any]]:
    """The columns of the effects of some messages."""
    return {
        "broker": [broker] * len(messages),
        "queue_id": [one.queue_id for one in messages],
        "queue_offset": [one.queue_offset for one in messages],
        "message_key": [one.key for one in messages],
        "message_id": [one.message_id for one in messages],
        "id": [one.payload["id"] for one in messages],
        "attempt": [one.attempt for one in messages],
    }


def _there(broker: int, group: str, topic: str) -> Callable[[Sequence[mqpg.Message], Connection], None]:
    def apply(messages: Sequence[mqpg.Message], conn: Connection) -> None:
        conn.execute(_THERE, {"consumer_group": group, "topic": topic} | _effect_rows(broker, messages))
        _maybe_fail()

    return apply


def apply_here(
    broker: int, group: str, topic: str, *, fails: bool = False
) -> Callable[[Sequence[mqpg.Message], Any], None]:
    """A handler whose effects are in the broker's database (C1). `fails`: now and then."""

    def apply(messages: Sequence[mqpg.Message], conn: Any) -> None:
        conn.execute(_HERE, (group, topic, *_effect_rows(broker, messages).values()))
        if fails:
            _maybe_fail()

    return apply


def _outside(broker: int, group: str, topic: str, engine: Engine) -> Callable[[Sequence[mqpg.Message]], None]:
    def apply(messages: Sequence[mqpg.Message]) -> None:
        with engine.begin() as conn:
            _there(broker, group, topic)(messages, conn)
        time.sleep(random.random() * _LINGER)
        _maybe_fail()

    return apply


def _maybe_fail() -> None:
    if random.random() < 0.005:
        raise Unlucky("not this time")


def consumers(number: int, broker: int, engine: Engine) -> list[mqpg.Consumer]:
    """The consumers of one node at one broker.

    In C2 it has one queue of each topic. C1 and C3 share a topic with another node.

    Args:
        number: The node's number.
        broker: The broker's number.
        engine: The node's database.
    """
    found, name = [], f"consumer-{number}"
    own: dict[str, Any] = {"group": C2, "database": engine, "consumer": name, "queues": [number - 1], "journal": True}
    for topic in (*EVENTS, *RELAYS):
        c2 = mqpg.consumer(topic, max_messages=500, **own, **_SETTINGS)
        found.append(c2(_there(broker, C2, topic)))
    topic = EVENTS[number % len(EVENTS)]
    c1 = mqpg.consumer(topic, group=C1, journal=True, on_failure="block_key", max_messages=200, **_SETTINGS)
    found.append(c1(apply_here(broker, C1, topic, fails=True)))
    c3 = mqpg.consumer(topic, group=C3, effect="external", mode="shared", max_messages=100, **_SETTINGS)
    found.append(c3(_outside(broker, C3, topic, engine)))
    return found


def _run(consumer: mqpg.Consumer, mq: mqpg.Client, stop: threading.Event) -> None:
    """Run a consumer, also through errors that the faults cause."""
    while not stop.is_set():
        try:
            consumer.run(mq, stop)
        except TROUBLE as error:
            log.warning("%s: %s", type(error).__name__, " ".join(str(error).split())[:300])
            stop.wait(0.5)


def _serve(number: int, broker: int, dsn: str, engine: Engine, stop: threading.Event) -> None:
    """Run the consumers at one broker, once it can be reached."""
    while not stop.is_set():
        try:
            mq = mqpg.connect(dsn, call_timeout=8.0, pool_max_size=20)
        except TROUBLE as error:
            log.warning("broker %d: %s", broker, " ".join(str(error).split())[:200])
            stop.wait(0.3)
            continue
        for consumer in consumers(number, broker, engine):
            threading.Thread(target=_run, args=(consumer, mq, stop), daemon=True).start()
        return


def main(path: str, number: str) -> None:
    """Run the node."""
    layout, stop = read_layout(path)
    random.seed(f"{layout.seed} consumer {number}")
    engine = create_engine(to_sqlalchemy(layout.sinks[number]), pool_size=12, max_overflow=20, pool_pre_ping=True)
    for broker, dsn in enumerate(layout.brokers[f"consumer-{number}"], 1):
        threading.Thread(target=_serve, args=(int(number), broker, dsn, engine, stop), daemon=True).start()
    stop.wait()
    # What is under way ends with the process, as with any kill.


if __name__ == "__main__":
    main(*sys.argv[1:])
