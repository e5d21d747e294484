"""What a year measures, and when a figure counts as flat."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psutil
import psycopg

__all__ = ["BOUNDS", "Sample", "Sampler", "growing", "quarters"]

Sample = dict[str, float]

# What may not grow, and by how much the median of the last quarter may be above 1.25 times the
# median of the second one.
BOUNDS: dict[str, float] = {
    "partitions": 6,
    "cursor partitions": 3,
    "tables to drop": 4,
    "pinned segments": 6,
    "mqpg MB": 8,
    "catalog MB": 4,
    "pg_class MB": 0.5,
    "pg_attribute MB": 2,
    "catalog dead rows": 2000,
    "segments": 20,
    "ledger MB": 1,
    "locks": 500,  # a reader of the whole log has some hundreds; quarters of 4 minutes had 494 to 981
    "locks waited for": 2,
    "workers RSS MB": 8,
    "consumers RSS MB": 20,
    "backend MB": 2,
    "append ms": 5,
    "send ms": 1,
    "receive ms": 3,
    "ack ms": 2,
    "keep ms": 50,
    "probe send ms": 5,
    "probe seen ms": 30,
    "probe seen p99 ms": 150,
    "lag": 300,
    "surviving rows": 300,
    "undecided": 50,
}
_FACTOR = 1.25
_FUNCTIONS = ("append", "send", "receive", "ack", "_keep")  # keep() and the keeper both call _keep
_SIZES = """
select coalesce(sum(pg_total_relation_size(c.oid)) filter (where n.nspname in ('mqpg', 'pgmq')), 0) / 1e6,
    coalesce(sum(pg_total_relation_size(c.oid)) filter (where n.nspname = 'pg_catalog'), 0) / 1e6,
    pg_total_relation_size('pg_class') / 1e6, pg_total_relation_size('pg_attribute') / 1e6
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname in ('mqpg', 'pgmq', 'pg_catalog')
"""
_COUNTS = """
select (select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid where c.relkind = 'r'),
    (select count(*) from pg_inherits where inhparent = 'mqpg.cursor'::regclass),
    (select count(*) from mqpg.blocked_segments), (
        select count(distinct segment_no) from mqpg.pins where consumer_group <> 'visitor'),
    (select sum(n_dead_tup) from pg_stat_sys_tables),
    (select count(*) from mqpg.segment where dropped_at is null),
    (select count(*) from pg_locks), (select count(*) from pg_locks where not granted),
    (select coalesce(sum(lag), 0) from mqpg.subscription_lag where consumer_group <> 'visitor'),
    (select count(*) from mqpg.held), (select count(*) from mqpg.half_pending),
    (select sum(n_tup_ins) from pg_stat_user_tables where relname = 'soak_sale'),
    (select sum(n_tup_ins) from pg_stat_user_tables where relname = 'soak_effect')
"""
_COUNTED = ("partitions", "cursor partitions", "tables to drop", "pinned segments", "catalog dead rows", "segments",
    "locks", "locks waited for", "lag", "surviving rows", "undecided")  # fmt: skip
_CALLS = """
select funcname, sum(calls), sum(total_time) from pg_stat_user_functions
where schemaname = 'mqpg' and funcname = any(%s) group by 1
"""
_PROBE = """
select percentile_cont(0.5) within group (order by send_ms), percentile_cont(0.5) within group (order by seen_ms),
    percentile_cont(0.99) within group (order by seen_ms)
from year_probe where at > clock_timestamp() - make_interval(secs => %s)
"""
_LEDGER = "select pg_total_relation_size('mqpg_ledger') / 1e6"
_BACKENDS = """
select pid from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


