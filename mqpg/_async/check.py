"""Check-back of overdue half messages (protocol T3)."""

from __future__ import annotations

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._sql import function, statement
from mqpg.errors import ConfigurationError
from mqpg.message import HalfCheck, Interval, Outcome, Verdict, interval

__all__ = ["Checking"]

_DUE_CHECKS = function(
    "due_checks",
    "producer_group text, max_messages int, lease interval",
    columns="handle, topic, key, cast(headers as text), cast(payload as text), attempt",
)
_CHECK_WAIT = function("check_wait", "handle text, retry_after interval")
_COMPENSATE = function("compensate", "max_messages int")
_SETTLE = function("settle", "handle text, verdict mqpg.verdict, reason text")
_CHECKER = statement("select g.checker from mqpg.producer_group g where g.name = cast(%(name)s as text)")
_REARM = function("rearm", "handle text")


class Checking(Core):
    """Calls of a compensator, or of an app that answers for its own half messages."""

    async def due_checks(
        self,
        producer_group: str,
        max_messages: int = 100,
        lease: Interval = 30.0,
        *,
        conn: Caller | None = None,
    ) -> list[HalfCheck]:
        """Overdue half messages of a group to answer for, with commit, rollback or check_wait, within `lease`.

        With `conn`: the first statement of a READ COMMITTED transaction, else WrongTransaction.
        """
        values = {"producer_group": producer_group, "max_messages": max_messages, "lease": interval(lease)}
        return [HalfCheck.from_row(tuple(row)) for row in await self._rows(_DUE_CHECKS, values, conn, repeat=True)]

    async def check_wait(self, handle: str, retry_after: Interval | None = None, *, conn: Caller | None = None) -> None:
        """Answer "not known yet": not counted as a check, asked again after a while. Raises UnknownHandle."""
        values = {"handle": handle, "retry_after": interval(retry_after)}
        await self._rows(_CHECK_WAIT, values, conn, repeat=True)

    async def compensate(self, max_messages: int = 100, *, conn: Caller | None = None) -> int:
        """One pass over overdue half messages that SQL can answer; returns how many it looked at.

        With `conn`: the first statement of a READ COMMITTED transaction, else WrongTransaction.
        """
        return int(await self._value(_COMPENSATE, {"max_messages": max_messages}, conn, repeat=True))

    async def settle(self, handle: str, verdict: Verdict | str, reason: str, *, conn: Caller | None = None) -> Outcome:
        """Decide a parked or open half message by hand; the reason is kept, the first decision stands."""
        values = {"handle": handle, "verdict": str(verdict), "reason": reason}
        return Outcome(await self._value(_SETTLE, values, conn, repeat=True))

    async def rearm(self, handle: str, *, conn: Caller | None = None) -> None:
        """Have a parked half message checked again. Raises UnknownHandle, WrongState."""
        await self._rows(_REARM, {"handle": handle}, conn)

    async def _require_checker(self, group: str, *allowed: str) -> None:
        """Refuse a group that is asked about in a ledger where its producer writes nothing. Looked at once.

        What is not in a ledger is rolled back, so a message would be lost whose business has been committed. Raises
        ConfigurationError.
        """
        if (group, allowed) in self._checked:
            return
        checker = await self._value(_CHECKER, {"name": group}, repeat=True)
        if checker is None:  # `prepare` says so
            return
        if checker not in allowed:
            raise ConfigurationError(
                f"producer group {group!r} has checker {checker}, which looks where this producer writes nothing: "
                f"it needs {', '.join(allowed[:-1])} or {allowed[-1]}"
            )
        self._checked.add((group, allowed))
