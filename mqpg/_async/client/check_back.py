"""The check-back of overdue half messages (protocol T3)."""

from __future__ import annotations

from mqpg._async.client.connection import BaseClient
from mqpg._async.client.execute import Caller, scalar
from mqpg.connection.statements import function
from mqpg.values.arguments import handle_of
from mqpg.values.choices import Decision
from mqpg.values.errors import InvalidArgument, shown
from mqpg.values.messages import HalfCheck, Interval, Outcome, Verdict

__all__ = ["CheckBack"]

_DUE_CHECKS = function(
    "due_checks",
    "producer_group text, max_messages int, lease interval",
    columns="handle, topic, key, cast(headers as text), cast(payload as text), attempt",
)
_CHECK_WAIT = function("check_wait", "handle text, retry_after interval")
_COMPENSATE = function("compensate", "max_messages int", long=True)
_SETTLE = function("settle", "handle text, verdict mqpg.verdict, reason text")
_REARM = function("rearm", "handle text")


class CheckBack(BaseClient):
    """Calls of a compensator, and of an application that answers for its own half messages."""

    async def due_checks(
        self,
        producer_group: str,
        max_messages: int = 100,
        lease: Interval = 30.0,
        *,
        conn: Caller | None = None,
    ) -> list[HalfCheck]:
        """Take overdue half messages of a group, to answer for each one (protocol T3).

        The answer is `commit`, `rollback` or `check_wait`. A half message that is not answered
        within `lease` is handed out again, and the missing answer counts as one check.

        Args:
            producer_group: The group whose half messages are asked about.
            max_messages: How many to take at most, 1 to 10000.
            lease: How long the answers may take, 30 seconds by default.
            conn: A READ COMMITTED transaction in which this is the first statement. None: the call
                commits at once.

        Returns:
            The overdue half messages with their payloads; an empty list where none is overdue.

        Raises:
            UnknownProducerGroup: There is no such producer group.
            InvalidArgument: An argument is out of range.
            WrongTransaction: The transaction of `conn` has written before, or is not READ
                COMMITTED.
        """
        values = _DUE_CHECKS.values(producer_group, max_messages, lease)
        return [HalfCheck._from_row(tuple(row)) for row in await self._rows(_DUE_CHECKS, values, conn, repeat=True)]

    async def check_wait(self, handle: str, retry_after: Interval | None = None, *, conn: Caller | None = None) -> None:
        """Answer a check-back with "not known yet" (protocol T3).

        Args:
            handle: The handle that `due_checks` handed out.
            retry_after: How long to wait before the half message is handed out again. None: the
                group's `check_after`, doubled with each check.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownHandle: The handle names no half message of this broker.
            WrongState: The half message is not handed out.
        """
        await self._rows(_CHECK_WAIT, _CHECK_WAIT.values(handle, retry_after), conn, repeat=True)

    async def compensate(self, max_messages: int = 100, *, conn: Caller | None = None) -> int:
        """Decide overdue half messages that the broker itself can answer for (protocol T3).

        These are the half messages of groups with the checker `ledger` or `function`.

        Args:
            max_messages: How many to ask about at most, 1 to 10000.
            conn: A READ COMMITTED transaction in which this is the first statement. None: the call
                commits at once.

        Returns:
            How many half messages were asked about.

        Raises:
            InvalidArgument: An argument is out of range.
            WrongTransaction: The transaction of `conn` has written before, or is not READ
                COMMITTED.
        """
        return int(scalar(await self._rows(_COMPENSATE, {"max_messages": max_messages}, conn, repeat=True)))

    async def settle(
        self, handle: str, verdict: Verdict | Decision, reason: str, *, conn: Caller | None = None
    ) -> Outcome:
        """Decide a half message by hand, whether it is parked or still open.

        Args:
            handle: The handle of the half message.
            verdict: Verdict.COMMIT or Verdict.ROLLBACK, or "commit" or "rollback".
            reason: Why it was decided so. The decision keeps it.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            What the decision came to. The first decision stands; UNKNOWN where the handle names no
            half message here.

        Raises:
            InvalidArgument: `handle` is no text, the verdict is `wait`, or the reason is None.
        """
        if not isinstance(verdict, str):
            raise InvalidArgument(f"verdict must be commit or rollback, not {shown(verdict)}")
        values = _SETTLE.values(handle_of(handle), str(verdict), reason)
        return Outcome(scalar(await self._rows(_SETTLE, values, conn, repeat=True)))

    async def rearm(self, handle: str, *, conn: Caller | None = None) -> None:
        """Check a parked half message back again, and count its checks from 0.

        Args:
            handle: The handle of the half message.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownHandle: The handle names no half message of this broker.
            WrongState: The half message is not parked.
        """
        await self._rows(_REARM, {"handle": handle}, conn)
