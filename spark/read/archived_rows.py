"""The rows of an archive as the queries of the live tables would return them.

A file has numbers and booleans, and everything else as PostgreSQL prints it: times in UTC, arrays
and claims as text. Transaction ids are compared with snapshots here, by PostgreSQL's rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqpg.audit.archived import KEYS, Bounds

from .horizon import Horizon

__all__ = ["archived_rows", "in_bounds", "jumped_over"]

# What Spark's JDBC reader makes of a time without end.
_NEVER, _ALWAYS = "timestamp_ltz '9999-12-31 23:59:59'", "timestamp_ltz '0001-01-01 00:00:00'"
# A field of a record in PostgreSQL's notation: quoted as a whole, or not at all.
_FIELD = r'(?:^|,)("(?:[^"\\]|""|\\.)*"|[^,"]*)'


def _time(text: str) -> str:
    return (
        f"case when {text} = 'infinity' then {_NEVER} when {text} = '-infinity' then {_ALWAYS} "
        f"else cast({text} as timestamp) end"
    )


def _elements(column: str) -> str:
    return f"filter(split(translate({column}, '{{}}', ''), ','), x -> x <> '')"


def _numbers(column: str, kind: str) -> str:
    return f"transform({_elements(column)}, x -> try_cast(x as {kind}))"


def _words(column: str) -> str:
    return f"transform({_elements(column)}, x -> nullif(x, 'NULL'))"


def _seen(xid: str, snapshot: str | None, otherwise: str) -> str:
    """Return whether a snapshot sees a transaction."""
    if snapshot is None:
        return otherwise
    low, high, running = snapshot.split(":")
    seen = f"cast({xid} as bigint) < {low}L or cast({xid} as bigint) < {high}L"
    if running:
        listed = ", ".join(f"{one}L" for one in running.split(","))
        seen += f" and not array_contains(array({listed}), cast({xid} as bigint))"
    return f"({seen})"


def _claims(column: str) -> str:
    """Return claims as JSON, as `to_json` of PostgreSQL writes them."""
    # Each element of the array is quoted, because a record has commas.
    quote = "'\"'"
    records = f"""regexp_extract_all({column}, r'"((?:[^"\\\\]|\\\\.)*)"', 1)"""
    plain = f"transform({records}, x -> regexp_replace(x, r'\\\\(.)', '$1'))"
    fields = f"transform({plain}, x -> regexp_extract_all(substring(x, 2, length(x) - 2), r'{_FIELD}', 1))"
    offsets = [f"if(f[{at}] = '', null, {_numbers(f'trim({quote} from f[{at}])', 'bigint')})" for at in (6, 7)]
    until = f"replace(replace(trim({quote} from f[4]), ' ', 'T'), '+00', '+00:00')"
    made = (
        "named_struct('epoch', cast(f[0] as bigint), 'from_offset', cast(f[1] as bigint), "
        f"'to_offset', cast(f[2] as bigint), 'lease_until', nullif({until}, ''), "
        f"'settled', {offsets[0]}, 'picked', {offsets[1]})"
    )
    return f"case when {column} <> '{{}}' then to_json(transform({fields}, f -> {made})) end"


def archived_rows(name: str, rows: DataFrame, horizon: Horizon) -> DataFrame:
    """The rows of a table's files with the columns of the query that reads the live table."""
    covered = f"{_seen('xid', horizon.newest_snapshot, 'false')} as covered"
    dropped = str(horizon.ticks_dropped).lower()
    seen = f"{dropped} and {_seen('xid', horizon.oldest_snapshot, 'true')}"
    state = (covered, f"({seen}) as may_be_dropped")
    columns: Mapping[str, Sequence[str]] = {
        "commit_log": (
            "batch_id * 1024 as first_id",
            *("n", "xid", "topic_id", "producer_group_id", "kind", "queue_id", "intact"),
            *(f"{_time(one)} as {one}" for one in ("born_at", "check_at")),
            f"{_words('handle_hashes')} as handle_hashes",
            f"{_numbers('key_hashes', 'bigint')} as key_hashes",
            f"{_numbers('sizes', 'int')} as sizes",
            "false as decision_gone",
            *state,
        ),
        "op_log": (
            *("message_id", "topic_id", "order_no", "stage", "op", "xid", "decided_by", "queue_id"),
            f"{_time('at')} as at",
            f"{_time('nullif(visible_at, ' + repr('infinity') + ')')} as visible_at",
            "case when visible_at = 'infinity' then deliver_id end as relayed_as",
            "case when op = 'c' and not visible_at <=> 'infinity' then deliver_id end as deliver_id",
            *state,
        ),
        "delayed": (
            *("first_id", "n", "deliver_id", "queue_id", "xid", "topic_id", "subscription_id", "attempt"),
            *(f"{_time(one)} as {one}" for one in ("written_at", "visible_at")),
            f"coalesce({_time('visible_at')} <= {_constant(horizon.newest_due)}, false) as due",
            covered,
            f"({seen} and {_time('visible_at')} <= {_constant(horizon.oldest_due)}) as may_be_dropped",
        ),
        "consume_queue": (
            *("base_offset", "tick_id", "topic_id", "subscription_id", "n", "queue_id"),
            *(f"{_numbers(one, 'bigint')} as {one}" for one in ("first_ids", "deliver_ids")),
            *(f"{_numbers(one, 'int')} as {one}" for one in ("starts", "attempts")),
        ),
        "tick": (
            "tick_id",
            "split(snapshot, ':')[1] as xmax",
            f"{_numbers('split(snapshot, ' + repr(':') + ')[2]', 'bigint')} as xip",
            *(f"{_time(one)} as {one}" for one in ("due_until", "at")),
        ),
        "cursor_history": (
            *("subscription_id", "queue_id", "slot", "version", "committed", "claimed", "epoch", "action"),
            f"{_time('at')} as at",
            f"{_claims('claims')} as claims",
        ),
        "other_half": ("batch_id * 1024 as first_id", "n"),
    }
    return rows.selectExpr(*columns[name])


