"""Messages that were sent one by one and have no offset yet, and the appender that gives it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from . import pgbench
from .link import Link, int8
from .sides.base import bodies
from .sides.mqpg_side import APPEND

__all__ = ["append_backlog", "send_singly"]

_SENDERS = 2
# Each message is sent in a transaction of its own, without the way to the client.
_SEND = """do $do$
declare
    v_bodies text[] := array[{bodies}];
begin
    for i in 1..{count} loop
        perform mqpg.send('bench', v_bodies[1 + i % array_length(v_bodies, 1)]);
        commit;
    end loop;
end $do$"""
_SAMPLE = 0.005  # seconds between two looks at the memory of the server process


def send_singly(dsn: str, count: int) -> None:
    """Send so many messages, each in a transaction of its own."""
    texts = ", ".join(pgbench.literal(body) for body in bodies(0)[:100])
    with ThreadPoolExecutor(_SENDERS) as pool:
        shares = [count // _SENDERS + (number < count % _SENDERS) for number in range(_SENDERS)]
        list(pool.map(lambda share: _send(dsn, texts, share), shares))


def _send(dsn: str, texts: str, count: int) -> None:
    link = Link(dsn)
    try:
        link.execute("set synchronous_commit = off")  # they are not what is measured
        link.execute(_SEND.format(bodies=texts, count=count))
    finally:
        link.close()


def append_backlog(link: Link) -> tuple[float, float, dict[str, float]]:
    """Append everything that waits.

    Returns:
        Messages per second, the seconds, and the most memory of the server process ("MiB"), where
        that can be read.
    """
    link.prepare("append", APPEND)
    moved = 0
    with _memory(int(link.scalar("select pg_backend_pid()"))) as measures:
        began = time.monotonic()
        while now := int8(link.run(b"append").get_value(0, 0)):
            moved += now
        seconds = time.monotonic() - began
    return moved / seconds, seconds, measures


@contextmanager
def _memory(pid: int) -> Iterator[dict[str, float]]:
    """Sample the memory of a process of this machine without what it shares with others."""
    status = Path(f"/proc/{pid}/statm")
    measures: dict[str, float] = {}
    page = os.sysconf("SC_PAGE_SIZE") / 2**20
    stop = Event()

    def sample() -> None:
        while not stop.is_set():
            fields = status.read_text().split()
            private = (int(fields[1]) - int(fields[2])) * page
            measures["MiB"] = max(measures.get("MiB", 0.0), private)
            stop.wait(_SAMPLE)

    if not status.exists():
        yield measures
        return
    thread = Thread(target=sample)
    thread.start()
    try:
        yield measures
    finally:
        stop.set()
        thread.join()
