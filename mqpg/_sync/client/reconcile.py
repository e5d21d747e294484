# Generated from mqpg/_async/client/reconcile.py by tools/async_to_sync.py: change that file.
"""States of half messages, and the set difference for the broker's own ledger (protocol T6)."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller
from mqpg.connection.statements import function
from mqpg.values.messages import HalfState, Interval, Outcome, Unsettled

__all__ = ["Reconcile"]

_STATES = function("half_states", "handles text[]", columns="handle, state, parked, message_id, topic, key", reads=True)
_RECONCILE = function(
    "reconcile",
    "older_than interval, max_messages int, settle boolean",
    columns="handle, message_id, topic, key, state, cast(outcome as text)",
    long=True,
)


class Reconcile(BaseClient):
    """Calls that compare what ledgers say with what was decided."""

    def half_states(self, handles: Sequence[str], *, conn: Caller | None = None) -> list[HalfState]:
        """Look up the states of half messages.

        Args:
            handles: The handles. Texts that name no half message here have the state `unknown`.
            conn: The caller's transaction (psycopg or SQLAlchemy connection, or Session). None: the
                call commits at once.

        Returns:
            The states in the order of `handles`.

        Raises:
            InvalidArgument: A handle is None.
        """
        rows = self._rows(_STATES, _STATES.values(handles), conn, repeat=True)
        return [HalfState(*row) for row in rows]

    def reconcile(
        self,
        older_than: Interval = 60.0,
        max_messages: int = 1000,
        settle: bool = True,
        *,
        conn: Caller | None = None,
    ) -> list[Unsettled]:
        """Find and commit half messages that the broker's own ledger says are committed (T6).

        Reconciler does the same for ledgers in other databases.

        Args:
            older_than: Leave younger rows to their producers; a minute by default.
            max_messages: How many rows to report at most, 1 to 100000.
            settle: Commit what is undecided. False only reports it.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            What was found, and what became of it.

        Raises:
            InvalidArgument: An argument is out of range.
        """
        rows = self._rows(_RECONCILE, _RECONCILE.values(older_than, max_messages, settle), conn, repeat=True)
        return [
            Unsettled(handle, message_id, topic, key, state, None if outcome is None else Outcome(outcome))
            for handle, message_id, topic, key, state, outcome in rows
        ]
