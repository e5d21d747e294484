"""What a year measures, and when a figure counts as flat."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import psutil
import psycopg

__all__ = ["BOUNDS", "Sample", "Sampler", "growing", "quarters"]

Sample = dict[str, float]

_SIZE = """select sum(pg_total_relation_size(oid)) / 1e6 from pg_class
where relkind = 'r' and relnamespace = '{}'::regnamespace"""
_CALL = """select sum(total_time) / nullif(sum(calls), 0) from pg_stat_user_functions
where schemaname = 'mqpg' and funcname = '{}'"""
_PROBE = """select percentile_cont({}) within group (order by {}) from year_probe
where at > clock_timestamp() - interval '20 s'"""
# The query of each figure, and by how much the median of its last quarter may be above 1.25 times the
# median of the second one.
_QUERIES: dict[str, tuple[str, float]] = {
    "partitions": ("select count(*) from pg_inherits join pg_class on oid = inhrelid where relkind = 'r'", 6),
    "cursor partitions": ("select count(*) from pg_inherits where inhparent = 'mqpg.cursor'::regclass", 3),
    "tables to drop": ("select count(*) from mqpg.blocked_segments", 4),
    "pinned segments": ("select count(distinct segment_no) from mqpg.pins where consumer_group <> 'visitor'", 6),
    "segments": ("select count(*) from mqpg.segment where dropped_at is null", 20),
    "mqpg MB": (_SIZE.format("mqpg"), 8),
    "catalog MB": (_SIZE.format("pg_catalog"), 4),
    "pg_class MB": ("select pg_total_relation_size('pg_class') / 1e6", 0.5),
    "pg_attribute MB": ("select pg_total_relation_size('pg_attribute') / 1e6", 2),
    "catalog dead rows": ("select sum(n_dead_tup) from pg_stat_sys_tables", 2000),
    # A reader of the whole log has some hundreds; quarters of 4 minutes had 494 to 981.
    "locks": ("select count(*) from pg_locks", 500),
    "locks waited for": ("select count(*) from pg_locks where not granted", 2),
    "append ms": (_CALL.format("append"), 5),
    "send ms": (_CALL.format("send"), 1),
    "receive ms": (_CALL.format("receive"), 3),
    "ack ms": (_CALL.format("ack"), 2),
    "keep ms": (_CALL.format("_keep"), 50),  # keep() and the keeper both call _keep
    "probe send ms": (_PROBE.format(0.5, "send_ms"), 5),
    "probe seen ms": (_PROBE.format(0.5, "seen_ms"), 30),
    "probe seen p99 ms": (_PROBE.format(0.99, "seen_ms"), 150),
    "lag": ("select sum(lag) from mqpg.subscription_lag where consumer_group <> 'visitor'", 300),
    "surviving rows": ("select count(*) from mqpg.held", 300),
    "undecided": ("select count(*) from mqpg.half_pending", 50),
}
_LEDGER = "select pg_total_relation_size('mqpg_ledger') / 1e6"
_EFFECTS = "select sum(n_tup_ins) from pg_stat_user_tables where relname = 'soak_effect'"
_BACKENDS = """
select pid from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""
_RESET = "select pg_stat_reset_single_function_counters(funcid) from pg_stat_user_functions"
BOUNDS: dict[str, float] = {name: bound for name, (_, bound) in _QUERIES.items()} | {
    "ledger MB": 1,
    "workers MB": 8,
    "consumers MB": 20,
    "backend MB": 2,
}
_FACTOR = 1.25


class Sampler:
    """Takes samples of a broker, the shop, and the processes at work.

    A sample takes no lock for longer than its statement, and what it cannot read within a second
    is left out of it.
    """

    def __init__(self, broker: str, shop: str) -> None:
        self._broker, self._shop = (
            psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=1s") for dsn in (broker, shop)
        )
        self._last = (0.0, 0.0)

    def close(self) -> None:
        self._broker.close()
        self._shop.close()

    def take(self, at: float, pids: Mapping[str, Iterable[int]]) -> Sample:
        """Take a sample. `pids` are the processes whose memory counts, by kind."""
        sample = {"seconds": at}
        for name, (query, _) in _QUERIES.items():
            # A partition may be dropped meanwhile.
            with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable, psycopg.errors.InternalError):
                if (value := _value(self._broker, query)) is not None:
                    sample[name] = value
        self._broker.execute(_RESET)
        sample["ledger MB"] = _value(self._shop, _LEDGER) or 0.0
        then, before = self._last
        self._last = at, _value(self._broker, _EFFECTS) or 0.0
        sample["effects/s"] = (self._last[1] - before) / max(at - then, 0.001)
        for kind, processes in pids.items():
            sample[f"{kind} MB"] = sum(map(_private, processes)) / 1e6
        sample["backend MB"] = statistics.mean(_private(pid) for (pid,) in self._broker.execute(_BACKENDS)) / 1e6
        return {name: round(value, 3) for name, value in sample.items()}


def _value(conn: psycopg.Connection[tuple[float | None, ...]], query: str) -> float | None:
    row = conn.execute(query.encode()).fetchone()
    return None if row is None or row[0] is None else float(row[0])


def _private(pid: int) -> float:
    """Resident bytes of a process and its children that they share with no other."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        memories = [one.memory_info() for one in (process, *process.children(recursive=True))]
        return float(sum(memory.rss - memory.shared for memory in memories))
    return 0.0


def quarters(samples: Sequence[Sample], name: str) -> list[float | None]:
    """Medians of a figure in the four quarters of the time; None if it was never seen."""
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
