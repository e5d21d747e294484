"""The traps of modes, filters and blocked keys: each scenario holds, and shows the damage without
its rule.
"""

import pytest

from tests.support.broker import Broker, Session, offsets, refused, seconds
from tests.support.mutation import mutate


def fill(mq: Session, keys: str, topic: str = "k") -> list[int]:
    ids = mq.send_batch(topic, ["1"] * len(keys), keys=list(keys))
    mq.append()
    return ids


@pytest.fixture
def k(mq: Session) -> Session:
    mq.call("create_topic", "k", queues=1)
    return mq


# no more than 64 open claims: each is in every version of the cursor


def open_claims(mq: Session) -> int:
    mq.call("subscribe", "g", "k", mode="shared")
    fill(mq, "a" * 80)
    while mq.receive("k", max_messages=1):
        pass
    return int(mq.scalar("select claims from mqpg.subscription_lag where topic = 'k' and queue_id = 0"))


def test_trap_64_claims(k: Session) -> None:
    assert open_claims(k) == 64


def test_trap_64_claims_mutant(k: Session) -> None:
    mutate(k, "_claim_to_take_over", "v_open >= 64", "false")
    assert open_claims(k) == 80


# a nack gives back what must not overtake


def overtaking(mq: Session, policy: str) -> list[int]:
    """Return what still waits after the first message of a delivery failed and the rest was
    acknowledged.
    """
    mq.call("subscribe", "g", "k", on_failure=policy)
    ids = fill(mq, "aab")
    got = mq.receive("k")
    mq.nack(got[0].receipt, ids[:1], delay=seconds(60))
    if policy == "block_key":
        mq.ack(got[0].receipt)
    left = mq.rows(
        "select m.queue_offset from mqpg.cursor c, unnest(c.claims) k, "
        "lateral mqpg._claimed_messages((select topic_id from mqpg.topic where name = 'k'), 0, 0, k) m "
        "where c.version = (select max(version) from mqpg.cursor) order by 1"
    )
    return [row[0] for row in left]


@pytest.mark.parametrize(("policy", "left"), [("block_key", [0, 1]), ("block_queue", [0, 1, 2])])
def test_trap_a_nack_gives_back_what_follows(k: Session, policy: str, left: list[int]) -> None:
    assert overtaking(k, policy) == left


def test_trap_a_nack_gives_back_what_follows_mutant(k: Session) -> None:
    mutate(
        k,
        "_block_failed",
        "coalesce(v_message.key = any(v_keys || v_dead), false)",
        "false",
    )
    assert overtaking(k, "block_key") == [0]


# what is fresh waits behind a blocked key


def fresh_behind_a_block(mq: Session) -> list[int]:
    mq.call("subscribe", "g", "k", on_failure="block_key")
    ids = fill(mq, "ab")
    got = mq.receive("k")
    mq.nack(got[0].receipt, ids[:1], delay=seconds(60))
    mq.ack(got[0].receipt)
    fill(mq, "ab")
    return offsets(mq.drain("k"))


def test_trap_fresh_messages_of_a_blocked_key_wait(k: Session) -> None:
    assert fresh_behind_a_block(k) == [3]


def test_trap_fresh_messages_of_a_blocked_key_wait_mutant(k: Session) -> None:
    mutate(k, "_candidates_by_key", "coalesce(k.waits_from < k.queue_offset, false)", "false")
    assert fresh_behind_a_block(k) == [2, 3]


# a message that was left out for its attempts holds back what follows of its key


def order_of_mixed_attempts(mq: Session) -> list[int]:
    """Return the order of messages where `a` was delivered twice, `b` three times, and the second
    `a` never.
    """
    mq.call("subscribe", "g", "k", on_failure="block_key")
    fill(mq, "ba")
    mq.call("release", mq.receive("k", max_messages=1)[0].receipt)
    mq.receive("k", max_messages=1, lease=seconds(0.01))
    mq.execute("select pg_sleep(0.02)")
    mq.receive("k", max_messages=2, lease=seconds(0.01))
    mq.execute("select pg_sleep(0.02)")
    fill(mq, "b")
    seen: list[int] = []
    while got := mq.receive("k", max_messages=1):
        seen += offsets(got)
        mq.ack(got[0].receipt)
    return seen


