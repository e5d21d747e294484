"""The metrics of one reading, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from mqpg.status.finding import Row
from mqpg.status.workers import failing_seconds

from .catalog import METRICS
from .reading import Reading

__all__ = ["families", "metric"]

_VERDICTS = ("valid", "invalid", "unknown")


def metric(name: str, rows: Iterable[tuple[Iterable[Any], Any]]) -> Metric:
    """Make a metric of the catalog from the values of its labels and its own. One that is no number is left out."""
    described = METRICS[name]
    family = CounterMetricFamily if described.is_counter else GaugeMetricFamily
    made = family(f"mqpg_{name}", described.text, labels=described.labels)
    for values, value in rows:
        if isinstance(value, (int, float, Decimal)):
            made.add_metric([_label(one) for one in values], float(value))
    return made


def families(found: Reading) -> Iterator[Metric]:
    """Make all metrics, also those that have no sample now."""
    yield metric("broker_info", [_identity(found)])
    yield metric("disk_full", [([], len(found.overview.full_disk))])
    yield metric("topic_full", [([one["topic"]], 1) for one in found.overview.full_topics])
    yield metric("max_bytes_days_left", [([one["topic"]], one["days_left"]) for one in found.overview.growth])
    yield from _workers(found)
    yield from _appender(found)
    yield from _half_messages(found)
    yield from _groups(found)
    yield from _consumers(found)
    yield from _storage(found)
    yield from _audits(found)


def _identity(found: Reading) -> tuple[list[Any], int]:
    return [found.overview.broker[name] for name in METRICS["broker_info"].labels], 1


def _workers(found: Reading) -> Iterator[Metric]:
    known = {one["role"]: one for one in found.overview.workers}
    for role in ("appender", "compensator", "keeper"):
        known.setdefault(role, {"alive": 0, "active": 0, "seen_seconds_ago": None})
    rows = sorted(known.items())
    yield metric("workers_alive", [([role], one["alive"]) for role, one in rows])
    yield metric("workers_active", [([role], one["active"]) for role, one in rows])
    yield metric("worker_heartbeat_age_seconds", [([role], one["seen_seconds_ago"]) for role, one in rows])
    yield metric("worker_failures", _reported(found, "failures"))
    yield metric("worker_failing_seconds", _failing(found))
    ended = [([one["role"], one["worker_id"]], one["detail"].get("sessions_ended", 0)) for one in found.workers]
    yield metric("sessions_ended", ended)


def _failing(found: Reading) -> Iterator[tuple[list[str], float]]:
    for one in found.workers:
        if "failing" in one["detail"]:
            yield [one["role"], one["worker_id"]], failing_seconds(one)


def _appender(found: Reading) -> Iterator[Metric]:
    one = found.appender
    yield metric("append_backlog", [([], one["waiting"])])
    yield metric("append_lag_seconds", [([], one["oldest_seconds"] or 0)])
    appenders = [row for row in found.workers if row["role"] == "appender" and row["state"] == "active"]
    for name, key in (
        ("append_pass_seconds", "pass_seconds"),
        ("appended_messages", "messages"),
        ("append_passes", "iterations"),
        ("append_seconds", "append_seconds"),
    ):
        yield metric(name, [([w["worker_id"]], w["detail"].get(key)) for w in appenders])


def _half_messages(found: Reading) -> Iterator[Metric]:
    rows = [
        ((one["producer_group"], state), one[state])
        for one in found.overview.half_messages
        for state in ("pending", "overdue", "parked")
    ]
    yield metric("half_messages", rows)
    yield metric("producer_group_full", [((one["producer_group"],), 1) for one in found.overview.overfull])
    one = found.appender
    yield metric("decision_seconds", [(["average"], one["average_seconds"]), (["longest"], one["longest_seconds"])])
    yield metric("check_backs", _checks(found))
    yield metric("ledger_answers", [([name], ok) for name, ok in _answers(found).items()])


def _answers(found: Reading) -> dict[str, bool]:
    """Whether each ledger gives verdicts to some compensator.

    Those that leave it to another one do not know. One that was killed is there for a while, beside
    the one that follows.
    """
    answers: dict[str, bool] = {}
    for _, name, detail in _ledgers(found):
        if detail.get("state") not in (None, "standby", "elsewhere"):
            answers[name] = answers.get(name, False) or detail["state"] == "ok"
    return answers


def _ledgers(found: Reading) -> Iterator[tuple[Row, str, dict[str, Any]]]:
    for worker in found.workers:
        if worker["role"] == "compensator":
            for kind in ("ledgers", "functions"):
                for name, detail in worker["detail"].get(kind, {}).items():
                    yield worker, name, detail


def _checks(found: Reading) -> Iterator[tuple[list[str], Any]]:
    for worker in found.workers:
        if worker["role"] == "compensator":
            yield [worker["worker_id"], "", "any"], worker["detail"].get("checked")
    for worker, name, detail in _ledgers(found):
        for verdict in ("commit", "rollback", "wait"):
            yield [worker["worker_id"], name, verdict], detail.get(verdict)


def _groups(found: Reading) -> Iterator[Metric]:
    for name, key in (
        ("group_lag_messages", "lag"),
        ("group_open_deliveries", "claims"),
        ("group_dead_letters", "dead_letters"),
        ("group_paused", "paused"),
        ("group_consumers", "consumers"),
    ):
        yield metric(name, [(_group(one), one[key]) for one in found.overview.groups])
    rows = [(_group(one), one["oldest_unread_seconds"] or 0) for one in found.overview.groups]
    yield metric("group_oldest_unread_seconds", rows)
    lost = [([*_group(one), one["why"]], one["messages"]) for one in found.overview.losses]
    yield metric("group_lost_messages", lost)


def _group(one: Row) -> list[str]:
    return [one["consumer_group"], one["topic"]]


def _consumers(found: Reading) -> Iterator[Metric]:
    consumers = [one for one in found.workers if one["role"] == "consumer"]
    for name, key in (("consumer_handled_messages", "handled"), ("consumer_raised_messages", "raised")):
        rows = [
            ([w["detail"].get("consumer_group"), w["detail"].get("topic"), w["worker_id"]], w["detail"].get(key))
            for w in consumers
        ]
        yield metric(name, rows)


def _storage(found: Reading) -> Iterator[Metric]:
    for name, key in (
        ("table_partitions", "partitions"),
        ("table_bytes", "bytes"),
        ("table_dead_tuples", "dead"),
        ("table_live_tuples", "live"),
    ):
        yield metric(name, [([one["table_name"]], one[key]) for one in found.tables])
    blocked: dict[str, list[int]] = {}
    for one in found.overview.blocked:
        blocked.setdefault(one["state"], []).append(one["seconds"] or 0)
    yield metric("blocked_segments", [([state], len(all_)) for state, all_ in blocked.items()])
    yield metric("blocked_segment_seconds", [([state], max(all_)) for state, all_ in blocked.items()])
    for key in ("segments", "bytes"):
        yield metric(f"pinned_{key}", [(_group(one), one[key]) for one in found.overview.pins])
    orphans: dict[str, int] = {}
    for one in found.overview.orphans:  # topics of one name may have been dropped one after another
        orphans[one["topic"]] = orphans.get(one["topic"], 0) + one["messages"] + one["undecided"]
    yield metric("orphan_messages", [([topic], count) for topic, count in orphans.items()])
    yield metric("foreign_locks", [([], len(found.overview.foreign_locks))])
    yield metric("oldest_transaction_seconds", [([], found.oldest_transaction)])


def _audits(found: Reading) -> Iterator[Metric]:
    audits = [one for one in found.workers if one["role"] == "audit" and one["state"] != "stopped"]
    rows = [
        ([w["worker_id"], verdict], w["detail"].get("verdict") == verdict and w["alive"])
        for w in audits
        for verdict in _VERDICTS
    ]
    yield metric("audit_verdict", rows)
    yield metric("audit_heartbeat_age_seconds", [([w["worker_id"]], w["seen_seconds_ago"]) for w in audits])


def _reported(found: Reading, key: str) -> Iterator[tuple[list[str], Any]]:
    for one in found.workers:
        yield [one["role"], one["worker_id"]], one["detail"].get(key)


def _label(value: object) -> str:
    # A lone surrogate, which JSON may hold, cannot be encoded.
    return ("" if value is None else str(value)).encode("utf-8", "backslashreplace").decode()
