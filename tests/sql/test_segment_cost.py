"""What append and receive open does not grow with the number of segments."""

from typing import Any

import pytest

from tests.support.broker import Broker, Session

pytestmark = pytest.mark.own_database  # segments roll

_OPENED = """
select coalesce(max(n), 0) from (
    select count(*) as n from pg_locks as l join pg_class as c on c.oid = l.relation
    where l.pid = pg_backend_pid() and l.locktype = 'relation' and c.relkind = 'i'
    group by regexp_replace(c.relname, '\\d+', '')
) as k
"""
_SEGMENTS = """
select least(count(*) filter (where family = 'log'), count(*) filter (where family = 'tick'))
from mqpg.segment where dropped_at is null
"""
# append() looks for halves once a second, and not in a second with two ticks.
_LONG_AGO = "update mqpg.half_tick set at = at - interval '1 hour'; update mqpg.tick set at = at - interval '1 hour'"


def segments(mq: Session, wanted: int) -> None:
    """Roll until there are so many segments, all of which a topic of a year needs."""
    while mq.scalar(_SEGMENTS) < wanted:
        mq.sent("one", "1")
        for age in ("0 s", "1 day"):
            mq.execute("update mqpg.settings set value = %s where name = 'segment_age'", age)
            mq.execute("select * from mqpg.keep()")


def opened(broker: Broker, mq: Session) -> dict[str, int]:
    """Return in how many partitions of a table a call opens the same index.

    The executor locks an index only where it opens it, so partitions that it leaves out add none.
    The least of several calls counts, because a call that makes its plans opens all.
    """
    session = broker.session()
    found: dict[str, list[int]] = {"append": [], "receive": [], "empty": []}
    for _ in range(4):
        for name, opens in found.items():
            if name != "empty":
                mq.send("one", "1")
            if name == "receive":
                mq.append()
            mq.execute(_LONG_AGO)
            with session.transaction():
                rows: Any = session.append() if name == "append" else session.receive("one", max_messages=1000)
                opens.append(session.scalar(_OPENED))
            assert bool(rows) == (name != "empty")
            if name == "receive":
                session.ack(rows[0].receipt)
    return {name: min(opens) for name, opens in found.items()}


def test_append_and_receive_open_the_newest_of_twelve_segments(brisk: Session, broker: Broker) -> None:
    """Without half messages append looked for some in every segment of the log."""
    brisk.execute("update mqpg.topic set retention = '365 days'")
    segments(brisk, 12)
    assert max(opened(broker, brisk).values()) <= 4  # the last two, and two that are made ahead


def test_append_looks_for_halves_behind_a_closed_segment_only(brisk: Session) -> None:
    """A few half ticks move the id from which on it looks. Then it stores no more of them."""
    brisk.execute("update mqpg.topic set retention = '365 days'")
    segments(brisk, 5)
    noted = []
    for _ in range(6):
        brisk.send("one", "1")
        brisk.execute(_LONG_AGO)
        brisk.append()
        noted.append(brisk.scalar("select count(*) from mqpg.half_tick"))
    assert noted[2:] == [noted[2]] * 4
    assert brisk.scalar(
        "select (select floor_id from mqpg.half_tick order by half_tick_id desc limit 1) >= lower_bound::bigint"
        " from mqpg.segment where family = 'log' and opened_at is not null order by segment_no desc offset 1 limit 1"
    )
