"""The traps of decisions, dedup ids and check-backs: each scenario holds, and shows the damage without its rule."""

import psycopg
import pytest

from tests.support.broker import Broker, Session, messages_by_queue, refused, seconds
from tests.support.mutation import mutate, only_if, without
from tests.support.retention import early_in_the_hour

# the first decision remains: insert, then look, in two statements


@without(
    # A look in the snapshot of the insert does not see the row that the insert waited for.
    ("_decide", "select o.op into strict v_standing from mqpg.op_log o where o.message_id = v_id and o.stage = 0;", ""),
    (
        "_decide",
        "insert into mqpg.op_log (message_id, stage,",
        """select o.op into v_standing from mqpg.op_log o where o.message_id = v_id and o.stage = 0;
        insert into mqpg.op_log (message_id, stage,""",
    ),
)
def test_trap_the_standing_decision_is_looked_up_after_the_wait(mq: Session, broker: Broker, mutant: bool) -> None:
    other = broker.session()
    handle = mq.prepare("one", "1")
    with mq.transaction():
        mq.commit(handle)
        racing = broker.blocked(other, other.rollback, handle)
    said = "already_rolled_back" if mutant else "already_committed"
    assert (racing.result(45), mq.append()) == (said, 1), "it says rolled back of what is delivered"


@without(
    ("_decide_batch", "v_xid xid8;", "v_xid xid8; v_seen pg_snapshot := pg_current_snapshot();"),
    (
        "_decide_batch",
        "where l.message_id = u.id and l.stage = 0",
        "where l.message_id = u.id and l.stage = 0 and pg_visible_in_snapshot(l.xid, v_seen)",
    ),
)
def test_trap_the_standing_decision_of_a_batch(mq: Session, broker: Broker, other: Session, mutant: bool) -> None:
    handle = mq.prepare("one", "1")
    with mq.transaction():
        mq.commit(handle)
        racing = broker.blocked(other, other.call, "rollback_batch", [handle])
    said = "already_rolled_back" if mutant else "already_committed"
    assert (racing.result(45)[0].outcome, mq.append()) == (said, 1), "it says rolled back of what is delivered"


MUTANTS = {
    "commit": (
        "_decide",
        "if not found then select o.op into strict",
        "if not found and _decide.payload is null then select o.op into strict",
    ),
    "commit_batch": ("_store_finals", "h.id = any(_store_finals.decided) and", ""),
}


@pytest.mark.parametrize("function", MUTANTS)
@without()
def test_trap_a_lost_decision_writes_no_final_payload(mq: Session, broker: Broker, function: str, mutant: bool) -> None:
    """Commit twice with a final payload each: nobody delivers the second one."""
    if mutant:
        mutate(mq, *MUTANTS[function])
    other = broker.session()
    handle = mq.prepare("one", "1")
    second = {"commit": (handle, '"second"'), "commit_batch": ([handle], ['"second"'])}[function]
    with mq.transaction():
        mq.commit(handle, '"first"')
        racing = broker.blocked(other, other.call, function, *second)
    assert racing.result(45)[0].outcome == "already_committed" if function == "commit_batch" else racing.result(45)
    mq.append()
    assert [m.payload for m in mq.receive("one")] == ["first"]
    assert mq.scalar("select count(*) from mqpg.commit_log where kind = 'f'") == (2 if mutant else 1)


@without(
    (
        "_decide_batch",
        "order by h.id on conflict do nothing",
        "order by array_position(v_ids, h.id) on conflict do nothing",
    )
)
def test_trap_batches_of_decisions_do_not_deadlock(mq: Session, broker: Broker, mutant: bool) -> None:
    """Run two batches in opposite orders.

    A third session holds the handle in the middle until both wait.
    """
    low, middle, high = sorted((mq.prepare("one", "1") for _ in range(3)), key=lambda h: int(h.split(".")[2]))
    up, down = broker.session(), broker.session()
    with mq.transaction(force_rollback=True):
        mq.commit(middle)
        a = broker.blocked(up, up.call, "commit_batch", [low, middle, high])
        b = broker.blocked(down, down.call, "commit_batch", [high, middle, low])
    with only_if(mutant, pytest.raises(psycopg.errors.DeadlockDetected)):
        outcomes = [[r.outcome for r in f.result(45)] for f in (a, b)]
        assert outcomes == [["committed"] * 3, ["already_committed"] * 3]


