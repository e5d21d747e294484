"""What asks a worker to stop: SIGTERM, SIGINT, or the end of its standard input."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress
from types import FrameType

__all__ = ["stop_on_eof", "stop_on_signals"]

logger = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` on SIGTERM or SIGINT. Call it from the main thread.

    A second signal changes nothing. The handler only writes to a pipe, and a thread sets the event,
    because an event that a handler sets can deadlock with a main thread that is entering `wait()`.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def handler(signum: int, frame: FrameType | None) -> None:
        with suppress(BlockingIOError):  # full of earlier ones
            os.write(write_end, bytes([signum]))

    for signum in STOPPING:
        signal.signal(signum, handler)
    _watch(read_end, stop, "signals")


def stop_on_eof(stop: threading.Event, descriptor: int = 0) -> None:
    """Set `stop` when `descriptor` reaches its end, because the parent at its other end is gone."""
    _watch(descriptor, stop, "parent")


def _watch(descriptor: int, stop: threading.Event, source: str) -> None:
    def wait() -> None:
        while data := os.read(descriptor, 64):
            if source == "signals":
                logger.info("stopping", extra={"reason": signal.Signals(data[0]).name})
                stop.set()
        logger.info("stopping", extra={"reason": "the parent process is gone"})
        stop.set()

    threading.Thread(target=wait, name=f"mqpg-{source}", daemon=True).start()
