"""What mqpg should reach within one run.

A target that is missed is reported, not a failure.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """The bound of mqpg's measure in `cell`, divided by that of `base_side` in `base_cell`.

    Without a `base_cell` it is the bound of the measure itself. `measure` is the rate, or a name in
    `Run.measures`. `most` makes it the largest value instead of the least. `servers` are the major
    versions of PostgreSQL to which it applies; empty: all.
    """

    what: str
    cell: str
    base_cell: str
    bound: float
    base_side: str = "pgmq"
    measure: str = "rate"
    most: bool = False
    servers: tuple[int, ...] = ()
    side: str = "mqpg"

    @property
    def text(self) -> str:
        """The bound for people."""
        return f"{'≤' if self.most else '≥'} {self.bound:,g}"


def _same(what: str, cell: str, bound: float, base_side: str = "pgmq", servers: tuple[int, ...] = ()) -> Target:
    return Target(f"{what}: mqpg / {base_side}", cell, cell, bound, base_side, servers=servers)


def _latency(consumer: str, cell: str, p50: float) -> tuple[Target, Target]:
    what = f"latency at 200/s, {consumer} consumer"
    return (
        Target(f"{what}, p50: mqpg / pgmq polled every 5 ms", cell, cell, p50, measure="p50", most=True),
        Target(f"{what}, p99: mqpg / pgmq polled every 5 ms", cell, cell, 2, measure="p99", most=True),
    )


def _size(name: str, what: str) -> tuple[Target, Target]:
    cell, base = f"scale-{name}", "scale-small"
    return (
        Target(f"{what}, receive: mqpg / mqpg, small", cell, base, 0.9, "mqpg"),
        Target(f"{what}, send: mqpg / mqpg, small", cell, base, 0.95, "mqpg", "send"),
    )


# PgQ exists for PostgreSQL 15 only (Debian's package).
_PGQ = (15,)

TARGETS = (
    _same("send one by one, 16 clients", "send-1", 1, "pgq", _PGQ),
    _same("send one by one, 16 clients, PostgreSQL 15", "send-1", 1.3, servers=(15,)),
    _same("send one by one, 16 clients, PostgreSQL 18", "send-1", 1.1, servers=(18,)),
    _same("send in thousands", "send-1000", 1.3, "bare"),
    _same("receive and ack in hundreds", "receive-100", 2, "pgq", _PGQ),
    _same("receive and ack in hundreds, sent one by one", "receive-100-singly", 2),
    _same("receive and ack in thousands", "receive-1000", 2.5, "pgq", _PGQ),
    _same("receive and ack in thousands", "receive-1000", 8),
    _same("end to end, received in hundreds", "e2e-100", 1, "pgq", _PGQ),
    _same("end to end, received up to 1000", "e2e", 2, "pgq", _PGQ),
    _same("end to end, received up to 1000", "e2e", 1, "bare"),
    _same("half and commit, 16 clients (pgmq: the two-queue MNS scheme)", "half-1", 2),
    _same("half and commit in hundreds (pgmq: the MNS scheme)", "half-100", 1.5),
    _same("half and commit in hundreds", "half-100", 0.7, "bare"),
    *_latency("SQL", "latency-sql", 1.2),
    *_latency("Python", "latency-python", 1.6),
    *_size("backlog", "10 million messages"),
    *_size("groups", "100 groups"),
    *_size("topics", "1,000 topics"),
    *_size("queues", "256 queues"),
    Target("end to end, xmin held: mqpg / mqpg, not held", "e2e-held", "e2e", 0.95, "mqpg"),
    Target("end to end, xmin held: dead rows in hot tables", "e2e-held", "", 0, measure="dead rows", most=True),
    Target("xmin held for 10 minutes: mqpg / mqpg, not held", "e2e-held-long", "e2e-long", 0.95, "mqpg"),
    Target("xmin held for 10 minutes: dead rows in hot tables", "e2e-held-long", "", 0, measure="dead rows", most=True),
    Target("append single messages, a second", "append", "", 300_000),
    Target("append 10 million single messages, a second", "append-10m", "", 300_000),
    Target("append 10 million: MiB of the server process", "append-10m", "", 256, measure="MiB", most=True),
)
