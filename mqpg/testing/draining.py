"""The appender and the consumers, run by hand until everything is delivered."""

from __future__ import annotations

import time

import mqpg

__all__ = ["adrain", "drain"]


def drain(client: mqpg.Client, *consumers: mqpg.Consumer, wait: float = 0.0) -> int:
    """Append, and let the consumers work until nothing is left for them.

    Messages that a handler sends are delivered too. Errors of handlers are not raised, as in
    production: look at the retries and at `client.dead_letters`.

        drain(client, bill)              # everything that is visible now
        drain(client, bill, wait=2)      # and retries that are due within two seconds

    Args:
        client: A client of the broker.
        consumers: The consumers that work, in this order in every iteration.
        wait: Seconds to wait for retries and delayed messages after the last message that came.
            The default leaves them until they are due.

    Returns:
        How many messages the consumers processed, also those whose handler raised.
    """
    processed, deadline = 0, time.monotonic() + wait
    while True:
        # Asked before the pass: a retry may become due while the process stands still in its middle.
        in_time = time.monotonic() < deadline
        client.append()
        found = sum(consumer.step(client) for consumer in consumers)
        processed += found
        if found:
            deadline = time.monotonic() + wait
        elif not in_time:
            return processed
        else:
            time.sleep(0.01)


async def adrain(client: mqpg.AsyncClient, *consumers: mqpg.AsyncConsumer, wait: float = 0.0) -> int:
    """Do the same as `drain` for asynchronous consumers.

    Args:
        client: An asynchronous client of the broker.
        consumers: The consumers that work, in this order in every iteration.
        wait: Seconds to wait for retries and delayed messages after the last message that came.
            The default leaves them until they are due.

    Returns:
        How many messages the consumers processed, also those whose handler raised.
    """
    import asyncio

    processed, deadline = 0, time.monotonic() + wait
    while True:
        in_time = time.monotonic() < deadline
        await client.append()
        found = sum([await consumer.step(client) for consumer in consumers])
        processed += found
        if found:
            deadline = time.monotonic() + wait
        elif not in_time:
            return processed
        else:
            await asyncio.sleep(0.01)
