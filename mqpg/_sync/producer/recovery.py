# Generated from mqpg/_async/producer/recovery.py by tools/async_to_sync.py: change that file.
"""Marking ledger rows done, and sending decisions again (protocol T2, steps 4 and 5)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta

from mqpg._sync._acompat import Lock
from mqpg._sync.client.client import Client
from mqpg._sync.producer.prepare_again import find_lost, prepare_again
from mqpg._sync.stores.ledger import Ledger, OpenRow
from mqpg.connection.forking import in_child
from mqpg.values.errors import ConnectionFailed, DatabaseError, Error
from mqpg.values.messages import LostHalf, Outcome

__all__ = ["CONTRADICTIONS", "DoneMarker", "Recovery"]

logger = logging.getLogger("mqpg")

# Outcomes that contradict a ledger row. Such a row stays open as evidence, and recovery logs it
# every time.
CONTRADICTIONS = {
    "local": (Outcome.UNKNOWN, Outcome.ALREADY_ROLLED_BACK),
    "fence": (Outcome.ALREADY_COMMITTED,),
}


_MOST, _SECONDS = 100, 1.0  # handles, and time, after which they are marked


class DoneMarker:
    """Collects handles whose decisions have arrived, and marks their ledger rows in batches.

    A handle that is lost in a crash costs one repeated decision.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._handles: list[str] = []
        self._flushed = time.monotonic()
        self._lock = Lock()
        in_child(self)

    def after_fork(self) -> None:
        """Leave what is collected to the parent."""
        self._handles, self._lock = [], Lock()

    def add(self, handle: str) -> None:
        """Collect one handle. Marks all of them if there are many, or the last marking is a while ago."""
        with self._lock:
            self._handles.append(handle)
            full = len(self._handles) >= _MOST or time.monotonic() - self._flushed > _SECONDS
        if full:
            self.flush()

    def flush(self) -> None:
        """Mark what is collected. A failure is only logged, because recovery marks these rows later."""
        with self._lock:
            handles, self._handles, self._flushed = self._handles, [], time.monotonic()
        if not handles:
            return
        try:
            self._ledger.mark_done(handles)
        except (ConnectionFailed, DatabaseError) as error:
            logger.warning("%d ledger rows not marked done: %s", len(handles), error)


class Recovery:
    """Recovery of one ledger, for one broker."""

    def __init__(self, mq: Client, ledger: Ledger) -> None:
        self._mq = mq
        self._ledger = ledger
        self._after: OpenRow | None = None
        # The last incarnation whose losses were looked for among the rows that are marked done. The
        # first one has lost nothing.
        self._compared = 1

    def run(self, max_rows: int, older_than: timedelta) -> int:
        """Send the decisions of some rows again. The next call continues behind the last one."""
        # A handle belongs to one broker, so other brokers' handles are left out.
        info = self._mq.info()
        incarnation, again = self._mq.queries.incarnation(), 0
        if incarnation > self._compared and self._ledger.messages.exists():
            again = sum(one.new_handle is not None for one in self.recover_lost())
            self._compared = incarnation
        while True:
            rows = self._ledger._open_rows(max_rows, older_than, broker_id=info.broker_id, after=self._after)
            self._after = rows[-1] if len(rows) == max_rows else None
            done = again + self._decide(rows)
            if done or self._after is None:
                return done

    def recover_lost(self, *, dry_run: bool = False) -> list[LostHalf]:
        """Send again what was lost with earlier incarnations, and return it.

        A half message that survived without its decision is committed again.
        """
        broker_id, incarnation = (self._mq.info()).broker_id, self._mq.queries.incarnation()
        lost: list[LostHalf] = []
        after = ""
        while rows := self._ledger._committed_before(broker_id, incarnation, after):
            after = rows[-1].handle
            handles = [row.handle for row in rows]
            if not dry_run:
                self._ledger._flush(after)
                outcomes = self._commit(rows)
                handles = [handle for handle, outcome in outcomes if outcome is Outcome.UNKNOWN]
            for one in find_lost(self._mq, self._ledger, handles):
                result = one if dry_run else prepare_again(self._mq, self._ledger, one)
                lost += [] if result is None else [result]
        return lost

    def _decide(self, rows: Sequence[OpenRow]) -> int:
        if not rows:
            return 0
        self._ledger._flush(rows[-1].handle)
        entries = {row.handle: row.entry for row in rows}
        commits = [row for row in rows if row.entry == "local"]
        outcomes = self._commit(commits) if commits else []
        fences = [row.handle for row in rows if row.entry == "fence"]
        if fences:
            outcomes += self._mq.rollback_batch(fences)
        unknown = [handle for handle, outcome in outcomes if outcome is Outcome.UNKNOWN and entries[handle] == "local"]
        replaced = self._replace(unknown)
        done = []
        for handle, outcome in outcomes:
            if handle in replaced:
                continue
            if outcome in CONTRADICTIONS[entries[handle]]:
                logger.error("ledger row %s (%s): the broker says %s", handle, entries[handle], outcome)
            else:
                done.append(handle)
        if done:
            self._ledger.mark_done(done)
        return len(done) + len(replaced)

    def _replace(self, handles: Sequence[str]) -> set[str]:
        """Send again those that the broker has lost and the ledger keeps. Returns their handles."""
        if not handles or not self._ledger.messages.exists():
            return set()
        lost = find_lost(self._mq, self._ledger, handles)
        results = [(one, prepare_again(self._mq, self._ledger, one)) for one in lost]
        return {one.handle for one, result in results if result is None or result.new_handle is not None}

    def _commit(self, rows: Sequence[OpenRow]) -> list[tuple[str, Outcome]]:
        """Commit them together. If that is refused, each half of them, until only the refused row is left."""
        payloads = [row.payload for row in rows]
        final = payloads if any(payload is not None for payload in payloads) else None
        try:
            return self._mq.commit_batch([row.handle for row in rows], final)
        except ConnectionFailed:
            raise
        except Error as error:
            if len(rows) == 1:
                logger.error("ledger row %s stays open, because its broker refuses it: %s", rows[0].handle, error)
                return []
        middle = len(rows) // 2
        return self._commit(rows[:middle]) + self._commit(rows[middle:])
