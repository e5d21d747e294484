"""Half messages of one record batch that one call decides: at once where it can, else one by one.

The answers are the same either way. `decided_at_once` tells the two apart: what was decided at once
was written in a subtransaction.
"""

from typing import Any

import pytest

from tests.support.broker import Broker, Session, message_id, refused, seconds
from tests.support.retention import keep, retain, roll
from tests.support.waiting import eventually

_AT_ONCE = "select message_id from mqpg.op_log where xmin::text::bigint <> xid::text::bigint % 4294967296"


def halves(mq: Session, n: int = 6, topic: str = "one", **named: object) -> list[str]:
    return [row[0] for row in mq.call("prepare_batch", topic, [str(i) for i in range(n)], "pg", **named)]


def message_ids(handles: list[str]) -> list[int]:
    return sorted(map(message_id, handles))


def outcomes(rows: list[Any]) -> list[str]:
    return [row.outcome for row in rows]


def decided_at_once(mq: Session) -> list[int]:
    return sorted(row.message_id for row in mq.rows(_AT_ONCE))


def delivered(mq: Session, topic: str = "one") -> list[int]:
    """Append, and return the ids of what came, in the order in which it came."""
    return [row.message_id for row in mq.delivered(topic)]


# which handles are decided at once


@pytest.mark.parametrize("part", [slice(None), slice(0, 2), slice(2, 5), slice(4, None)])
def test_consecutive_halves_of_a_record_batch_are_decided_at_once(mq: Session, part: slice) -> None:
    handles = halves(mq)
    mine = handles[part]
    assert [tuple(row) for row in mq.call("commit_batch", mine)] == [(h, "committed") for h in mine]
    assert decided_at_once(mq) == message_ids(mine)
    assert outcomes(mq.call("rollback_batch", mine)) == ["already_committed"] * len(mine)
    rest = [h for h in handles if h not in mine]
    assert outcomes(mq.call("rollback_batch", rest)) == ["rolled_back"] * len(rest)
    assert delivered(mq) == message_ids(mine)


def test_halves_with_keys_of_one_queue_are_decided_at_once(mq: Session) -> None:
    handles = halves(mq, topic="t", keys=["k"] * 6)
    assert set(outcomes(mq.call("rollback_batch", handles))) == {"rolled_back"}
    assert decided_at_once(mq) == message_ids(handles)


@pytest.mark.parametrize("part", [slice(None, None, -1), slice(1, None, 2), slice(3, 4)])
def test_other_orders_and_gaps_are_decided_one_by_one(mq: Session, part: slice) -> None:
    mine = halves(mq)[part]
    assert [tuple(row) for row in mq.call("commit_batch", mine)] == [(h, "committed") for h in mine]
    assert decided_at_once(mq) == []
    assert delivered(mq) == message_ids(mine)


def test_handles_of_two_record_batches_that_are_neighbours(mq: Session) -> None:
    handles = halves(mq) + halves(mq)
    assert set(outcomes(mq.call("commit_batch", handles))) == {"committed"}
    assert decided_at_once(mq) == []
    full = [row[0] for row in mq.call("prepare_batch", "one", ["1"] * 1025, "pg")]
    assert message_id(full[1024]) - message_id(full[1023]) == 1, "they are neighbours as numbers"
    assert set(outcomes(mq.call("commit_batch", full[1000:]))) == {"committed"}
    assert decided_at_once(mq) == []
    assert len(delivered(mq)) == 12 + 25


def test_a_run_that_goes_beyond_its_record_batch(mq: Session) -> None:
    handles = halves(mq, 3)
    broker_id, incarnation, last, nonce = handles[-1].split(".")
    invented = f"{broker_id}.{incarnation}.{int(last) + 1}.{nonce}"
    assert outcomes(mq.call("commit_batch", [*handles, invented])) == ["committed"] * 3 + ["unknown"]


@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_forged_handle_decides_nothing_but_its_neighbours(mq: Session, place: int) -> None:
    handles = halves(mq)
    forged = handles[place][:-1] + ("0" if handles[place][-1] != "0" else "1")
    rows = mq.call("commit_batch", [*handles[:place], forged, *handles[place + 1 :]])
    assert outcomes(rows) == ["unknown" if i == place else "committed" for i in range(6)]
    assert outcomes(mq.call("commit_batch", [handles[place], forged])) == ["committed", "unknown"]


def test_texts_that_only_look_alike_are_unknown(mq: Session) -> None:
    handles = halves(mq, 2)
    broker_id, incarnation, number, nonce = handles[0].split(".")
    for first in (
        f"{broker_id}.{incarnation}.0{number}.{nonce}",
        f"{broker_id}.{incarnation}.{number}.{nonce.upper()}",
        f"{broker_id}.{int(incarnation) + 1}.{number}.{nonce}",
        f"{handles[0]} ",
        "",
    ):
        if first != handles[0]:  # a nonce may be without letters
            assert outcomes(mq.call("commit_batch", [first, "x"])) == ["unknown", "unknown"]
    assert set(outcomes(mq.call("commit_batch", handles))) == {"committed"}


def test_a_handle_twice_is_decided_once(mq: Session) -> None:
    handles = halves(mq, 3)
    assert outcomes(mq.call("commit_batch", [*handles, handles[1]])) == ["committed"] * 3 + ["already_committed"]
    assert delivered(mq) == message_ids(handles)


def test_an_array_that_does_not_begin_at_one(mq: Session) -> None:
    handles = halves(mq, 3)
    text = "[0:2]={" + ",".join(handles) + "}"
    rows = mq.rows("select * from mqpg.commit_batch(%s::text[])", text)
    assert [tuple(row) for row in rows] == [(h, "committed") for h in handles]


