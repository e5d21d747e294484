"""Whether every consumer group moves, seen from the brokers; and what is left to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import psycopg

from .hot import changes

__all__ = ["Motion", "open_work"]

_LOOK = 0.4  # seconds between two looks at a broker

_POSITIONS = """
select consumer_group, topic, sum(committed)::bigint from mqpg.subscription_lag where queue_id >= 0 group by 1, 2
"""
_OPEN = """
select (select coalesce(sum(lag), 0) from mqpg.subscription_lag)::bigint,
    (select count(*) from mqpg.half_pending), (select count(*) from mqpg.half_parked),
    (select count(*) from mqpg.delayed d where d.visible_at > (select max(t.due_until) from mqpg.tick t)
        and (d.subscription_id = 0 or exists (
            select from mqpg.subscription s where s.subscription_id = d.subscription_id)))
"""
Positions = dict[tuple[int, str, str], int]  # broker, group, topic: the sum of the positions


class Motion:
    """Looks at the brokers all the time, and remembers the newest positions.

    Args:
        dsns: The brokers, not through a proxy.
    """

    def __init__(self, dsns: Sequence[str]) -> None:
        self.changes_of_hot_tables = 0
        self._now: list[Positions] = [{} for _ in dsns]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(number, dsn), daemon=True) for number, dsn in enumerate(dsns)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the looking."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def positions(self) -> Positions:
        """Return the positions as they were last seen."""
        return {place: position for one in self._now for place, position in dict(one).items()}

    def behind(self, before: Mapping[tuple[int, str, str], int]) -> list[str]:
        """Return the groups that have not moved since these positions."""
        now = self.positions()
        return [f"{group} on {topic} at broker-{broker}" for (broker, group, topic), at in before.items()
                if now.get((broker, group, topic), at) <= at]  # fmt: skip

    def wait_until_all_moved(self, before: Positions, patience: float) -> tuple[float | None, str]:
        """Wait until every group has moved since these positions.

        Args:
            before: The positions.
            patience: The most seconds to wait.

        Returns:
            How many seconds it took, or None where a group did not move in time; and the group that
            was the last to move, or that did not.
        """
        began, last = time.monotonic(), ""
        while behind := self.behind(before):
            last = behind[0]
            if time.monotonic() - began > patience:
                return None, last
            time.sleep(0.1)
        return time.monotonic() - began, last

    def _watch(self, number: int, dsn: str) -> None:
        while not self._stop.is_set():
            try:
                with psycopg.connect(dsn, autocommit=True, connect_timeout=3) as conn:
                    conn.execute("set statement_timeout = '5s'")
                    while not self._stop.wait(_LOOK):
                        rows = conn.execute(_POSITIONS).fetchall()
                        self._now[number] = {(number + 1, group, topic): at for group, topic, at in rows}
                        self.changes_of_hot_tables = max(self.changes_of_hot_tables, changes(conn))
            except psycopg.Error:
                self._stop.wait(_LOOK)


def open_work(dsn: str) -> tuple[int, ...]:
    """Return what is left at a broker: lag, undecided and parked halves, delayed messages."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=3) as conn:
        conn.execute("select mqpg.append()")  # lag counts what is appended only
        row = conn.execute(_OPEN).fetchone()
        assert row is not None
        return tuple(int(number) for number in row)
