"""Every metric: its name, type, labels and meaning. The documentation lists them from here."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METRICS", "Described"]

_GROUP = ("consumer_group", "topic")


@dataclass(frozen=True)
class Described:
    """What is known of a metric without a broker."""

    text: str  # what it measures
    labels: tuple[str, ...] = ()  # the names of its labels
    # Whether it counts in the process that reports it, and begins at 0 when that process starts again. Its name at the
    # endpoint then ends in `_total`. Otherwise it is a gauge.
    is_counter: bool = False


METRICS = {
    "up": Described("1 if the broker answered this scrape"),
    "broker_info": Described("Identity of the broker; always 1", ("broker_id", "incarnation", "release")),
    "disk_full": Described("1 if the disk of the database is full, so that nothing can be written"),
    "topic_full": Described("1: the topic or the broker is at its max_bytes, so sends fail", ("topic",)),
    "max_bytes_days_left": Described(
        "Days until max_bytes at the present rate, if there is a limit; topic is empty for the broker", ("topic",)
    ),
    "workers_alive": Described("Worker processes whose last heartbeat is at most 30 s old", ("role",)),
    "workers_active": Described("Worker processes that are at work and do not stand by", ("role",)),
    "worker_heartbeat_age_seconds": Described("Seconds since the latest heartbeat of a role", ("role",)),
    "worker_failures": Described("Iterations that failed", ("role", "worker"), is_counter=True),
    "worker_failing_seconds": Described(
        "Seconds since the first of the failures in a row of a process; 0 if it works", ("role", "worker")
    ),
    "sessions_ended": Described(
        "Sessions that a worker or consumer ended, because they were silent", ("role", "worker"), is_counter=True
    ),
    "append_backlog": Described("Batches and commits without an offset yet; 1001 means more than 1000"),
    "append_lag_seconds": Described("Age of the oldest of them in seconds; 0 if there is none"),
    "append_pass_seconds": Described("Seconds that the last pass of the appender took", ("worker",)),
    "appended_messages": Described("Messages that an appender gave their offsets", ("worker",), is_counter=True),
    "append_passes": Described("Passes of an appender", ("worker",), is_counter=True),
    "append_seconds": Described("Seconds that an appender worked", ("worker",), is_counter=True),
    "half_messages": Described(
        "Undecided half messages; the overdue ones are pending too", ("producer_group", "state")
    ),
    "producer_group_full": Described(
        "1: the group has more undecided half messages than max_undecided, so prepare fails", ("producer_group",)
    ),
    "decision_seconds": Described(
        "Seconds that the latest 200 committed half messages were undecided: average and longest", ("of",)
    ),
    "check_backs": Described(
        "Half messages that a compensator checked; ledger is empty for one in the broker's database",
        ("worker", "ledger", "verdict"),
        is_counter=True,
    ),
    "ledger_answers": Described(
        "1 if the ledger gives verdicts, 0 if it gives none or no compensator serves it", ("ledger",)
    ),
    "group_lag_messages": Described("Messages that a group has not acknowledged, in flight or not", _GROUP),
    "group_open_deliveries": Described("Deliveries that are not acknowledged yet", _GROUP),
    "group_dead_letters": Described("Dead letters; 1001 means more than 1000", _GROUP),
    "group_paused": Described("1 if the group or the topic is paused", _GROUP),
    "group_consumers": Described("Processes of mqpg consume that report", _GROUP),
    "group_oldest_unread_seconds": Described(
        "Age of the oldest message that a group has not acknowledged; 0 if there is none", _GROUP
    ),
    "group_lost_messages": Described("Messages lost by a policy within a day", (*_GROUP, "why")),
    "consumer_handled_messages": Described(
        "Messages that a handler of mqpg consume handled", (*_GROUP, "worker"), is_counter=True
    ),
    "consumer_raised_messages": Described(
        "Messages for which a handler raised, most of which are redelivered", (*_GROUP, "worker"), is_counter=True
    ),
    "table_partitions": Described("Partitions of a table", ("table",)),
    "table_bytes": Described("Size of a table on disk, with its indexes", ("table",)),
    "table_dead_tuples": Described("Dead tuples of a table, as the statistics of PostgreSQL know them", ("table",)),
    "table_live_tuples": Described("Rows of a table, as the statistics of PostgreSQL know them", ("table",)),
    "blocked_segments": Described("Drops and merges that are held up", ("state",)),
    "blocked_segment_seconds": Described("Age of the oldest of them in seconds", ("state",)),
    "pinned_segments": Described("Closed segments that unread messages pin", _GROUP),
    "pinned_bytes": Described("About how big they are", _GROUP),
    "orphan_messages": Described(
        "Messages of dropped topics that came after the drop, or can still be decided", ("topic",)
    ),
    "foreign_locks": Described("Advisory locks of mqpg that strangers hold"),
    "oldest_transaction_seconds": Described("Age of the oldest open transaction in the database that the role may see"),
    "audit_verdict": Described(
        "1 for the newest verdict of mqpg audit --follow, 0 for the other two", ("audit", "verdict")
    ),
    "audit_heartbeat_age_seconds": Described("Seconds since the heartbeat of an audit", ("audit",)),
    "scrape_seconds": Described("Seconds that this scrape took"),
}
"""Name behind `mqpg_` -> what it is."""
