"""Rows of `mqpg.segment` stay few over the years, and every question about old segments has the same answer."""

from typing import Any, LiteralString

import pytest

from tests.support.broker import Session
from tests.support.retention import early_in_the_hour, keep

pytestmark = pytest.mark.own_database

# Which messages an audit takes for dropped: read/horizon.sql of the audit.
DROPPED_SEGMENTS: LiteralString = """
select s.lower_bound * 1024 as first_id, s.upper_bound * 1024 - 1 as last_id
from mqpg_audit.segment s where s.family = 'log' and (s.dropped_at is not null or s.left_out <> '{}')
"""
YEARS = 10
SEGMENTS = YEARS * 365 * 4  # one every six hours
FAMILIES = ("log", "tick", "cursor", "delayed", "dedup")

# Ten years of segments of which nothing is left, every 5000th behind a gap in the ids, and a segment
# in use behind them.
_OLD: LiteralString = """
insert into mqpg.segment (
    family, segment_no, lower_bound, upper_bound, made_at, opened_at, closed_at, tails_noted_at, body_dropped_at,
    dropped_at)
select f.family, k.no, b.lower_bound, b.upper_bound, k.at, k.at, k.at + interval '6 hours', k.at + interval '6 hours',
    k.at + interval '8 days', k.at + interval '40 days'
from unnest(%s::text[]) as f(family)
cross join lateral (
    select 10 + i as no, clock_timestamp() - interval '41 days' - (%s - i) * interval '6 hours' as at
    from generate_series(1, %s) i) as k
cross join lateral (
    select case when f.family = 'delayed' then to_char(k.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
            else (100000000 + k.no * 1000 + case when k.no %% 5000 = 0 then 500 else 0 end)::text end as lower_bound,
        case when f.family = 'delayed'
            then to_char((k.at + interval '6 hours') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
            else (100000000 + k.no * 1000 + 1000)::text end as upper_bound
) as b
"""


def old_segments(mq: Session) -> None:
    """Ten years of dropped segments; those that the installation made stay as they are."""
    mq.execute(_OLD, list(FAMILIES), SEGMENTS, SEGMENTS)


def handles(mq: Session) -> list[str]:
    """Handles of half messages that were born in these years, at both ends of segments and in gaps."""
    ids = [
        (100000000 + no * 1000 + offset) * 1024 + place
        for no in [*range(1, SEGMENTS + 12, 997), 5000, 10000]
        for offset in (0, 499, 500, 999)
        for place in (0, 1023)
    ]
    return [row[0] for row in mq.rows("select mqpg._handle(1, i, gen_random_uuid()) from unnest(%s::bigint[]) i", ids)]


def answers(mq: Session, asked: list[str]) -> dict[str, Any]:
    """What is answered from rows of dropped segments."""
    ticks = "family = 'tick' and body_dropped_at is not null"
    ranges = mq.rows(DROPPED_SEGMENTS)
    return {
        "states": [(row.handle, row.state, row.message_id) for row in mq.call("half_states", asked)],
        "ids": mq.scalar(
            "select range_agg(int8range(first_id, last_id, '[]'))::text from"
            " unnest(%s::bigint[], %s::bigint[]) as u(first_id, last_id)",
            [row.first_id for row in ranges],
            [row.last_id for row in ranges],
        ),
        "ticks": mq.rows(f"select max(upper_bound::bigint), count(*) > 0 from mqpg.segment where {ticks}"),
        "next": mq.rows("select family, max(segment_no) from mqpg.segment group by 1 order by 1"),
        "decidable": mq.scalar("select mqpg._decidable_from()"),
        "recent": mq.scalar("select mqpg._recent_tick()"),
        "bases": mq.rows(
            "select segment_no, mqpg._expiry_base(s) from mqpg.segment s where family = 'log' and closed_at is not null"
            " and dropped_at is null order by 1"
        ),
    }


def counts(mq: Session) -> dict[str, int]:
    return dict(mq.rows("select family, count(*) from mqpg.segment group by 1"))


def test_ten_years_of_segments_leave_few_rows_and_every_answer(mq: Session) -> None:
    old_segments(mq)
    # A closed segment of the log that was never dropped, because halves in it are undecided: what
    # it counts its retention from is a tick segment that was dropped nine years ago.
    mq.execute(
        "update mqpg.segment set body_dropped_at = null, dropped_at = null, tails_noted_at = null"
        " where family = 'log' and segment_no = 700"
    )
    asked = handles(mq)
    before = answers(mq, asked)
    assert {state for _, state, _ in before["states"]} == {"forgotten", "unknown"}
    assert min(counts(mq).values()) > SEGMENTS
    largest = 0
    for _ in range(200):
        rows = mq.call("_fold_segments")
        if not rows:
            break
        largest = max(largest, *(int(row.detail.split()[0]) for row in rows))
    assert largest == 1000  # a small step
    assert answers(mq, asked) == before
    assert {family: n for family, n in counts(mq).items() if n > 120} == {}


def test_keep_folds_rows_until_few_are_left_and_then_stops(mq: Session) -> None:
    early_in_the_hour(mq)
    old_segments(mq)
    assert [row for row in keep(mq, 60) if row[:2] == ("purged", "segment")]
    assert max(counts(mq).values()) <= 120
    before = counts(mq)
    assert not [row for row in keep(mq) if row[0] == "purged"]
    assert counts(mq) == before


def test_the_notes_of_ended_retry_lanes_go(mq: Session) -> None:
    mq.execute(
        "insert into mqpg.queue_tail (topic_id, queue_id, subscription_id) select topic_id, -1, 999999 from mqpg.topic"
    )
    mq.execute("update mqpg.segment set closed_at = clock_timestamp() where family = 'tick' and segment_no = 1")
    mq.call("_note_tails")
    assert mq.scalar("select count(*) from mqpg.queue_tail where subscription_id = 999999") == 0
