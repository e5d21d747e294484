# Generated from mqpg/_async/client/maintenance.py by tools/async_to_sync.py: change that file.
"""The work of the appender and the keeper, for programs that run without a worker."""

from __future__ import annotations

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller, scalar
from mqpg.connection.statements import function

__all__ = ["Maintenance"]

_APPEND = function("append", "max_messages int", long=True)
_KEEP = function("keep", columns="*", long=True)


class Maintenance(BaseClient):
    """Calls that do the work of a worker once."""

    def append(self, max_messages: int | None = None, *, conn: Caller | None = None) -> int:
        """Make messages visible whose transactions have committed, as the appender does.

        Args:
            max_messages: About how many messages to append. The messages of one transaction are
                never split. None: all.
            conn: A READ COMMITTED transaction in which this is the first statement. None: the call
                commits at once.

        Returns:
            How many messages became visible.

        Raises:
            InvalidArgument: `max_messages` is out of range.
            WrongTransaction: The transaction of `conn` has written before, or is not READ
                COMMITTED.
            RestoredCluster: The database was restored into another cluster: run
                `mqpg migrate adopt` first.
        """
        return int(scalar(self._rows(_APPEND, {"max_messages": max_messages}, conn, repeat=True)))

    def keep(self, *, conn: Caller | None = None) -> list[tuple[object, ...]]:
        """Make, close and drop segments, as the keeper does.

        Args:
            conn: A READ COMMITTED transaction in which this is the first statement. None: the call
                commits at once.

        Returns:
            The report: rows of action, family, segment number and detail.

        Raises:
            WrongTransaction: The transaction of `conn` has written before, or is not READ
                COMMITTED.
        """
        return [tuple(row) for row in self._rows(_KEEP, {}, conn, repeat=True)]
