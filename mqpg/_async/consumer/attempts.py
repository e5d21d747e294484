"""Effects in savepoints: a delivery as a whole and, where that failed, in parts.

A handler of batches gets halves, and halves of these, until each message that fails is alone. One
bad message among n then costs about 2 log₂ n calls. A handler of single messages gets one message
in each savepoint, because halves would repeat what it does.

A savepoint does not help where a commit is refused, or where a handler does not return. The message
that causes that is found in the next iterations, with one message in each transaction. Where the
subscription blocks on a failure (`on_failure`), messages that would overtake the failed one are not
tried.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from mqpg._async._acompat import (
    DriverConnection,
    PgConnection,
    Returns,
    cancellations,
    driver_connection,
    finish,
    is_cancelled,
)
from mqpg._async.client.execute import current_xid, savepoint
from mqpg._async.consumer.call_handler import HandlerInvoker, Reply, is_lost
from mqpg._async.consumer.relay_inbox import RelayInbox
from mqpg.connection.lent import ENDED_SAVEPOINT, LEFT_OPEN, REFUSED, Lent, lent
from mqpg.handlers.failures import (
    Failure,
    InboxFailed,
    IterationLost,
    TransactionEnded,
    Watchlist,
    decisive,
    ends_process,
    is_commit_refusal,
    is_transient,
)
from mqpg.handlers.outcomes import Reject
from mqpg.user_tables.drivers import (
    block_depth,
    has_failed,
    in_transaction,
    is_busy,
    is_full,
    is_of_another,
    is_out_of_reach,
    is_savepoint_gone,
    knows_failures,
    was_deadlock,
)
from mqpg.values.choices import OnFailure
from mqpg.values.errors import WrongState
from mqpg.values.messages import RETRY_LANE, Message
from mqpg.values.translation import translate

if TYPE_CHECKING:
    from mqpg._async._acompat import Connection

__all__ = ["AfterEffect", "AskOnFailure", "DeliveryResult", "SavepointRunner", "what_stands"]

_ABORTED = "a statement had failed and aborted the transaction, but the handler continued"

# What runs in the savepoint after the effect, on the connection of the effect: journal and replies.
AfterEffect = Callable[[Any, Sequence[Message], list[Reply]], Returns[None]]
# Asks the broker for the subscription's `on_failure`, after a failure.
AskOnFailure = Callable[[], Returns[OnFailure]]


@dataclass(slots=True)
class DeliveryResult:
    """What came of a delivery."""

    applied: list[Message] = field(default_factory=list)  # messages whose effects took place
    failures: list[Failure] = field(default_factory=list)  # messages whose effects were undone
    waiting: list[Message] = field(default_factory=list)  # messages that must wait behind a failed one
    replies: list[Reply] = field(default_factory=list)  # the replies to send
    on_failure: OnFailure = "skip"  # what the subscription does on a failure, as it was when this delivery failed
    called: list[Message] = field(default_factory=list)  # messages that the handler was called with, however it ended

    @property
    def unacknowledged(self) -> int:
        """How many messages must not be acknowledged."""
        return len(self.failures) + len(self.waiting)

    def end_process(self) -> None:
        """Raise what a handler raised to end the process, once its attempt is counted."""
        for failure in self.failures:
            if ends_process(failure.error):
                raise failure.error

    @property
    def blocker(self) -> Message | None:
        """The first failed message, where nothing of its queue may overtake it."""
        blocking = self._blocking()
        return blocking[0] if blocking and self.on_failure == "block_queue" else None

    def blocks(self, message: Message) -> bool:
        """Whether this message must wait behind an earlier failure."""
        blocking = self._blocking()
        if self.on_failure == "block_key":
            return message.key is not None and any(one.key == message.key for one in blocking)
        return self.on_failure == "block_queue" and bool(blocking)

    def _blocking(self) -> list[Message]:
        return [failure.message for failure in self.failures if not isinstance(failure.error, Reject)]


@dataclass(slots=True)
class _Attempt:
    """One call of the handler in a savepoint."""

    conn: PgConnection | Connection
    driver: Any  # the driver's connection
    messages: Sequence[Message]
    given: Lent = field(default_factory=Lent)
    called: bool = False  # whether the handler was called
    foreign: bool = False  # whether its error is none of this transaction
    kept: bool = False  # whether only the end of the savepoint was left to do

    @contextmanager
    def lends(self) -> Generator[None]:
        """Lend the connection to the handler, which must leave the transaction and the savepoint as they are."""
        self.given.depth = block_depth(self.driver)
        try:
            with lent(self.conn, self.given):
                yield
        except BaseException as error:
            self.foreign = _is_whole(self.conn, self.driver) is True or is_of_another(decisive(error), self.driver)
            raise
        _require_alive(self.driver, self.given)


class SavepointRunner:
    """Runs the effects of deliveries on the connection of their transaction."""

    def __init__(self, invoke: HandlerInvoker, inbox: RelayInbox) -> None:
        self._invoke = invoke
        self._inbox = inbox
        self._watchlist = Watchlist()

    def choose(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The whole delivery, or only its first message while looking for the one that fails."""
        return messages[:1] if self._watchlist.are_suspect(messages) else messages

    def blame(self, applied: Sequence[Message], error: Exception) -> None:
        """Note that a transaction with these effects ended with this error.

        Raises IterationLost where the database refused the commit because of the effects.
        """
        if applied and is_commit_refusal(error):
            self._watchlist.add(applied, error)
            raise IterationLost from error

    def suspect(self, messages: Sequence[Message], error: Exception) -> None:
        """Note that the transaction was rolled back because of what the handler did for these messages."""
        self._watchlist.add(messages, error)

    async def run(
        self,
        conn: PgConnection | Connection,
        messages: Sequence[Message],
        *,
        after: AfterEffect,
        ask_on_failure: AskOnFailure,
    ) -> DeliveryResult:
        """Try the effects of some messages.

        Raises IterationLost, and the error that took the connection away.
        """
        result = DeliveryResult()
        known = {failure.message.message_id: failure for failure in self._watchlist.take(messages)}
        if messages and not known:
            failure = await self._attempt(conn, messages, result, after)
            if failure is None:
                self._watchlist.clear(messages)
                return result
            known = {failure.message.message_id: failure} if len(messages) == 1 else {}
        if messages and messages[0].queue_id != RETRY_LANE:
            result.on_failure = await ask_on_failure()
        singly = bool(known) or not self._invoke.takes_batches
        parts = [[message] for message in messages] if singly else _halves(messages)
        await self._narrow(conn, parts, known, result, after)
        self._watchlist.clear(messages)
        return result

    async def _narrow(
        self,
        conn: PgConnection | Connection,
        parts: Sequence[Sequence[Message]],
        known: Mapping[int, Failure],
        result: DeliveryResult,
        after: AfterEffect,
    ) -> None:
        """Try parts of a delivery in their order, and halve those that fail.

        What must wait behind a failed message is taken out of the parts that follow it.
        """
        pending = list(reversed(parts))
        while pending:
            part = pending.pop()
            result.waiting += [message for message in part if result.blocks(message)]
            part = [message for message in part if not result.blocks(message)]
            if not part:
                continue
            failure = known.get(part[0].message_id) or await self._attempt(conn, part, result, after)
            if failure is None:
                continue
            if len(part) == 1:
                result.failures.append(failure)
            else:
                pending += reversed(_halves(part))

    async def _attempt(
        self, conn: PgConnection | Connection, messages: Sequence[Message], result: DeliveryResult, after: AfterEffect
    ) -> Failure | None:
        """Run the effects of these messages in one savepoint.

        The inbox of a relay topic is part of the savepoint: a PREPARE that was taken from it for an
        effect is back after the effect was undone.

        A message that was handed to the handler and did not come back has used up an attempt,
        whatever ended the handler or the session.
        """
        driver = conn if isinstance(conn, DriverConnection) else await driver_connection(conn)
        attempt = _Attempt(conn, driver, messages)
        before = cancellations()
        try:
            async with savepoint(conn):
                admitted = await self._inbox.admit(messages, conn)
                attempt.called = bool(admitted)
                result.called += messages if admitted else []
                with attempt.lends():
                    replies = await self._invoke(admitted, conn, partial(_has_ended, conn, driver, attempt.given))
                await self._note(conn, messages, replies, after, admitted)
                attempt.kept = True
        except BaseException as raised:
            if is_cancelled(before):
                raise
            error = decisive(raised)
            if is_busy(error) and not isinstance(conn, DriverConnection):
                await conn.invalidate()  # nothing else can be done on it
            end = self._end_of_transaction(attempt, error, result)
            if end is error:
                raise
            if end is not None:
                raise end from error
            return Failure(messages[0], error)
        result.applied += messages
        result.replies += replies
        return None

    async def _note(
        self,
        conn: PgConnection | Connection,
        messages: Sequence[Message],
        replies: list[Reply],
        after: AfterEffect,
        admitted: Sequence[Message],
    ) -> None:
        """Write journal and replies. A PREPARE that failed here would be overtaken by its COMMIT."""
        try:
            await after(conn, messages, replies)
        except Exception as error:
            if admitted:
                raise
            raise InboxFailed(f"journal of a relay topic: {translate(error)}") from error

    def _end_of_transaction(
        self, attempt: _Attempt, error: BaseException, result: DeliveryResult
    ) -> BaseException | None:
        """What to raise after an error, if more than the savepoint has ended. None: the savepoint has undone it."""
        conn, driver, given = attempt.conn, attempt.driver, attempt.given
        called = attempt.messages if attempt.called else []
        if len(called) > 1 and ends_process(error):
            self._watchlist.add(called, error)
            return error
        if given.taken and given.by is not None:
            return _ended(given, attempt.messages, result)
        if called and is_lost(conn):
            self._watchlist.add(called, error)
            return IterationLost()
        if is_full(error) and not attempt.foreign:  # SQLite has rolled the whole transaction back by itself
            return error
        if is_savepoint_gone(error) and _is_whole(conn, driver) is not True:  # that of an engine of the handler
            return self._undone_by_server(error, given, called, result)
        if given.by is not None and given.lost_savepoint and in_transaction(driver):
            self._watchlist.add(given.by, error)  # nothing undoes a part of the transaction any more
            return IterationLost()
        if given.by is not None or (called and _is_whole(conn, driver) is False):
            return _ended(given, attempt.messages, result)
        if isinstance(error, InboxFailed) and result.called and is_out_of_reach(error.__cause__ or error):
            self._watchlist.add(result.called, error)  # the inbox was in reach before their handlers
            return IterationLost()
        if is_lost(conn) or (is_transient(error) and not attempt.foreign):
            return error
        if attempt.kept:  # asyncpg does not know that the handler went on after a statement had failed
            self._watchlist.add(called, WrongState(_ABORTED))
            return IterationLost()
        return None

    def _undone_by_server(
        self, error: BaseException, given: Lent, called: Sequence[Message], result: DeliveryResult
    ) -> Exception:
        """What to raise where the database no longer has the savepoint: what follows would be another transaction.

        The victim of a deadlock is rolled back as a whole. Without one, or if the handler swallowed it, nobody
        knows whether the transaction was committed, as a procedure does that creates a table, or a call of the driver.
        """
        if not called or was_deadlock(error):
            if called:
                self._watchlist.add(called, error)
            return IterationLost()
        return _ended(given, called, result)


