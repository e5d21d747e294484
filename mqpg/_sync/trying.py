# Generated from mqpg/_async/trying.py by tools/async_to_sync.py: change that file.
"""Effects in savepoints: a delivery as a whole, and when that failed, message by message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqpg._failures import Failure, RoundLost, Watchlist, is_passing
from mqpg._sync._io import Connection, DriverConnection, Handled, PgConnection
from mqpg._sync.calling import Calls, Reply, is_lost
from mqpg.errors import HandlerTimeout
from mqpg.message import Message

__all__ = ["Trial"]

After = Callable[[Any, Sequence[Message], list[Reply]], Handled]


class Trial:
    """Tries the effects of deliveries on the connection of their transaction.

    `after` belongs to the effect: it runs in the same savepoint, with what is to be replied.
    """

    def __init__(self, calls: Calls, after: After) -> None:
        self._calls = calls
        self._after = after
        self._watchlist = Watchlist()

    def apply(self, conn: PgConnection | Connection, messages: Sequence[Message]) -> tuple[list[Failure], list[Reply]]:
        """The failures, undone, and what the others want to be replied.

        Raises RoundLost, and whatever took the connection away.
        """
        failures = self._watchlist.take(messages)
        known = {failure.message.message_id for failure in failures}
        left = [message for message in messages if message.message_id not in known]
        replies: list[Reply] = []
        if not left:
            return failures, replies
        if len(left) == 1 or not self._watchlist.are_suspect(left):
            failure = self._try(conn, left, replies)
            if failure is None or len(left) == 1:
                return failures if failure is None else [*failures, failure], replies
        for message in left:
            failure = self._try(conn, [message], replies)
            failures += [] if failure is None else [failure]
        self._watchlist.clear(left)
        return failures, replies

    def _try(
        self, conn: PgConnection | Connection, messages: Sequence[Message], replies: list[Reply]
    ) -> Failure | None:
        try:
            with conn.transaction() if isinstance(conn, DriverConnection) else conn.begin_nested():
                found = self._calls(messages, conn)
                self._after(conn, messages, found)
        except Exception as error:
            if isinstance(error, HandlerTimeout) and is_lost(conn):
                self._watchlist.note(error)
                raise RoundLost from error
            if is_lost(conn) or is_passing(error):
                raise
            return Failure(messages[0], error)
        replies += found
        return None
