"""What one audit reads, and what it tolerates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

__all__ = ["AuditOptions", "Urls", "every_url", "groups_by_url", "joined_groups", "urls_of"]

Urls = Mapping[str, str | Sequence[str]]
"""The URL of each group's database, or several if its members have databases of their own."""


@dataclass(frozen=True)
class AuditOptions:
    """The options of one audit.

    Attributes:
        dsn: The broker's DSN or URL. None means the one that the environment names.
        ledgers: The URL of each producer group's ledger, or several. The ledger in the broker's own
            database is read without being named here.
        applied: The URL of the database where each consumer group keeps its journal, or several. A
            journal in the broker's own database is read without being named here.
        topics: The topics to audit. Empty means all.
        groups: The consumer groups to audit. Empty means all.
        drained: Whether nothing is running any more, so that nothing may be left open.
        slack: How long a half message may stay undecided after its check-back is due.
        clock_tolerance: Seconds by which the clocks of two servers may differ. None means 0 for
            databases of one server cluster and 5 for all others.
        ledger_keep: Ledger rows of decisions older than this may have been deleted.
        partitions: The most partitions in which one query is read.
        examples: How many anomalies of each kind the report shows. The counts are always full.
        amount: A jsonpath. The numbers that it finds in the payloads of the anomalies' messages are summed up.
            None means that no payload is read.
        into: A table at the broker, with its schema or in `public`, that gets a row for each anomaly. It is
            created if there is none. None means none.
    """

    dsn: str | None = None
    ledgers: Urls = field(default_factory=dict)
    applied: Urls = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    drained: bool = False
    slack: timedelta = timedelta(minutes=5)
    clock_tolerance: float | None = None
    ledger_keep: timedelta = timedelta(days=1)
    partitions: int = 2
    examples: int = 32
    amount: str | None = None
    into: str | None = None


def urls_of(urls: str | Sequence[str]) -> tuple[str, ...]:
    """The URLs of one group."""
    return (urls,) if isinstance(urls, str) else tuple(dict.fromkeys(urls))


def every_url(options: AuditOptions) -> set[str]:
    """All databases that an audit reads, without the broker's."""
    return {url for urls in (*options.ledgers.values(), *options.applied.values()) for url in urls_of(urls)}


def groups_by_url(urls: Urls) -> dict[str, list[str]]:
    """The groups of each database."""
    found: dict[str, list[str]] = {}
    for group, several in sorted(urls.items()):
        for url in urls_of(several):
            found.setdefault(url, []).append(group)
    return found


def joined_groups(urls: Urls) -> dict[str, list[str]]:
    """The producer groups of each ledger. Ledgers that share a group count as one, with the groups of all."""
    found = groups_by_url(urls)
    for group in sorted(urls):
        together = [names for names in found.values() if group in names]
        all_names = sorted({name for names in together for name in names})
        for names in together:
            names[:] = all_names
    return found
