# Generated from mqpg/_async/trying.py by tools/async_to_sync.py: change that file.
"""Effects in savepoints: a delivery as a whole, and when that failed, message by message.

What no savepoint catches (a commit that is refused, a handler that does not come back) is found in the next rounds,
with one message in each transaction.

Where the subscription blocks on a failure (on_failure), what would overtake the failed message is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mqpg._dialects import in_transaction
from mqpg._failures import Failure, RoundLost, Watchlist, is_passing, is_refusal
from mqpg._signals import Reject
from mqpg._sync._io import Connection, DriverConnection, Handled, PgConnection, driver_connection
from mqpg._sync.caller import savepoint
from mqpg._sync.calling import Calls, Reply, is_lost
from mqpg.errors import HandlerTimeout, WrongState
from mqpg.message import Message

__all__ = ["Trial", "Tried"]

After = Callable[[Any, Sequence[Message], list[Reply]], Handled]
# What the subscription does on a failure: skip, block_key or block_queue; asked where there is one.
Policy = Callable[[Any], Any]

_RETRY_LANE = -1


@dataclass(slots=True)
class Tried:
    """What came of a delivery: what took effect; the failures, undone; what must wait behind them; what to reply."""

    applied: list[Message] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    policy: str = "skip"

    @property
    def left(self) -> int:
        """How many messages are not to be acknowledged."""
        return len(self.failures) + len(self.held)

    @property
    def blocker(self) -> Message | None:
        """The first message of a queue that nothing may overtake."""
        blocking = [f.message for f in self.failures if not isinstance(f.error, Reject)]
        return blocking[0] if blocking and self.policy == "block_queue" else None

    def holds(self, message: Message) -> bool:
        """Whether an earlier failure blocks this message's way."""
        blocking = [f.message for f in self.failures if not isinstance(f.error, Reject)]
        if self.policy == "block_key":
            return message.key is not None and any(one.key == message.key for one in blocking)
        return self.policy == "block_queue" and bool(blocking)


class Trial:
    """Tries the effects of deliveries on the connection of their transaction.

    `after` belongs to the effect: it runs in the same savepoint, with what is to be replied.
    """

    def __init__(self, calls: Calls, after: After, policy: Policy) -> None:
        self._calls = calls
        self._after = after
        self._policy = policy
        self._watchlist = Watchlist()

    def chosen(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What of a delivery is tried in one transaction: all, or the first where it is sought who spoils them."""
        return messages[:1] if self._watchlist.are_suspect(messages) else messages

    def blame(self, applied: Sequence[Message], error: Exception) -> None:
        """A transaction with these effects ended so. Raises RoundLost where it was refused because of them."""
        if applied and is_refusal(error):
            self._watchlist.blame(applied, error)
            raise RoundLost from error

    def apply(self, conn: PgConnection | Connection, messages: Sequence[Message]) -> Tried:
        """Raises RoundLost, and whatever took the connection away."""
        tried = Tried()
        known = {failure.message.message_id: failure for failure in self._watchlist.take(messages)}
        if messages and not known:
            failure = self._try(conn, messages, tried)
            if failure is None:
                self._watchlist.clear(messages)
                return tried
            known = {failure.message.message_id: failure} if len(messages) == 1 else {}
        if messages and messages[0].queue_id != _RETRY_LANE:
            tried.policy = self._policy(conn)
        for message in messages:
            if tried.holds(message):
                tried.held.append(message)
                continue
            failure = known.get(message.message_id) or self._try(conn, [message], tried)
            tried.failures += [] if failure is None else [failure]
        self._watchlist.clear(messages)
        return tried

    def _try(self, conn: PgConnection | Connection, messages: Sequence[Message], tried: Tried) -> Failure | None:
        try:
            with savepoint(conn):
                found = self._calls(messages, conn)
                _check_alive(conn)
                self._after(conn, messages, found)
        except Exception as error:
            if isinstance(error, HandlerTimeout) and is_lost(conn):
                self._watchlist.note(error)
                raise RoundLost from error
            if is_lost(conn) or is_passing(error):
                raise
            return Failure(messages[0], error)
        tried.applied += messages
        tried.replies += found
        return None


def _check_alive(conn: PgConnection | Connection) -> None:
    """A handler may have swallowed an error that aborted the transaction; a savepoint's release would not undo it."""
    driver = conn if isinstance(conn, DriverConnection) else driver_connection(conn)
    if in_transaction(driver) is False:
        raise WrongState("a statement had failed and aborted the transaction, but the handler went on")
