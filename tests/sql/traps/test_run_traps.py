"""The traps of _decide_run(): a run of half messages of one record batch is decided at once, or not
at all. Each scenario holds, and shows the damage without its rule.
"""

import psycopg
import pytest

from tests.support.broker import Broker, Session, seconds
from tests.support.mutation import mutate, only_if, without
from tests.support.waiting import eventually


def prepared(mq: Session, n: int = 5, topic: str = "one", **named: object) -> list[str]:
    return [row[0] for row in mq.call("prepare_batch", topic, [str(i) for i in range(n)], "pg", **named)]


def decided(mq: Session, handles: list[str], function: str = "commit_batch") -> list[str]:
    return [row.outcome for row in mq.call(function, handles)]


def racing_run_and_single(mq: Session, broker: Broker, *, stands: bool) -> tuple[list[str], int]:
    """Commit five halves as a run while another session has rolled back the one in the middle."""
    other = broker.session()
    handles = prepared(mq)
    with mq.transaction() as tx:
        mq.rollback(handles[2])
        racing = broker.blocked(other, decided, other, handles)
        tx.force_rollback = not stands
    return racing.result(45), mq.append()


@without(("_decide_run", "when unique_violation then return false;", "when unique_violation then return true;"))
def test_trap_a_run_that_meets_a_decision_is_decided_one_by_one(mq: Session, broker: Broker, mutant: bool) -> None:
    said, moved = racing_run_and_single(mq, broker, stands=True)
    if mutant:
        assert (said, moved) == (["committed"] * 5, 0), "it says committed of what nobody delivers"
    else:
        assert said == ["committed", "committed", "already_rolled_back", "committed", "committed"]
        assert moved == 4


def test_trap_a_run_that_waited_for_nothing_is_decided_at_once(mq: Session, broker: Broker) -> None:
    assert racing_run_and_single(mq, broker, stands=False) == (["committed"] * 5, 5)


@without(
    (
        "_decide_run",
        "from generate_series(0, v_n - 1) as i; exception",
        "from generate_series(v_n - 1, 0, -1) as i; exception",
    )
)
def test_trap_a_run_takes_its_keys_in_the_order_of_all(mq: Session, broker: Broker, mutant: bool) -> None:
    """Decide a run, and the same halves one by one from the last to the first.

    A third session holds the half in the middle until both wait.
    """
    handles = prepared(mq)
    run, reversed_ = broker.session(), broker.session()
    with mq.transaction(force_rollback=True):
        mq.commit(handles[2])
        a = broker.blocked(run, decided, run, handles)
        b = broker.blocked(reversed_, decided, reversed_, handles[::-1], "rollback_batch")
    with only_if(mutant, pytest.raises(psycopg.errors.DeadlockDetected)):
        assert [f.result(45) for f in (a, b)] == [["committed"] * 5, ["already_committed"] * 5]


def test_trap_a_run_that_lost_gives_its_keys_back(mq: Session, broker: Broker) -> None:
    """Another session decides the first half while the run, which lost the last one, is still open.

    So nobody waits for a call that only tries.
    """
    run, other = broker.session(), broker.session("set lock_timeout = '1 s'")
    handles = prepared(mq)
    mutate(mq, "_decide_batch", "v_named from mqpg._handle_ids(", "v_named from mqpg._paused(")
    mq.execute(
        "create function mqpg._paused(handles text[]) returns table (place bigint, handle text, message_id bigint)"
        " language plpgsql as $$ begin perform pg_advisory_xact_lock(42); perform pg_advisory_unlock(42);"
        " return query select * from mqpg._handle_ids(handles); end $$"
    )
    mq.execute("select pg_advisory_lock(42)")
    with mq.transaction():
        mq.rollback(handles[4])
        racing = broker.blocked(run, decided, run, handles)
    # it lost, and waits before the general way
    waits = "select from pg_locks where pid = %s and locktype = 'advisory' and objid = 42 and not granted"
    eventually(lambda: mq.rows(waits, run.pid))
    assert other.rollback(handles[0]) == "rolled_back"
    mq.execute("select pg_advisory_unlock(42)")
    assert racing.result(45) == ["already_rolled_back", "committed", "committed", "committed", "already_rolled_back"]


@without(
    ("_decide_run", "or _decide_run.handles <> array(", "or _decide_run.handles[1:1] <> array("),
    ("_decide_run", "from generate_series(0, v_n - 1) as i) then", "from generate_series(0, 0) as i) then"),
)
def test_trap_every_handle_of_a_run_is_compared(mq: Session, mutant: bool) -> None:
    """Otherwise whoever knows one handle decides its neighbours."""
    handles = prepared(mq)
    said = decided(mq, [*handles[:2], handles[2][:-32] + "0" * 32, *handles[3:]])
    assert said == ["committed", "committed", "committed" if mutant else "unknown", "committed", "committed"]


@without(("_decide_run", "and l.delay is null", ""))
def test_trap_a_run_with_a_delay_is_delivered_late(mq: Session, mutant: bool) -> None:
    decided(mq, prepared(mq, delay=seconds(3600)))
    assert mq.append() == (5 if mutant else 0)


@without(("_decide_run", "and l.relay is null", ""))
def test_trap_a_run_of_a_relay_topic_sends_its_phases(mq: Session, mutant: bool) -> None:
    """Otherwise consumers keep the PREPARE for ever."""
    mq.call("create_topic", "relayed", queues=1, kind="relay")
    handles = prepared(mq, topic="relayed")
    mq.append()
    decided(mq, handles, "rollback_batch")
    assert mq.append() == (0 if mutant else 5)


@without(
    (
        "_decide_run",
        """and not exists ( select from mqpg.op_log o
            where o.message_id >= v_first and o.message_id <= v_last and o.stage = 0)""",
        "",
    )
)
def test_trap_a_run_looks_before_it_writes(mq: Session, mutant: bool) -> None:
    """A repeated call writes nothing: rows that were undone stay until vacuum."""
    handles = prepared(mq)
    decided(mq, [handles[4]])
    written = "select pg_stat_get_xact_tuples_inserted(c.oid) from pg_class c where c.relname = 'op_log_1'"
    with mq.transaction():
        before = int(mq.scalar(written))
        assert decided(mq, handles)[4] == "already_committed"
        rows = int(mq.scalar(written)) - before
    assert rows > 4 if mutant else rows == 4


@without(("_decide_run", "or current_setting('transaction_isolation') = 'serializable'", ""))
def test_trap_serializable_callers_do_not_look(mq: Session, broker: Broker, mutant: bool) -> None:
    """What they look at counts as read."""
    one, two = broker.session(), broker.session()
    runs = [prepared(mq) for _ in range(4)]
    with (
        only_if(mutant, pytest.raises(psycopg.errors.SerializationFailure)),
        one.transaction(),
        two.transaction(),
    ):
        for session in (one, two):
            session.execute("set transaction isolation level serializable")
        for session, handles in zip((one, two, one, two), runs, strict=True):
            decided(session, handles)