@pytest.mark.parametrize("decide", ["commit", "rollback"])
@pytest.mark.parametrize("place", [0, 3, 5])
def test_a_record_batch_of_which_one_is_decided(mq: Session, decide: str, place: int) -> None:
    handles = halves(mq)
    mq.value(decide, handles[place])
    said = {"commit": "already_committed", "rollback": "already_rolled_back"}[decide]
    assert outcomes(mq.call("commit_batch", handles)) == [said if i == place else "committed" for i in range(6)]
    assert decided_at_once(mq) == []
    assert len(delivered(mq)) == 5 + (decide == "commit")


def test_repeating_a_call_writes_nothing(mq: Session) -> None:
    handles = halves(mq)
    mq.call("commit_batch", handles)
    written = "select pg_stat_get_xact_tuples_inserted(c.oid) from pg_class c where c.relname = 'op_log_1'"
    with mq.transaction():
        before = mq.scalar(written)
        assert outcomes(mq.call("commit_batch", handles)) == ["already_committed"] * 6
        assert mq.scalar(written) == before, "rows that were undone stay until vacuum"


# what the general way is left to


def test_halves_with_a_delay_count_it_from_the_commit(mq: Session) -> None:
    handles = halves(mq, delay=seconds(0.05))
    assert set(outcomes(mq.call("commit_batch", handles))) == {"committed"}
    assert decided_at_once(mq) == []
    assert mq.scalar("select count(*) from mqpg.delayed") == 6
    mq.execute("select pg_sleep_until(max(visible_at)) from mqpg.delayed")
    assert delivered(mq) == message_ids(handles)


def test_halves_of_a_relay_topic_send_their_phases(mq: Session) -> None:
    mq.subscribed("relayed", kind="relay")
    assert set(outcomes(mq.call("commit_batch", halves(mq, 3, "relayed")))) == {"committed"}
    assert decided_at_once(mq) == []
    assert len(delivered(mq, "relayed")) == 6, "a PREPARE and a COMMIT of each"


@pytest.mark.own_database  # segments roll
def test_halves_that_survive_their_segment(mq: Session) -> None:
    handles, later = halves(mq, 4), halves(mq, 4)
    mq.execute("select mqpg._enqueue_halves_now('test')")
    retain(mq, "0 s")

    def survived() -> bool:
        roll(mq)
        keep(mq)
        return int(mq.scalar("select count(*) from mqpg.held where kind = 'h'")) == 8

    eventually(survived)
    retain(mq, "7 days")
    assert set(outcomes(mq.call("commit_batch", handles))) == {"committed"}
    assert set(outcomes(mq.call("rollback_batch", later))) == {"rolled_back"}
    assert decided_at_once(mq) == []
    assert outcomes(mq.call("rollback_batch", handles)) == ["already_committed"] * 4
    assert delivered(mq) == message_ids(handles)


# transactions, savepoints, isolation levels


def test_a_run_that_was_rolled_back_can_be_decided_otherwise(mq: Session) -> None:
    handles = halves(mq)
    with mq.transaction():
        with mq.transaction(force_rollback=True):
            assert set(outcomes(mq.call("commit_batch", handles))) == {"committed"}
            assert set(outcomes(mq.call("rollback_batch", handles))) == {"already_committed"}
        assert set(outcomes(mq.call("rollback_batch", handles))) == {"rolled_back"}
    assert delivered(mq) == []
    with mq.transaction(force_rollback=True):
        mq.call("commit_batch", halves(mq))
    assert delivered(mq) == []


def test_a_transaction_prepares_and_decides_runs_among_its_sends(mq: Session) -> None:
    with mq.transaction():
        before = mq.send("one", "1", key="k")
        handles = halves(mq, keys=["k"] * 6)
        mq.commit(handles[2])
        mq.call("commit_batch", handles)
        mine = halves(mq, keys=["k"] * 6)
        mq.call("commit_batch", mine)
        after = mq.send("one", "1", key="k")
    assert decided_at_once(mq) == message_ids(mine)
    rest = message_ids([*handles[:2], *handles[3:]])
    assert delivered(mq) == [before, message_id(handles[2]), *rest, *message_ids(mine), after]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_a_run_by_a_caller_of_each_isolation_level(mq: Session, level: str) -> None:
    handles = halves(mq)
    mq.execute(f"set default_transaction_isolation = '{level}'")
    assert set(outcomes(mq.call("commit_batch", handles))) == {"committed"}
    assert set(outcomes(mq.call("rollback_batch", handles))) == {"already_committed"}
    mq.execute("reset default_transaction_isolation")
    assert decided_at_once(mq) == ([] if level == "serializable" else message_ids(handles))
    assert delivered(mq) == message_ids(handles)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_run_with_an_old_snapshot_is_not_told_a_lie(mq: Session, other: Session, level: str) -> None:
    """It cannot see the decision that it lost to, so it gets an error that says to retry."""
    handles = halves(mq)
    with refused("40001"), other.transaction():
        other.execute(f"set transaction isolation level {level}")
        other.execute("select 1 from mqpg.topic")
        mq.rollback(handles[3])
        other.call("commit_batch", handles)
    assert delivered(mq) == []
    assert outcomes(other.call("commit_batch", handles))[3] == "already_rolled_back"


def test_a_run_that_may_not_wait(mq: Session, broker: Broker) -> None:
    impatient = broker.session("set lock_timeout = '50 ms'")
    handles = halves(mq)
    with mq.transaction():
        mq.commit(handles[5])
        with refused("55P03"):
            impatient.call("rollback_batch", handles)
        assert set(outcomes(impatient.call("rollback_batch", handles[:5]))) == {"rolled_back"}
    assert delivered(mq) == [message_id(handles[5])]