class Sampler:
    """Takes samples of a broker, the shop, and the processes at work.

    A sample takes no lock for longer than its statement, and what it cannot read within a second
    is left out of it.
    """

    def __init__(self, broker: str, shop: str) -> None:
        self._broker, self._shop = (
            psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=1s") for dsn in (broker, shop)
        )
        self._calls: dict[str, tuple[float, float]] = {}
        self._last: tuple[float, float, float] | None = None

    def close(self) -> None:
        self._broker.close()
        self._shop.close()

    def take(self, at: float, every: float, pids: Mapping[str, Iterable[int]]) -> Sample:
        """Take a sample. `pids` are the processes whose memory counts, by kind."""
        sample = {"seconds": round(at, 1)}
        for step in (self._sizes, self._counts, self._functions, self._backends):
            try:
                sample |= step(at)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable, psycopg.errors.InternalError):
                continue  # a partition was dropped meanwhile
        sample |= _named(("probe send ms", "probe seen ms", "probe seen p99 ms"), self._row(_PROBE, [every * 2]))
        with psycopg.Cursor(self._shop) as cursor:
            sample |= _named(("ledger MB",), cursor.execute(_LEDGER).fetchone() or (None,))
        for kind, processes in pids.items():
            sample[f"{kind} RSS MB"] = round(sum(map(_memory, processes)) / 1e6, 1)
        return sample

    def _row(self, sql: str, values: Sequence[object] | None = None) -> tuple[Any, ...]:
        return self._broker.execute(sql, values).fetchone() or ()

    def _sizes(self, _: float) -> Sample:
        return _named(("mqpg MB", "catalog MB", "pg_class MB", "pg_attribute MB"), self._row(_SIZES))

    def _counts(self, at: float) -> Sample:
        *counts, sales, effects = self._row(_COUNTS)
        found = _named(_COUNTED, counts)
        if self._last is not None and at > self._last[0]:
            then, sold, done = self._last
            found["sales/s"] = round((float(sales) - sold) / (at - then), 1)
            found["effects/s"] = round((float(effects) - done) / (at - then), 1)
        self._last = at, float(sales), float(effects)
        return found

    def _functions(self, _: float) -> Sample:
        found = {}
        for name, calls, total in self._broker.execute(_CALLS, [list(_FUNCTIONS)]):
            calls_before, total_before = self._calls.get(name, (0.0, 0.0))
            if calls > calls_before:
                found[f"{name.removeprefix('_')} ms"] = round((total - total_before) / (float(calls) - calls_before), 3)
            self._calls[name] = float(calls), total
        return found

    def _backends(self, _: float) -> Sample:
        private = [_private(pid) for (pid,) in self._broker.execute(_BACKENDS)]
        return {"backend MB": round(statistics.mean(private) / 1e6, 2)}


def _named(names: Sequence[str], values: Iterable[Any]) -> Sample:
    return {name: round(float(value), 3) for name, value in zip(names, values, strict=True) if value is not None}


def _memory(pid: int) -> int:
    """Resident bytes of a process and its children."""
    try:
        process = psutil.Process(pid)
        return int(sum(p.memory_info().rss for p in (process, *process.children(recursive=True))))
    except psutil.NoSuchProcess:
        return 0


def _private(pid: int) -> float:
    """Resident bytes of a backend that it shares with no other."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.NoSuchProcess:
        return 0.0
    return float(memory.rss - memory.shared)


def quarters(samples: Sequence[Sample], name: str) -> list[float | None]:
    """Medians of a figure in the four quarters of the time; None where it was never seen."""
    end = samples[-1]["seconds"] if samples else 0.0
    found: list[list[float]] = [[], [], [], []]
    for sample in samples:
        if name in sample:
            found[min(int(sample["seconds"] * 4 / end) if end else 0, 3)].append(sample[name])
    return [statistics.median(values) if values else None for values in found]


def growing(samples: Sequence[Sample]) -> list[str]:
    """What is not flat from the second quarter on, with the medians that show it."""
    found = []
    for name, allowance in BOUNDS.items():
        _, second, _, last = quarters(samples, name)
        if second is None or last is None:
            found.append(f"{name}: not measured")
        elif last > second * _FACTOR + allowance:
            found.append(f"{name}: {second:g} in the second quarter, {last:g} in the last")
    _, second, _, last = quarters(samples, "effects/s")
    if second and (last or 0) < second / _FACTOR:
        found.append(f"effects/s: {second:g} in the second quarter, {last} in the last")
    return found