# dedup ids sorted, in two slots


@without(
    ("_register_dedup_ids", "v_slot, f.m from fresh f order by f.d", "v_slot, f.m from fresh f order by f.m"),
)
def test_trap_batches_with_dedup_ids_do_not_deadlock(mq: Session, broker: Broker, mutant: bool) -> None:
    up, down = broker.session(), broker.session()
    with mq.transaction(force_rollback=True):
        mq.send("one", "1", dedup_id="m")
        a = broker.blocked(up, up.send_batch, "one", ["1"] * 3, dedup_ids=["a", "m", "z"])
        b = broker.blocked(down, down.send_batch, "one", ["1"] * 3, dedup_ids=["z", "m", "a"])
    with only_if(mutant, pytest.raises(psycopg.errors.DeadlockDetected)):
        assert a.result(45) == list(reversed(b.result(45)))
        assert mq.append() == 3


@without(
    (
        "_register_dedup_ids",
        "_register_dedup_ids.topic_id, f.d, v_slot + 1, f.m",
        "_register_dedup_ids.topic_id, 'elsewhere ' || f.m, v_slot + 1, f.m",
    )
)
def test_trap_dedup_ids_meet_across_a_slot_boundary(mq: Session, broker: Broker, mutant: bool) -> None:
    """Send an id a second time within the window, but in the next slot."""
    early_in_the_hour(mq)
    shift = "coalesce(nullif(current_setting('mqpg_test.slot', true), ''), '0')::bigint"
    mutate(
        mq,
        "_register_dedup_ids",
        "with fresh as ( select distinct",
        f"v_slot := v_slot + {shift}; with fresh as ( select distinct",
    )
    mq.send("one", "1", dedup_id="d")
    broker.session("set mqpg_test.slot = '1'").send("one", "1", dedup_id="d")
    assert mq.append() == (2 if mutant else 1)


@without(("_queue_of", "(hashint8extended(_queue_of.batch_id, 0) & 9223372036854775807)", "_queue_of.batch_id"))
def test_trap_queues_are_a_hash_of_the_batch_id(mq: Session, mutant: bool) -> None:
    """Sends and decisions draw from the sequence in turn, and the sends reach all of four queues."""
    for _ in range(40):
        mq.send("t", "1")
        mq.scalar("select nextval('mqpg.batch_id')")
    mq.append()
    assert len(messages_by_queue(mq, "t")) == (2 if mutant else 4)


# check-backs run in a READ COMMITTED transaction of their own


@pytest.mark.parametrize("call", [("due_checks", "pg"), ("compensate",), ("keep",)])
def test_trap_check_backs_refuse_a_larger_transaction(mq: Session, call: tuple[str, ...]) -> None:
    with refused("MQ015"), mq.transaction():
        mq.send("one", "1")
        mq.call(*call)
    with refused("MQ015"), mq.transaction():
        mq.execute("set transaction isolation level repeatable read")
        mq.call(*call)


def test_trap_check_backs_refuse_a_larger_transaction_mutant(mq: Session, other: Session) -> None:
    """The caller's own xid is not among its snapshot's running ones, so its half counts as looked
    at and is forgotten.
    """
    mutate(mq, "_require_own_transaction", "if pg_current_xact_id_if_assigned() is not null then", "if false then")
    with mq.transaction():
        mq.send("one", "1")
        seen = other.prepare("one", "1", check_after=seconds(0.01))
        mq.call("due_checks", "pg")
        mq.prepare("one", "2", check_after=seconds(0.01))
    other.rollback(seen)
    mq.execute("select pg_sleep(0.02)")
    assert mq.call("due_checks", "pg") == []