def test_trap_attempts_do_not_reorder_a_key(k: Session) -> None:
    seen = order_of_mixed_attempts(k)
    assert sorted(seen) == [0, 1, 2]
    assert seen.index(0) < seen.index(2)


# a receipt fits its own range only


def forged(mq: Session, end: int) -> None:
    mq.call("subscribe", "g", "k")
    fill(mq, "abcd")
    *issued, _, mac = mq.receive("k", max_messages=2)[0].receipt.split(".")
    mq.ack(".".join([*issued, str(end), mac]))


@pytest.mark.parametrize("end", [1, 3])
def test_trap_a_changed_receipt_is_refused(k: Session, end: int) -> None:
    with refused("MQ007"):
        forged(k, end)


@pytest.mark.parametrize("end", [1, 3])
def test_trap_a_changed_receipt_is_refused_mutant(k: Session, end: int) -> None:
    mutate(k, "_parse_receipt", "is not true", "is not true and false")
    mutate(k, "_require_issued_receipt", "if exists (", "if false and exists (")
    if end == 1:
        mutate(k, "_claim_of_receipt", "and v_claim.to_offset <= v_receipt.to_offset", "")
    forged(k, end)


# a missing body differs from a message that the filter does not choose


def filtered_over_a_hole(mq: Session) -> None:
    mq.call("subscribe", "g", "k", filter="$ == 7")
    ids = fill(mq, "ab")
    mq.send("k", "7")
    mq.append()
    mq.execute("delete from mqpg.commit_log where batch_id = %s", ids[0] // 1024)
    mq.receive("k")


def test_trap_a_filter_does_not_pass_over_missing_bodies(k: Session) -> None:
    with refused("MQ014"):
        filtered_over_a_hole(k)


def test_trap_a_filter_does_not_pass_over_missing_bodies_mutant(k: Session) -> None:
    mutate(
        k,
        "_matching_offsets",
        "if v_all <> _matching_offsets.to_offset - _matching_offsets.from_offset then",
        "if false then",
    )
    filtered_over_a_hole(k)


# a group that ends also ends a member that joins meanwhile


def join_while_it_ends(mq: Session, broker: Broker) -> int:
    mq.call("subscribe", "g", "k", mode="broadcast")
    fill(mq, "a")
    other = broker.session()
    with mq.transaction():
        mq.call("unsubscribe", "g", "k")
        assert other.receive("k", consumer="late") == []
    with refused("MQ005"):
        other.receive("k", consumer="late")
    return int(mq.scalar("select count(*) from mqpg.subscription where member <> ''"))


def test_trap_no_member_outlives_its_group(k: Session, broker: Broker) -> None:
    assert join_while_it_ends(k, broker) == 0


@pytest.mark.own_database
def test_trap_no_member_outlives_its_group_mutant(k: Session, broker: Broker) -> None:
    mutate(
        k,
        "_member",
        "perform from mqpg.subscription s "
        "where s.subscription_id = (_member.parent).subscription_id for key share skip locked;",
        "perform from mqpg.subscription s where s.subscription_id = (_member.parent).subscription_id;",
    )
    k.execute("alter table mqpg.subscription drop constraint subscription_member_of_fkey")
    k.call("subscribe", "g", "k", mode="broadcast")
    fill(k, "a")
    other = broker.session()
    with k.transaction():
        k.call("unsubscribe", "g", "k")
        assert other.receive("k", consumer="late")
    assert k.scalar("select count(*) from mqpg.subscription where member <> ''") == 1, "a member without a group"