def what_stands(ended: TransactionEnded) -> DeliveryResult:
    """What came of a delivery whose transaction a handler has ended, and that was not rolled back.

    The effects in it stay. Those of other messages are done, and the message whose handler did it
    becomes a dead letter. If it is not known whether it was committed, all of them do.
    """
    reason = Reject(f"{ended}: its effect may be committed, and is not done again")
    blamed = ended.messages if ended.xid is not None else [*ended.before, *ended.messages]
    failures = ended.failures + [Failure(message, reason) for message in blamed]
    return DeliveryResult([] if ended.xid is None else ended.before, failures)


def _halves(messages: Sequence[Message]) -> list[Sequence[Message]]:
    middle = len(messages) // 2
    return [messages[:middle], messages[middle:]]


def _is_whole(conn: PgConnection | Connection, driver: Any) -> bool | None:
    """Whether the transaction is open, and no statement of it has failed. None: the driver does not know."""
    if is_lost(conn):
        return False
    return in_transaction(driver) if knows_failures(driver) else None


async def _has_ended(conn: PgConnection | Connection, driver: Any, given: Lent, messages: Sequence[Message]) -> bool:
    """Whether the handler, called with these messages, has ended the transaction that was lent. Notes it."""
    given.savepoints.clear()
    given.restore()
    if is_lost(conn):
        return False
    if block_depth(driver) != given.depth:  # nothing else can be done on it, and some calls would wait for ever
        given.taken = LEFT_OPEN
    elif given.is_forgotten() or given.is_returned():
        given.taken = REFUSED
        if given.is_returned() and not given.is_guarded:
            given.by = messages  # it may have been committed before that
    if given.taken:
        if isinstance(conn, DriverConnection):
            await conn.close()
        else:
            await conn.invalidate()
        if given.by is not None:  # SQLAlchemy may have let go of it without an end, and with its locks
            with suppress(Exception):
                await finish(driver.close())
        return True
    ended = given.lost_savepoint or (in_transaction(driver) is False and not has_failed(driver))
    if not ended and given.xid is not None and in_transaction(driver):
        ended = await current_xid(conn) != given.xid
    if ended:
        given.by = messages
    return ended


def _ended(given: Lent, messages: Sequence[Message], result: DeliveryResult) -> TransactionEnded:
    """What is known of a transaction that is gone, and of the effects in it."""
    blamed = given.by or messages
    before = [one for one in messages if one.queue_offset < blamed[0].queue_offset]
    return TransactionEnded(blamed, given.xid, [*result.applied, *before], list(result.failures))


def _require_alive(driver: Any, given: Lent) -> None:
    """Raise WrongState where the handler swallowed an error that aborted the transaction, or ended it.

    Releasing the savepoint would not undo what the handler did before that error.
    """
    if given.taken:
        raise WrongState(given.taken)
    if given.lost_savepoint:
        raise WrongState(ENDED_SAVEPOINT)
    if given.by is not None or in_transaction(driver) is False:
        raise WrongState(_ABORTED)
