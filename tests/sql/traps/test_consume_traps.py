"""The traps of consumption: each scenario holds, and shows the damage without its rule."""

from collections.abc import Callable

import psycopg
import pytest

from tests.support.broker import Broker, Session, refused, seconds, spread
from tests.support.mutation import PAUSE, Gate, mutate, only_if, without


@without(
    ("_write_cursor", "on conflict do nothing;", ";"),
    ("_claim_next", "on conflict do nothing;", ";", 2),
)
def test_trap_a_lost_race_of_cursors_is_a_serialization_failure(mq: Session, other: Session, mutant: bool) -> None:
    """A REPEATABLE READ caller receives with a snapshot from before another's receive and ack."""
    mq.sent_batch("one", ["1"] * 4)
    with pytest.raises(psycopg.errors.UniqueViolation) if mutant else refused("40001"), other.snapshot():
        mq.ack(mq.receive("one", max_messages=2)[0].receipt)
        other.receive("one")
    assert [m.queue_offset for m in mq.receive("one")] == [2, 3]


@without(
    (
        "_claim_next",
        "if not mqpg._lock_free_cursor(v_id, v_waiting.queue_id) then",
        "perform pg_advisory_xact_lock(1836150833, v_id * 1024 + v_waiting.queue_id + 1); if false then",
    )
)
def test_trap_receive_passes_over_a_locked_queue(mq: Session, broker: Broker, mutant: bool) -> None:
    """It only tries the lock: here beside a receive in a transaction that stays open."""
    spread(mq, 40)
    other = broker.session("set lock_timeout = '300ms'")
    with only_if(mutant, pytest.raises(psycopg.errors.LockNotAvailable)), mq.transaction():
        assert mq.receive("t")[0].queue_id != other.receive("t")[0].queue_id


EARLY = "for v_waiting in c_waiting loop"


@without(("_claim_next", EARLY, "_claim_next.acked := mqpg._cursor(v_id, 0); " + EARLY))
def test_trap_a_claim_is_given_once(mq: Session, broker: Broker, mutant: bool) -> None:
    """One receive stops between its look at the queue and the lock, and another one takes everything meanwhile.

    With the cursor of the look before the lock, only the cursor's key saves the claim from being given twice.
    """
    mutate(mq, "_claim_next", "if not mqpg._lock_free_cursor(", f"{PAUSE} if not mqpg._lock_free_cursor(")
    ids = mq.sent_batch("one", ["1"] * 2)
    gate = Gate(broker)
    late = gate.stopping()
    with gate.closed(late, late.receive, "one", queue_id=0) as receiving:
        assert [m.message_id for m in mq.receive("one")] == ids
    with only_if(mutant, pytest.raises(psycopg.errors.SerializationFailure)):
        assert receiving.result(45) == []


# an acknowledgement and a claim of another queue, in one statement


def received_from_one_of_two_queues(mq: Session) -> str:
    """The receipt of the messages of a queue, while another one has messages, too."""
    queues = set[int]()
    while len(queues) < 2:
        mq.sent("t", "1")
        queues = {row.queue_id for row in mq.rows("select distinct queue_id from mqpg.consume_queue")}
    return str(mq.receive("t", queue_id=min(queues))[0].receipt)


@without(("_claim_next", "if v_written < 2 then", "if false then"))
def test_trap_a_lost_claim_keeps_its_acknowledgement(mq: Session, broker: Broker, mutant: bool) -> None:
    """A receive that acknowledges stops between its look at the other queue and the lock, and another
    one takes and acknowledges everything of that queue meanwhile.
    """
    mutate(mq, "_claim_next", "if not mqpg._lock_free_cursor(", f"{PAUSE} if not mqpg._lock_free_cursor(")
    receipt = received_from_one_of_two_queues(mq)
    gate = Gate(broker)
    late = gate.stopping()
    with gate.closed(late, late.receive, "t", ack=receipt) as receiving:
        mq.ack(mq.receive("t")[0].receipt)
    got = receiving.result(45)
    if mutant:
        assert got, "they were delivered to another one"
        return
    claims = mq.scalar(
        "select sum(cardinality(claims)) from (select distinct on (subscription_id, queue_id) claims "
        "from mqpg.cursor order by subscription_id, queue_id, version desc) as newest"
    )
    assert (got, claims) == ([], 0)


