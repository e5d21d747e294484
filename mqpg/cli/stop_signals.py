"""What asks a worker to stop: SIGTERM, SIGINT, or the end of its standard input."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from mqpg.connection.forking import in_child

__all__ = ["STOPPING", "SignalWaiter", "stop_on_eof", "stop_on_signals"]

logger = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT)
_GONE = "the parent process is gone"


def stop_on_signals(stop: threading.Event) -> Callable[[], None]:
    """Set `stop` on SIGTERM or SIGINT. Call it from the main thread.

    Call what it returns once modules are loaded that may have taken the signals for themselves.

    A second signal changes nothing. The handler only writes to a pipe, and a thread sets the event,
    because an event that a handler sets can deadlock with a main thread that is entering `wait()`. A
    child, such as a worker of a process pool, has the handlers from before.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def handler(signum: int, frame: FrameType | None) -> None:
        with suppress(BlockingIOError):  # full of earlier ones
            os.write(write_end, bytes([signum]))

    def take() -> None:
        for signum in STOPPING:
            signal.signal(signum, handler)

    before = {signum: signal.getsignal(signum) for signum in STOPPING}
    take()

    def restore(_: threading.Event) -> None:
        for signum, action in before.items():
            signal.signal(signum, action or signal.SIG_DFL)

    in_child(stop, restore)  # the pipe is that of the parent, which would stop in its place
    _watch(read_end, stop, "signals")
    return take


def stop_on_eof(stop: threading.Event, descriptor: int = 0) -> None:
    """Set `stop` when `descriptor` reaches its end, because the parent at its other end is gone."""
    _watch(descriptor, stop, "parent")


class SignalWaiter:
    """What an event that `stop_on_signals` sets is to others, for a process that forks and has no threads.

    With `at_eof` the end of standard input stops the process, too.
    """

    def __init__(self, at_eof: bool = False) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        self._at_eof = at_eof
        self._reason: str | None = None

    def is_set(self) -> bool:
        """Whether the process has to stop."""
        return self.wait(0)

    def wait(self, timeout: float) -> bool:
        """Wait until the process has to stop, for `timeout` seconds at most. Returns whether it has to."""
        if self._reason is None:
            caught = signal.sigtimedwait(STOPPING, timeout)
            # If the process is frozen for longer than the time-out, Python returns whatever was in its memory.
            if caught is not None and caught.si_signo in STOPPING:
                self._reason = signal.Signals(caught.si_signo).name
            elif self._at_eof and select.select([0], [], [], 0)[0] and not os.read(0, 64):
                self._reason = _GONE
            if self._reason is not None:
                logger.info("stopping", extra={"reason": self._reason})
        return self._reason is not None


def _watch(descriptor: int, stop: threading.Event, source: str) -> None:
    def wait() -> None:
        while data := os.read(descriptor, 64):
            if source == "signals":
                logger.info("stopping", extra={"reason": signal.Signals(data[0]).name})
                stop.set()
        logger.info("stopping", extra={"reason": _GONE})
        stop.set()

    threading.Thread(target=wait, name=f"mqpg-{source}", daemon=True).start()
