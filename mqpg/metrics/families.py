"""The metrics of one reading, by name. docs/metrics.md has the same list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from mqpg.status.finding import Row

from .reading import Reading

__all__ = ["families", "gauge"]

_VERDICTS = ("valid", "invalid", "unknown")
_GROUP = ("consumer_group", "topic")


def gauge(name: str, text: str, labels: Iterable[str], rows: Iterable[tuple[Iterable[Any], Any]]) -> Metric:
    """Make a gauge.

    Args:
        name: Its name behind `mqpg_`.
        text: What it measures.
        labels: The names of its labels.
        rows: The labels' values, and the value. A value of None is left out.

    Returns:
        The gauge.
    """
    made = GaugeMetricFamily(f"mqpg_{name}", text, labels=list(labels))
    for values, value in rows:
        if value is not None:
            made.add_metric([_label(one) for one in values], float(value))
    return made


def families(found: Reading) -> Iterator[Metric]:
    """Make all metrics.

    Args:
        found: The state of a broker.

    Yields:
        Each metric, also those that have no sample now.
    """
    yield _broker(found)
    yield from _workers(found)
    yield from _appender(found)
    yield from _half_messages(found)
    yield from _groups(found)
    yield from _consumers(found)
    yield from _storage(found)
    yield from _audits(found)


def _broker(found: Reading) -> Metric:
    one = found.overview.broker
    labels = ("broker_id", "incarnation", "release")
    return gauge("broker_info", "Identity of the broker; always 1", labels, [([one[name] for name in labels], 1)])


def _workers(found: Reading) -> Iterator[Metric]:
    known = {one["role"]: one for one in found.overview.workers}
    for role in ("appender", "compensator", "keeper"):
        known.setdefault(role, {"alive": 0, "active": 0, "seen_seconds_ago": None})
    rows = sorted(known.items())
    text = "Worker processes whose last heartbeat is at most 30 s old"
    yield gauge("workers_alive", text, ["role"], [([role], one["alive"]) for role, one in rows])
    text = "Worker processes that are at work and do not stand by"
    yield gauge("workers_active", text, ["role"], [([role], one["active"]) for role, one in rows])
    text = "Seconds since the latest heartbeat of a role"
    yield gauge("worker_heartbeat_age_seconds", text, ["role"], [([r], one["seen_seconds_ago"]) for r, one in rows])
    yield _counter("worker_failures", "Iterations that failed", ["role", "worker"], _reported(found, "failures"))


def _appender(found: Reading) -> Iterator[Metric]:
    one = found.appender
    text = "Batches and commits without an offset yet; 1001 means more than 1000"
    yield gauge("append_backlog", text, [], [([], one["waiting"])])
    text = "Age of the oldest of them in seconds; 0 where there is none"
    yield gauge("append_lag_seconds", text, [], [([], one["oldest_seconds"] or 0)])
    appenders = [row for row in found.workers if row["role"] == "appender" and row["state"] == "active"]
    text = "Seconds that the last pass of the appender took"
    rows = [([w["worker_id"]], w["detail"].get("pass_seconds")) for w in appenders]
    yield gauge("append_pass_seconds", text, ["worker"], rows)
    for name, key, text in (
        ("appended_messages", "messages", "Messages that an appender process gave their offsets"),
        ("append_passes", "iterations", "Passes of an appender process"),
        ("append_seconds", "append_seconds", "Seconds that an appender process worked"),
    ):
        yield _counter(name, text, ["worker"], [([w["worker_id"]], w["detail"].get(key)) for w in appenders])


def _half_messages(found: Reading) -> Iterator[Metric]:
    rows = [
        ((one["producer_group"], state), one[state])
        for one in found.overview.half_messages
        for state in ("pending", "overdue", "parked")
    ]
    text = "Undecided half messages; the overdue ones are pending too"
    yield gauge("half_messages", text, ["producer_group", "state"], rows)
    one = found.appender
    text = "Seconds that the latest 200 committed half messages were undecided"
    times = [(["average"], one["average_seconds"]), (["longest"], one["longest_seconds"])]
    yield gauge("decision_seconds", text, ["of"], times)
    yield _counter(
        "check_backs",
        "Half messages that a compensator process checked",
        ["worker", "ledger", "verdict"],
        _checks(found),
    )
    text = "1 where the ledger gives verdicts, 0 where it gives none or no compensator serves it"
    yield gauge("ledger_answers", text, ["ledger"], [([name], ok) for name, ok in _answers(found).items()])


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
    for name, key, text in (
        ("group_lag_messages", "lag", "Messages that a group has not acknowledged, in flight or not"),
        ("group_open_deliveries", "claims", "Deliveries that are not acknowledged yet"),
        ("group_dead_letters", "dead_letters", "Dead letters; 1001 means more than 1000"),
        ("group_paused", "paused", "1 where the group or the topic is paused"),
        ("group_consumers", "consumers", "Processes of mqpg consume that report"),
    ):
        yield gauge(name, text, _GROUP, [(_group(one), one[key]) for one in found.overview.groups])
    text = "Age of the oldest message that a group has not acknowledged; 0 where there is none"
    rows = [(_group(one), one["oldest_unread_seconds"] or 0) for one in found.overview.groups]
    yield gauge("group_oldest_unread_seconds", text, _GROUP, rows)
    lost = [([*_group(one), one["why"]], one["messages"]) for one in found.overview.losses]
    yield gauge("group_lost_messages", "Messages lost by a policy within a day", [*_GROUP, "why"], lost)


def _group(one: Row) -> list[str]:
    return [one["consumer_group"], one["topic"]]


def _consumers(found: Reading) -> Iterator[Metric]:
    consumers = [one for one in found.workers if one["role"] == "consumer"]
    for name, key, text in (
        ("consumer_handled_messages", "handled", "Messages that a handler of mqpg consume handled"),
        ("consumer_raised_messages", "raised", "Messages for which a handler raised, most of which are redelivered"),
    ):
        rows = [
            ([w["detail"].get("consumer_group"), w["detail"].get("topic"), w["worker_id"]], w["detail"].get(key))
            for w in consumers
        ]
        yield _counter(name, text, [*_GROUP, "worker"], rows)


def _storage(found: Reading) -> Iterator[Metric]:
    tables = [([one["table_name"]], one) for one in found.tables]
    yield gauge("table_partitions", "Partitions of a table", ["table"], [(t, one["partitions"]) for t, one in tables])
    text = "Dead tuples of a table, as the statistics of PostgreSQL know them"
    yield gauge("table_dead_tuples", text, ["table"], [(t, one["dead"]) for t, one in tables])
    text = "Rows of a table, as the statistics of PostgreSQL know them"
    yield gauge("table_live_tuples", text, ["table"], [(t, one["live"]) for t, one in tables])
    blocked: dict[str, list[int]] = {}
    for one in found.overview.blocked:
        blocked.setdefault(one["state"], []).append(one["seconds"] or 0)
    text = "Drops and merges that are held up"
    yield gauge("blocked_segments", text, ["state"], [([state], len(all_)) for state, all_ in blocked.items()])
    text = "Age of the oldest of them in seconds"
    yield gauge("blocked_segment_seconds", text, ["state"], [([state], max(all_)) for state, all_ in blocked.items()])
    for key, text in (("segments", "Closed segments that unread messages keep"), ("bytes", "About how big they are")):
        yield gauge(f"pinned_{key}", text, _GROUP, [(_group(one), one[key]) for one in found.overview.pins])
    text = "Messages of dropped topics that came after the drop, or can still be decided"
    orphans: dict[str, int] = {}
    for one in found.overview.orphans:  # topics of one name may have been dropped one after another
        orphans[one["topic"]] = orphans.get(one["topic"], 0) + one["messages"] + one["undecided"]
    yield gauge("orphan_messages", text, ["topic"], [([topic], count) for topic, count in orphans.items()])
    text = "Advisory locks of mqpg that strangers hold"
    yield gauge("foreign_locks", text, [], [([], len(found.overview.foreign_locks))])
    text = "Age of the oldest open transaction in the database that the role may see"
    yield gauge("oldest_transaction_seconds", text, [], [([], found.oldest_transaction)])


def _audits(found: Reading) -> Iterator[Metric]:
    audits = [one for one in found.workers if one["role"] == "audit" and one["state"] != "stopped"]
    text = "1 for the newest verdict of mqpg audit --follow, 0 for the other two"
    rows = [
        ([w["worker_id"], verdict], w["detail"].get("verdict") == verdict and w["alive"])
        for w in audits
        for verdict in _VERDICTS
    ]
    yield gauge("audit_verdict", text, ["audit", "verdict"], rows)
    age = [([w["worker_id"]], w["seen_seconds_ago"]) for w in audits]
    yield gauge("audit_heartbeat_age_seconds", "Seconds since the heartbeat of an audit", ["audit"], age)


def _reported(found: Reading, key: str) -> Iterator[tuple[list[str], Any]]:
    for one in found.workers:
        yield [one["role"], one["worker_id"]], one["detail"].get(key)


def _counter(name: str, text: str, labels: list[str], rows: Iterable[tuple[list[Any], Any]]) -> Metric:
    made = CounterMetricFamily(f"mqpg_{name}", text, labels=labels)
    for values, value in rows:
        if isinstance(value, (int, float)):
            made.add_metric([_label(one) for one in values], float(value))
    return made


def _label(value: object) -> str:
    # A lone surrogate, which JSON may hold, cannot be encoded.
    return ("" if value is None else str(value)).encode("utf-8", "backslashreplace").decode()
