"""The traps of modes, filters and blocked keys: each scenario holds, and shows the damage without its rule."""

import pytest

from tests.support.broker import Session, offsets, refused, seconds
from tests.support.mutation import mutate, only_if, without


def fill(mq: Session, keys: str, topic: str = "k") -> list[int]:
    return mq.sent_batch(topic, ["1"] * len(keys), keys=list(keys))


@pytest.fixture
def k(mq: Session) -> Session:
    mq.call("create_topic", "k", queues=1)
    return mq


@without(("_claim_to_take_over", "v_open >= 64", "false"))
def test_trap_64_claims(k: Session, mutant: bool) -> None:
    """Each open claim is in every version of the cursor."""
    k.call("subscribe", "g", "k", mode="shared")
    fill(k, "a" * 80)
    while k.receive("k", max_messages=1):
        pass
    claims = k.scalar("select claims from mqpg.subscription_lag where topic = 'k' and queue_id = 0")
    assert claims == (80 if mutant else 64)


def overtaking(mq: Session, policy: str) -> list[int]:
    """Return what still waits after the first message of a delivery failed and the rest was acknowledged."""
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
    mutate(k, "_block_failed", "coalesce(v_message.key = any(v_keys || v_dead), false)", "false")
    assert overtaking(k, "block_key") == [0]


@without(("_candidates_by_key", "coalesce(k.waits_from < k.queue_offset, false)", "false"))
def test_trap_fresh_messages_of_a_blocked_key_wait(k: Session, mutant: bool) -> None:
    k.call("subscribe", "g", "k", on_failure="block_key")
    ids = fill(k, "ab")
    got = k.receive("k")
    k.nack(got[0].receipt, ids[:1], delay=seconds(60))
    k.ack(got[0].receipt)
    fill(k, "ab")
    assert offsets(k.drain("k")) == ([2, 3] if mutant else [3])


def test_trap_attempts_do_not_reorder_a_key(k: Session) -> None:
    """A message that was left out for its attempts holds back what follows of its key.

    `a` was delivered twice, `b` three times, and the second `b` never.
    """
    k.call("subscribe", "g", "k", on_failure="block_key")
    fill(k, "ba")
    k.call("release", k.receive("k", max_messages=1)[0].receipt)
    k.receive("k", max_messages=1, lease=seconds(0.01))
    k.execute("select pg_sleep(0.02)")
    k.receive("k", max_messages=2, lease=seconds(0.01))
    k.execute("select pg_sleep(0.02)")
    fill(k, "b")
    seen: list[int] = []
    while got := k.receive("k", max_messages=1):
        seen += offsets(got)
        k.ack(got[0].receipt)
    assert sorted(seen) == [0, 1, 2]
    assert seen.index(0) < seen.index(2)


@pytest.mark.parametrize("end", [1, 3])
@without()
def test_trap_a_changed_receipt_is_refused(k: Session, end: int, mutant: bool) -> None:
    """A receipt fits its own range only."""
    if mutant:
        mutate(k, "_parse_receipt", "is not true", "is not true and false")
        mutate(k, "_require_issued_receipt", "if exists (", "if false and exists (")
        if end == 1:
            mutate(k, "_claim_of_receipt", "and v_claim.to_offset <= v_receipt.to_offset", "")
    k.call("subscribe", "g", "k")
    fill(k, "abcd")
    *issued, _, mac = k.receive("k", max_messages=2)[0].receipt.split(".")
    with only_if(not mutant, refused("MQ007")):
        k.ack(".".join([*issued, str(end), mac]))


@without(
    (
        "_matching_offsets",
        "if v_all <> _matching_offsets.to_offset - _matching_offsets.from_offset then",
        "if false then",
    )
)
def test_trap_a_filter_does_not_pass_over_missing_bodies(k: Session, mutant: bool) -> None:
    """A missing body differs from a message that the filter does not choose."""
    k.call("subscribe", "g", "k", filter="$ == 7")
    ids = fill(k, "ab")
    k.sent("k", "7")
    k.execute("delete from mqpg.commit_log where batch_id = %s", ids[0] // 1024)
    with only_if(not mutant, refused("MQ014")):
        k.receive("k")


@pytest.mark.own_database
@without(
    (
        "_member",
        "perform from mqpg.subscription s "
        "where s.subscription_id = (_member.parent).subscription_id for key share skip locked;",
        "perform from mqpg.subscription s where s.subscription_id = (_member.parent).subscription_id;",
    )
)
def test_trap_no_member_outlives_its_group(k: Session, other: Session, mutant: bool) -> None:
    """A group that ends also ends a member that joins meanwhile."""
    if mutant:
        k.execute("alter table mqpg.subscription drop constraint subscription_member_of_fkey")
    k.call("subscribe", "g", "k", mode="broadcast")
    fill(k, "a")
    with k.transaction():
        k.call("unsubscribe", "g", "k")
        assert bool(other.receive("k", consumer="late")) is mutant
    if not mutant:
        with refused("MQ005"):
            other.receive("k", consumer="late")
    assert k.scalar("select count(*) from mqpg.subscription where member <> ''") == mutant, "a member without a group"
