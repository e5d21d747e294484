"""Appender and consumers by hand: everything that can be delivered is."""

from __future__ import annotations

import time

import mqpg

__all__ = ["adrain", "drain"]


def drain(client: mqpg.Client, *consumers: mqpg.Consumer, wait: float = 0.0) -> int:
    """Append, and have the consumers work until nothing is left for them; returns how many messages they settled.

    What a handler sends is delivered too. Retries and delayed messages are left until they are due; `wait` is
    for how many seconds to wait for such ones after the last that came. Errors of handlers are not raised, as in
    production: look at the retries and `client.dead_letters`.
    """
    settled, give_up = 0, time.monotonic() + wait
    while True:
        client.append()
        found = sum(consumer.step(client) for consumer in consumers)
        settled += found
        if found:
            give_up = time.monotonic() + wait
        elif time.monotonic() >= give_up:
            return settled
        else:
            time.sleep(0.01)


async def adrain(client: mqpg.AsyncClient, *consumers: mqpg.AsyncConsumer, wait: float = 0.0) -> int:
    """The same for asynchronous consumers."""
    import asyncio

    settled, give_up = 0, time.monotonic() + wait
    while True:
        await client.append()
        found = sum([await consumer.step(client) for consumer in consumers])
        settled += found
        if found:
            give_up = time.monotonic() + wait
        elif time.monotonic() >= give_up:
            return settled
        else:
            await asyncio.sleep(0.01)
