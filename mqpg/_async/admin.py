"""Producer groups, and the passes that workers run."""

from __future__ import annotations

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._sql import function
from mqpg.message import Interval, interval

__all__ = ["Administering"]

_GROUP = (
    "producer_group text, check_after interval, max_checks int, on_exhausted text, checker text, checker_target text"
)
_CREATE_GROUP = function("create_producer_group", _GROUP)
_ALTER_GROUP = function("alter_producer_group", _GROUP)
_DROP_GROUP = function("drop_producer_group", "producer_group text")
_APPEND = function("append", "max_messages int")
_KEEP = function("keep", columns="*")


class Administering(Core):
    """Creating a group again with the same arguments changes nothing; with others: AlreadyDefined."""

    async def create_producer_group(
        self,
        producer_group: str,
        check_after: Interval = 60.0,
        max_checks: int = 15,
        on_exhausted: str = "park",
        checker: str = "due_checks",
        checker_target: str | None = None,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Create a producer group: when its half messages are overdue, and who answers for them (T3)."""
        values = {
            "producer_group": producer_group,
            "check_after": interval(check_after),
            "max_checks": max_checks,
            "on_exhausted": on_exhausted,
            "checker": checker,
            "checker_target": checker_target,
        }
        await self._rows(_CREATE_GROUP, values, conn, repeat=True)

    async def alter_producer_group(
        self,
        producer_group: str,
        *,
        check_after: Interval | None = None,
        max_checks: int | None = None,
        on_exhausted: str | None = None,
        checker: str | None = None,
        checker_target: str | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change what is given. Raises UnknownProducerGroup."""
        values = {
            "producer_group": producer_group,
            "check_after": interval(check_after),
            "max_checks": max_checks,
            "on_exhausted": on_exhausted,
            "checker": checker,
            "checker_target": checker_target,
        }
        await self._rows(_ALTER_GROUP, values, conn, repeat=True)

    async def drop_producer_group(self, producer_group: str, *, conn: Caller | None = None) -> None:
        """Drop a producer group that has no undecided half messages."""
        await self._rows(_DROP_GROUP, {"producer_group": producer_group}, conn)

    async def append(self, max_messages: int | None = None, *, conn: Caller | None = None) -> int:
        """One pass of the appender; returns how many messages it made visible.

        With `conn`: the first statement of a READ COMMITTED transaction, else WrongTransaction.
        """
        return int(await self._value(_APPEND, {"max_messages": max_messages}, conn, repeat=True))

    async def keep(self, *, conn: Caller | None = None) -> list[tuple[object, ...]]:
        """One pass of the keeper over the segments; returns its report. `conn` as for `append`."""
        return [tuple(row) for row in await self._rows(_KEEP, {}, conn, repeat=True)]
