"""What a role with one right may store or ask for is bounded."""

from __future__ import annotations

import pytest

from tests.support.broker import Session, refused


def beat(mq: Session, worker_id: str = "consumer-1", detail: str = "{}", host: str = "h") -> None:
    mq.execute(
        "select mqpg._heartbeat(%s::text, 'consumer', %s::text, 1, 'active', %s::jsonb)", worker_id, host, detail
    )


@pytest.mark.parametrize(
    "given",
    [
        {"detail": '{"x": "' + "".join(chr(33 + i * 7919 % 90) for i in range(200_000) if chr(33 + i * 7919 % 90) not in '"\\')
         + '"}'},
        {"worker_id": "consumer-" + "x" * 2000},
        {"host": "x" * 2000},
    ],
    ids=["detail", "worker_id", "host"],
)  # fmt: skip
def test_a_heartbeat_is_small(given: dict[str, str], mq: Session) -> None:
    mq.execute("alter table mqpg.worker alter column detail set storage external")
    with refused("MQ001"):
        beat(mq, **given)


DEEP = f'{{"a": {"[" * 2000}{"]" * 2000}}}'


@pytest.mark.parametrize("detail", ["[]", '"x"', '{"handled": 1e5000}', '{"a": [{"b": -1e4001}]}', DEEP], ids=range(5))
def test_a_heartbeat_can_be_read(detail: str, mq: Session) -> None:
    """Python reads no such number and no such depth, and all heartbeats are read at once."""
    with refused("MQ001"):
        beat(mq, detail=detail)
    beat(mq, detail='{"a": [{"b": -1e4000}], "c": {"d": {"e": {"f": [[[[1]]]]}}}}')


def test_a_role_has_so_many_rows(mq: Session) -> None:
    beat(mq)
    mq.execute(
        "insert into mqpg.worker (worker_id, role, host, pid, state, reported_by)"
        " select 'consumer-' || i, 'consumer', 'h', 1, 'active', w.reported_by"
        " from generate_series(2, 10000) as i cross join mqpg.worker as w"
    )
    beat(mq)
    with refused("MQ001"):
        beat(mq, "consumer-new")


def test_a_window_of_offsets(mq: Session) -> None:
    assert len(mq.call("_wanted_offsets", "g", "one", 0, 0, 1000)) == 1000
    with refused("MQ001"):
        mq.call("_wanted_offsets", "g", "one", 0, 0, 10**9)


def test_what_a_filter_chooses_of_a_large_range_is_found_in_time(mq: Session) -> None:
    """If each offset were compared with each chosen one, it would take most of a minute."""
    mq.call("subscribe", "f", "one", filter="$ == 1")
    many = "(select array_agg((i % 2)::text) from generate_series(0, 9999) i)"
    for _ in range(10):
        mq.execute(f"select count(*) from mqpg.send_batch('one', {many})")
    mq.append()
    mq.execute("set statement_timeout = '20s'")
    assert [row[0] for row in mq.call("_wanted_offsets", "f", "one", 0, 0, 100000)] == list(range(1, 100000, 2))