def in_bounds(table: str, bounds: Sequence[Bounds]) -> str:
    """The condition that a row is in one of some ranges of its table's key."""
    key = KEYS[table]
    if table == "delayed":
        ranges = [f"{_time(key)} >= {_constant(low)} and {_time(key)} < {_constant(high)}" for low, high in bounds]
    else:
        ranges = [f"{key} >= {low}L and {key} < {high}L" for low, high in bounds]
    return " or ".join(f"({one})" for one in ranges) or "false"


def jumped_over(jumps: DataFrame, queue_rows: DataFrame) -> DataFrame:
    """List the messages in archived queues that groups were moved over, or back.

    `jumps` are rows of (subscription_id, topic_id, queue_id, from_offset, to_offset, back), and the result
    has (subscription_id, message_id, back).
    """
    runs = queue_rows.withColumnRenamed("subscription_id", "lane").withColumn("end", F.expr("base_offset + n"))
    lane = F.when(F.col("queue_id") == -1, F.col("subscription_id")).otherwise(F.lit(0))
    found = F.broadcast(jumps.withColumn("lane", lane)).join(runs, ["topic_id", "queue_id", "lane"])
    found = found.where("base_offset < to_offset and end > from_offset")
    ends = F.expr("concat(slice(starts, 2, greatest(size(starts) - 1, 0)), array(n))").alias("ends")
    run = F.explode(F.arrays_zip("first_ids", "starts", ends)).alias("run")
    found = found.select("subscription_id", "back", "from_offset", "to_offset", "base_offset", run)
    place = F.explode(F.expr("sequence(run.starts, run.ends - 1)")).alias("place")
    found = found.where("run.ends > run.starts").select("*", place)
    found = found.where("base_offset + place >= from_offset and base_offset + place < to_offset")
    return found.selectExpr("subscription_id", "run.first_ids + place - run.starts as message_id", "back")


def _constant(time: str | None) -> str:
    return "cast(null as timestamp)" if time is None else _time(f"'{time}'")
