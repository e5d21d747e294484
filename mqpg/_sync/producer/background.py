# Generated from mqpg/_async/producer/background.py by tools/async_to_sync.py: change that file.
"""Decisions that are sent in the background: many in one call, some milliseconds after the local commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mqpg._sync._acompat import Lock, Returns, sleep, start
from mqpg._sync.client.client import Client
from mqpg._sync.producer.recovery import CONTRADICTIONS, DoneMarker
from mqpg.connection.forking import in_child
from mqpg.values.errors import Error

__all__ = ["BackgroundDecisions"]

logger = logging.getLogger("mqpg")

_LINGER = 0.01  # seconds in which decisions are collected for one call
_PATIENCE = 5.0  # seconds that `close` waits for the end of the work, which is then only a pause


class BackgroundDecisions:
    """Commits half messages whose local transactions have committed, beside their callers.

    A decision that is not sent, because of a crash or an error, is not lost: the ledger row says what
    it is, so recovery or a check-back makes it.
    """

    def __init__(self, marker: DoneMarker) -> None:
        self._marker = marker
        self._begin()
        in_child(self)

    def _begin(self) -> None:
        self._waiting: list[tuple[Client, Sequence[str]]] = []
        self._runs = False
        self._ended: Callable[[float], Returns[None]] | None = None
        self._lock = Lock()
        self._sending = Lock()

    def after_fork(self) -> None:
        """Leave what is collected to the parent."""
        self._begin()

    def add(self, mq: Client, handles: Sequence[str]) -> None:
        """Collect the half messages of one local transaction, which has committed."""
        with self._lock:
            self._waiting.append((mq, handles))
            if self._runs:
                return
            self._runs = True
            try:
                self._ended = start(self._run)
            except RuntimeError as error:  # the process can have no more threads now
                self._runs = False
                logger.warning("decisions wait for the next transaction, or for recovery: %s", error)

    def flush(self) -> bool:
        """Send what is collected, after the call that is under way. Returns whether that was anything."""
        with self._sending:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            try:
                for mq in dict.fromkeys(mq for mq, _ in waiting):
                    self._send(mq, [handle for one, handles in waiting if one is mq for handle in handles])
            except BaseException:
                # The caller is cancelled, and other callers' decisions with it. They may be sent twice.
                self._waiting[:0] = waiting
                raise
        return bool(waiting)

    def close(self) -> None:
        """Send what is collected, and wait for the end of the work in the background."""
        self.flush()
        if self._ended is not None:
            self._ended(_PATIENCE)

    def _run(self) -> None:
        try:
            while True:
                sleep(_LINGER)
                if self.flush():
                    continue
                with self._lock:
                    if not self._waiting:
                        self._runs = False
                        return
        except BaseException:
            self._runs = False
            raise

    def _send(self, mq: Client, handles: Sequence[str]) -> None:
        """Commit half messages of any number of transactions. Those of each become visible together."""
        try:
            outcomes = mq.commit_batch(handles)
        except Error as error:
            logger.warning(
                "%d half messages are committed locally, but the broker does not know yet; recovery sends the"
                " decisions: %s",
                len(handles),
                error,
            )
            return
        for handle, outcome in outcomes:
            if outcome in CONTRADICTIONS["local"]:
                logger.error("%s is committed locally, but the broker says %s", handle, outcome)
            else:
                self._marker.add(handle)