@without(("_lock_cursor", "v_timeout := mqpg._apply_lock_timeout();", "v_timeout := current_setting('lock_timeout');"))
def test_trap_settling_waits_for_the_lock_with_a_time_out(mq: Session, broker: Broker, mutant: bool) -> None:
    """An acknowledgement waits for the lock, but not for ever behind a transaction that never ends."""
    mq.sent("one", "1")
    receipt = mq.receive("one")[0].receipt
    mq.execute("update mqpg.settings set value = '100 ms' where name = 'lock_timeout'")
    holder = broker.session()
    patient = broker.session(f"set statement_timeout = '{1 if mutant else 20}s'")
    with holder.transaction():
        holder.call("extend", receipt, seconds(60))
        with refused("57014" if mutant else "55P03"):
            patient.ack(receipt)


# a slice shorter than its run


def a_lost_body(mq: Session) -> None:
    """Delete one record batch of two, as a careless repair would."""
    mq.send_batch("one", ["1"] * 3)
    gone = mq.sent_batch("one", ["2"] * 3)
    mq.execute("delete from mqpg.commit_log where batch_id = %s", gone[0] // 1024)


def a_short_body(mq: Session) -> None:
    """Make a record batch with fewer bodies than its run has messages."""
    mq.sent_batch("one", ["1"] * 5)
    mq.execute("update mqpg.commit_log set payloads = payloads[1:2]")


def a_lost_single(mq: Session) -> None:
    """Delete one of three record batches with one message each."""
    gone = [mq.send("one", "1") for _ in range(3)][1]
    mq.append()
    mq.execute("delete from mqpg.commit_log where batch_id = %s", gone // 1024)


def an_empty_single(mq: Session) -> None:
    """Keep the record batch of a message that was sent alone, but not its body."""
    gone = [mq.send("one", "1") for _ in range(3)][1]
    mq.append()
    mq.execute("update mqpg.commit_log set payloads = '{}' where batch_id = %s", gone // 1024)


RULES = {
    "receive": "if v_rows <> v_count then",
    "fetch": 'if v_rows <> v_until - "fetch".from_offset then',
}


@pytest.mark.parametrize("damage", [a_lost_body, a_short_body, a_lost_single, an_empty_single])
@pytest.mark.parametrize("call", RULES)
@without()
def test_trap_a_missing_body_is_an_error(
    mq: Session, damage: Callable[[Session], None], call: str, mutant: bool
) -> None:
    if mutant:
        mutate(mq, call, RULES[call], "if false then")
    damage(mq)
    with only_if(not mutant, refused("MQ014")):
        got = mq.receive("one") if call == "receive" else mq.call("fetch", "one", 0, 0)
        assert 0 < len(got) < 6, "messages were to be skipped in silence"
    assert mq.scalar("select count(*) from mqpg.cursor where action = 'r'") == (mutant and call == "receive")


# epochs


@without(("_epoch", "_epoch.version * 1048576 + txid_current() % 1048576", "1048576::bigint"))
def test_trap_an_epoch_is_not_given_twice(mq: Session, mutant: bool) -> None:
    """Every hand-out has an epoch of its own, also that of a released or expired range."""
    mq.sent_batch("one", ["1"] * 3)
    epochs = []
    for _ in range(3):
        receipt = mq.receive("one")[0].receipt
        epochs.append(int(receipt.split(".")[2]))
        mq.call("release", receipt)
    assert (epochs == sorted(set(epochs))) is not mutant
    old = mq.receive("one", lease=seconds(0.01))[0].receipt
    mq.execute("select pg_sleep(0.02)")
    assert len(mq.receive("one")) == 3
    with only_if(not mutant, refused("MQ009")):
        mq.ack(old)
    committed = mq.scalar("select committed from mqpg.subscription_lag where topic = 'one' and queue_id = 0")
    assert committed == (3 if mutant else 0), "somebody else's claim"
