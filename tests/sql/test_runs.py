"""What lies at each offset, in every range of a queue, however the messages came into it."""

import random
from collections.abc import Callable

import pytest

from tests.support.broker import Session

Way = Callable[[Session, random.Random], object]


def single(mq: Session, rng: random.Random) -> object:
    return mq.send("one", str(rng.randrange(100)))


def batch(mq: Session, rng: random.Random) -> object:
    return mq.send_batch("one", [str(n) for n in range(rng.randint(2, 4))])


def half(mq: Session, rng: random.Random) -> object:
    return mq.commit(mq.prepare("one", "1"))


def half_with_another_payload(mq: Session, rng: random.Random) -> object:
    return mq.commit(mq.prepare("one", "1"), '"final"')


WAYS: dict[str, tuple[Way, ...]] = {
    "singles": (single,),
    "halves": (half,),
    "final payloads": (half_with_another_payload,),
    "singles and final payloads": (single, half_with_another_payload),
    "all": (single, batch, half, half_with_another_payload),
}


@pytest.mark.parametrize("ways", list(WAYS))
def test_every_range_has_the_same_messages_at_its_offsets(mq: Session, ways: str) -> None:
    """Ticks of one message and of several, read in ranges that begin and end anywhere."""
    rng = random.Random(ways)
    for _ in range(6):
        for _ in range(rng.choice((1, 2, 4))):
            rng.choice(WAYS[ways])(mq, rng)
        mq.append()
    stored = mq.rows(
        "select c.base_offset + u.start + s.i as queue_offset, u.first_id + s.i as id,"
        " coalesce(u.deliver_id, u.first_id) + s.i as body from mqpg.consume_queue c"
        " cross join unnest(c.first_ids, c.starts, c.deliver_ids) with ordinality as u(first_id, start, deliver_id, nth)"
        " cross join generate_series(0, coalesce(c.starts[u.nth + 1], c.n) - u.start - 1) as s(i)"
        " where c.queue_id = 0 order by queue_offset"
    )
    everything = [(row.queue_offset, row.id, row.body) for row in stored]
    assert len(everything) >= 6
    for first in range(len(everything)):
        for end in range(first + 1, len(everything) + 1):
            found = mq.rows(
                "select u.first_offset + s.i as queue_offset, u.id + s.i as id, u.body + s.i as body"
                " from mqpg.topic t, mqpg._runs(t.topic_id, 0, 0, %s, %s) as r,"
                " unnest(r.ids, r.bodies, r.offsets, r.lengths) as u(id, body, first_offset, n),"
                " generate_series(0, u.n - 1) as s(i)"
                " where t.name = 'one' and u.body / 1024 between r.lowest and r.highest order by queue_offset",
                first,
                end,
            )
            assert [(row.queue_offset, row.id, row.body) for row in found] == everything[first:end]
