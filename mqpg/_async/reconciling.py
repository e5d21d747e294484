"""Reconciliation as calls of the client: half states, and the set difference for the ledger at the broker (T6)."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._async.produce import listed
from mqpg._sql import function
from mqpg.message import HalfState, Interval, Outcome, Unsettled, interval

__all__ = ["Reconciling"]

_STATES = function("half_states", "handles text[]", columns="handle, state, parked, message_id, topic, key")
_RECONCILE = function(
    "reconcile",
    "older_than interval, max_messages int, settle boolean",
    columns="handle, message_id, topic, key, state, cast(outcome as text)",
)


class Reconciling(Core):
    """Calls that compare what was promised with what was decided."""

    async def half_states(self, handles: Sequence[str], *, conn: Caller | None = None) -> list[HalfState]:
        """What became of half messages, in argument order.

        `forgotten` was decided so long ago that the decision is dropped; whatever names no half here is `unknown`.
        """
        rows = await self._rows(_STATES, {"handles": listed(handles, "handles")}, conn, repeat=True)
        return [HalfState(*row) for row in rows]

    async def reconcile(
        self,
        older_than: Interval = 60.0,
        max_messages: int = 1000,
        settle: bool = True,
        *,
        conn: Caller | None = None,
    ) -> list[Unsettled]:
        """Find what the ledger in the broker's database committed and no commit decided, and commit it.

        AsyncReconciler does the same for ledgers elsewhere.
        """
        values = {"older_than": interval(older_than), "max_messages": max_messages, "settle": settle}
        rows = await self._rows(_RECONCILE, values, conn, repeat=True)
        return [
            Unsettled(handle, message_id, topic, key, state, None if outcome is None else Outcome(outcome))
            for handle, message_id, topic, key, state, outcome in rows
        ]
