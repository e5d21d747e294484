"""on_failure block_key and block_queue: a failed message stays at its place, and what must not overtake it does not."""

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.broker import Session, offsets, refused, seconds


def subscribe(mq: Session, policy: str, **settings: Any) -> None:
    options: dict[str, Any] = {"max_attempts": 4, "retry_delay": seconds(0.05)} | settings
    mq.subscribed("k", on_failure=policy, **options)


@pytest.fixture
def by_key(mq: Session) -> Session:
    """Topic `k` with one queue.

    Group `g` holds back what follows a failed message of the same key.
    """
    subscribe(mq, "block_key")
    return mq


@pytest.fixture
def by_queue(mq: Session) -> Session:
    """Topic `k` with one queue. Group `g` holds back everything behind a failed message."""
    subscribe(mq, "block_queue")
    return mq


def fill(mq: Session, keys: Iterable[str | None]) -> list[int]:
    """Send one message for each key, with offsets in that order.

    A batch would put those without a key together.
    """
    keys = list(keys)
    if None in keys:
        ids = [mq.send("k", "1", key=key) for key in keys]
    else:
        ids = mq.send_batch("k", ["1"] * len(keys), keys=keys)
    mq.append()
    return ids


def handed(mq: Session, keys: Iterable[str | None], **named: Any) -> list[Any]:
    """Fill, and return what the next call hands out."""
    fill(mq, keys)
    return mq.receive("k", **named)


def lag(mq: Session) -> Any:
    return mq.rows("select * from mqpg.subscription_lag where topic = 'k' and queue_id = 0")[0]


def fail(mq: Session, got: list[Any], *which: int, delay: float | None = 60, reason: str = "bad") -> None:
    """Nack these offsets of a delivery.

    The back-off is long, so that only `due` ends it, however slow the server is.
    """
    ids = [m.message_id for m in got if m.queue_offset in which]
    assert len(ids) == len(which)
    mq.nack(got[0].receipt, ids, reason=reason, **({} if delay is None else {"delay": seconds(delay)}))


def ack_rest(mq: Session, got: list[Any]) -> None:
    mq.ack(got[0].receipt)


def due(mq: Session, *offset: int) -> None:
    """End all back-offs, or those of the messages that wait from these offsets on."""
    mq.execute(
        """
        update mqpg.cursor c set claims = array(
            select row(k.epoch, k.from_offset, k.to_offset, k.attempt,
                case when k.epoch < 0 and k.lease_until > '-infinity' and (%(all)s or k.from_offset = any(%(offset)s))
                    then now() - interval '1 second' else k.lease_until end,
                k.consumer, k.settled, k.picked, k.key)::mqpg.claim
            from unnest(c.claims) k)
        where c.version = (select max(v.version) from mqpg.cursor v
            where v.subscription_id = c.subscription_id and v.queue_id = c.queue_id)
        """.replace("%(all)s", "false" if offset else "true").replace("%(offset)s", f"array{list(offset)}::bigint[]")
    )


def again(mq: Session, **named: Any) -> list[Any]:
    """Return the next delivery after all back-offs."""
    due(mq)
    return mq.receive("k", **named)


# block_queue


def test_queue_nothing_overtakes_a_failed_message(by_queue: Session) -> None:
    got = handed(by_queue, "abcdef", max_messages=4)
    fail(by_queue, got, 1)
    ack_rest(by_queue, got)  # 0 only: 2 and 3 were released with 1
    assert lag(by_queue).committed == 1
    assert by_queue.receive("k") == []
    seen: list[tuple[int, int]] = []
    while len(seen) < 5:
        got = again(by_queue)
        seen += [(m.queue_offset, m.attempt) for m in got]
        ack_rest(by_queue, got)
    assert seen == [(1, 2), (2, 1), (3, 1), (4, 1), (5, 1)]


def test_queue_the_retry_comes_at_its_place(by_queue: Session) -> None:
    ids = fill(by_queue, "a")
    (m,) = by_queue.receive("k")
    by_queue.nack(m.receipt, ids, delay=seconds(60))
    (r,) = again(by_queue)
    assert (r.message_id, r.queue_id, r.queue_offset, r.attempt) == (ids[0], 0, 0, 2)
    assert by_queue.scalar("select count(*) from mqpg.delayed") == 0


def test_queue_only_the_first_failed_one_counts(by_queue: Session) -> None:
    got = handed(by_queue, "abcd")
    fail(by_queue, got, 1, 3)
    ack_rest(by_queue, got)
    seen = []
    for _ in range(2):
        got = again(by_queue)
        seen += [(m.queue_offset, m.attempt) for m in got]
        ack_rest(by_queue, got)
    assert seen == [(1, 2), (2, 1), (3, 1)]


def test_queue_the_first_of_a_delivery_spends_the_receipt(by_queue: Session) -> None:
    got = handed(by_queue, "abc")
    fail(by_queue, got, 0)
    with refused("MQ008"):  # what lies behind it is neither acknowledged nor nacked
        by_queue.ack(got[0].receipt)


@pytest.mark.parametrize("policy", ["block_queue", "block_key"])
@pytest.mark.parametrize("before", [0, 2])
def test_an_ack_after_the_last_message_failed_is_no_error(
    request: pytest.FixtureRequest, policy: str, before: int
) -> None:
    mq = request.getfixturevalue("by_queue" if policy == "block_queue" else "by_key")
    got = handed(mq, "abc"[: before + 1])
    if before:
        mq.ack(got[0].receipt, through=before - 1)
    fail(mq, got, before)
    mq.ack(got[0].receipt)


def test_key_an_ack_after_all_keys_failed(by_key: Session) -> None:
    got = handed(by_key, "ab")
    fail(by_key, got, 0)
    fail(by_key, got, 1)
    by_key.ack(got[0].receipt)


def test_queue_an_ack_up_to_what_was_given_back_is_no_error(by_queue: Session) -> None:
    got = handed(by_queue, "abcd")
    fail(by_queue, got, 2)
    by_queue.ack(got[0].receipt, through=3)
    assert lag(by_queue).committed == 2


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_retries_back_off(mq: Session, policy: str) -> None:
    subscribe(mq, policy, retry_delay=seconds(0.1))
    fill(mq, "a")
    until = "select (claims[1]).lease_until from mqpg.cursor order by version desc limit 1"
    for wait in (0.1, 0.2, 0.4):
        got = again(mq)
        before = mq.scalar("select clock_timestamp()")
        fail(mq, got, 0, delay=None)
        after = mq.scalar("select clock_timestamp()")
        assert before + seconds(wait) <= mq.scalar(until) <= after + seconds(wait)


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_dead_lettering_unblocks(mq: Session, policy: str) -> None:
    subscribe(mq, policy, max_attempts=2)
    ids = fill(mq, "aaa")
    got = mq.receive("k")
    fail(mq, got, 0)
    got = again(mq)
    assert (offsets(got), got[0].attempt) == ([0], 2)
    fail(mq, got, 0, reason="hopeless")
    (letter,) = mq.call("dead_letters", "g", "k")
    assert (letter.message_id, letter.queue_id, letter.attempts, letter.reason) == (ids[0], 0, 2, "hopeless")
    assert [(m.queue_offset, m.attempt) for m in mq.drain("k")] == [(1, 1), (2, 1)]
    assert lag(mq).lag == 0


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_each_attempt_and_its_reason_is_known(mq: Session, policy: str) -> None:
    subscribe(mq, policy, max_attempts=3)
    ids = fill(mq, "aa")
    for reason in ("first", "second", "third"):
        fail(mq, again(mq, consumer="me"), 0, reason=reason)
    (letter,) = mq.call("dead_letters", "g", "k")
    assert [(h["attempt"], h["reason"], h["consumer"]) for h in letter.history] == [
        (1, "first", "me"),
        (2, "second", "me"),
        (3, "third", "me"),
    ]
    story = [(e.event, e.detail.get("attempt"), e.detail.get("reason")) for e in mq.call("trace", ids[0])]
    assert [e for e in story if e[0] in ("delivered", "retry", "dead")] == [
        ("delivered", 1, None),
        ("retry", 2, "first"),
        ("delivered", 2, None),
        ("retry", 3, "second"),
        ("delivered", 3, None),
        ("dead", None, "third"),
    ]
    held = [(e.event, e.detail.get("attempt")) for e in mq.call("trace", ids[1])]
    assert ("retry", 2) not in held  # it was only released


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_a_lease_that_ends_blocks_too_and_leads_to_the_dead_letters(mq: Session, policy: str) -> None:
    subscribe(mq, policy, max_attempts=3)
    ids = fill(mq, "ab")
    seen = []
    while len(mq.call("dead_letters", "g", "k")) < 2:
        for m in mq.receive("k", lease=seconds(0.01)):
            seen.append((m.message_id, m.attempt))
        mq.execute("select pg_sleep(0.005)")
        assert len(seen) < 12
    for i in ids:
        assert [a for m, a in seen if m == i] == [1, 2, 3]
    assert lag(mq).lag == 0


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_release_and_extend_of_a_retry_in_place(mq: Session, policy: str) -> None:
    subscribe(mq, policy)
    got = handed(mq, "aa", max_messages=1)
    fail(mq, got, 0)
    got = again(mq)
    assert (offsets(got), got[0].attempt) == ([0], 2)
    mq.call("extend", got[0].receipt, seconds(60))
    assert mq.receive("k") == []
    mq.call("release", got[0].receipt)
    got = mq.receive("k")
    assert (offsets(got), got[0].attempt) == ([0], 2)
    mq.ack(got[0].receipt)
    assert offsets(mq.drain("k")) == [1]


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_what_waits_is_no_open_claim(mq: Session, policy: str) -> None:
    subscribe(mq, policy)
    got = handed(mq, "aab")
    fail(mq, got, 0, delay=60)
    if policy == "block_key":
        mq.ack(got[0].receipt)
    assert (lag(mq).claims, lag(mq).committed, lag(mq).lag) == (0, 0, 3)


def test_pinned_may_block_its_queue(mq: Session) -> None:
    subscribe(mq, "block_queue", mode="pinned")
    got = handed(mq, "abc", consumer="me")
    fail(mq, got, 1)
    mq.ack(got[0].receipt)
    assert mq.receive("k", consumer="me") == []
    got = again(mq, consumer="me")
    assert [(m.queue_offset, m.attempt) for m in got] == [(1, 2)]
    mq.ack(got[0].receipt)
    assert offsets(mq.drain("k", consumer="me")) == [2]


def test_unpin_leaves_the_back_off(mq: Session) -> None:
    subscribe(mq, "block_queue", mode="pinned")
    fail(mq, handed(mq, "ab", consumer="me"), 0)
    mq.call("unpin", "g", "k")
    assert mq.receive("k", consumer="you") == []
    assert [(m.queue_offset, m.attempt) for m in again(mq, consumer="you")] == [(0, 2)]


# block_key


def test_key_others_go_on_and_its_own_wait(by_key: Session) -> None:
    got = handed(by_key, "abcabcabc", max_messages=5)  # a b c a b
    fail(by_key, got, 0)
    ack_rest(by_key, got)  # b c b; the second a was released
    got = by_key.receive("k")
    assert offsets(got) == [5, 7, 8]  # c b c: the third a waits, too
    ack_rest(by_key, got)
    assert by_key.receive("k") == []
    assert lag(by_key).committed == 0
    seen: list[tuple[int, int]] = []
    while len(seen) < 3:
        got = again(by_key)
        seen += [(m.queue_offset, m.attempt) for m in got]
        ack_rest(by_key, got)
    assert seen == [(0, 2), (3, 1), (6, 1)]
    assert lag(by_key).lag == 0


def test_key_messages_without_key_block_nobody(by_key: Session) -> None:
    got = handed(by_key, [None, "a", None, "a"])
    assert [m.key for m in got] == [None, "a", None, "a"]
    fail(by_key, got, 0, 2)
    ack_rest(by_key, got)
    fill(by_key, [None, "a"])
    assert offsets(by_key.drain("k")) == [4, 5]
    got = again(by_key)
    assert [(m.queue_offset, m.attempt) for m in got] == [(0, 2), (2, 2)]


def test_key_several_keys_fail_and_come_back_each_at_its_time(by_key: Session) -> None:
    got = handed(by_key, "abab")
    fail(by_key, got, 0)
    fail(by_key, got, 1)
    with refused("MQ008"):
        by_key.ack(got[0].receipt)
    got = handed(by_key, "abc")
    assert offsets(got) == [6]
    ack_rest(by_key, got)
    assert by_key.receive("k") == []
    due(by_key, 1, 3, 5)
    assert offsets(by_key.drain("k")) == [1, 3, 5]
    due(by_key, 0, 2, 4)
    assert offsets(by_key.drain("k")) == [0, 2, 4]


def test_key_a_retry_that_fails_again_goes_on_blocking(by_key: Session) -> None:
    got = handed(by_key, "aab")
    fail(by_key, got, 0)
    ack_rest(by_key, got)
    for attempt in (2, 3):
        got = again(by_key)
        assert [(m.queue_offset, m.attempt) for m in got] == [(0, attempt)]
        fail(by_key, got, 0)
    got = again(by_key)
    assert [(m.queue_offset, m.attempt) for m in got] == [(0, 4)]
    ack_rest(by_key, got)
    assert [(m.queue_offset, m.attempt) for m in by_key.drain("k")] == [(1, 1)]


def test_key_only_its_first_failed_one_counts(by_key: Session) -> None:
    got = handed(by_key, "aba")
    fail(by_key, got, 0, 2)
    ack_rest(by_key, got)
    got = again(by_key)
    assert [(m.queue_offset, m.attempt) for m in got] == [(0, 2)]
    ack_rest(by_key, got)
    assert [(m.queue_offset, m.attempt) for m in again(by_key)] == [(2, 1)]


def test_key_an_expired_claim_keeps_its_order(by_key: Session) -> None:
    """A claim that expired goes before what follows of its keys, also when it is taken over in small pieces."""
    fill(by_key, "abab")
    by_key.receive("k", lease=seconds(0.02))
    fill(by_key, "abc")
    by_key.execute("select pg_sleep(0.04)")
    seen = []
    while got := by_key.receive("k", max_messages=1):
        seen += [(m.queue_offset, m.attempt) for m in got]
        ack_rest(by_key, got)
    order = [o for o, _ in seen]
    assert sorted(order) == list(range(7))
    assert [o for o in order if o in (0, 2, 4)] == [0, 2, 4]
    assert [o for o in order if o in (1, 3, 5)] == [1, 3, 5]
    assert {a for o, a in seen if o < 4} == {2}
    assert {a for o, a in seen if o >= 4} == {1}


def test_key_a_hot_key_is_held_back_to_a_limit_and_the_order_holds(mq: Session) -> None:
    subscribe(mq, "block_key", retry_delay=seconds(0.01))
    fill(mq, ["hot"] * 6000)
    mq.sent("k", "1", key="cold")
    got = mq.receive("k", max_messages=10)
    fail(mq, got, 0)
    assert mq.receive("k") == []  # 4096 wait: the queue waits as a whole
    claims = mq.scalar("select claims::text from mqpg.cursor order by version desc limit 1")
    assert 20 < len(claims) < 60_000
    held = mq.scalar("select mqpg._count_blocked(claims) from mqpg.cursor order by version desc limit 1")
    assert 4096 <= held < 5200
    seen: list[int] = []
    while len(seen) < 6001:
        got = again(mq, max_messages=2000)
        seen += [m.queue_offset for m in got]
        ack_rest(mq, got)
    assert [o for o in seen if o < 6000] == list(range(6000))


def test_key_with_a_filter(by_key: Session) -> None:
    by_key.call("alter_subscription", "g", "k", filter='$tag != "no"')
    tags = [None, None, None, "no", None, "no", None]
    by_key.sent_batch("k", ["1"] * 7, keys=list("aabaaab"), tags=tags)
    got = by_key.receive("k", max_messages=2)
    fail(by_key, got, 0)
    got = by_key.receive("k")
    assert offsets(got) == [2, 6]
    ack_rest(by_key, got)
    seen: list[int] = []
    while len(seen) < 3:
        got = again(by_key)
        seen += offsets(got)
        ack_rest(by_key, got)
    assert seen == [0, 1, 4]
    assert lag(by_key).lag == 0


def test_skip_takes_the_blocks_away(by_key: Session) -> None:
    """The policy is changed to skip.

    What waits comes at its time, and holds nothing back any more.
    """
    got = handed(by_key, "aab")
    fail(by_key, got, 0)
    ack_rest(by_key, got)
    by_key.call("alter_subscription", "g", "k", on_failure="skip")
    fill(by_key, "a")
    assert offsets(by_key.receive("k", max_messages=1)) == [3]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_order_holds_in_random_histories(mq: Session, policy: str, seed: int) -> None:
    """Successes of a key (or of the queue) come in offset order, whatever fails, expires or is released."""
    rng = random.Random(seed)
    subscribe(mq, policy, max_attempts=50, retry_delay=seconds(0.002))
    keys = [rng.choice(["a", "b", "c", "d", None]) for _ in range(60)]
    fill(mq, keys[:30])
    later = keys[30:]
    done: list[int] = []
    idle = 0
    while len(done) < 60:
        if len(done) > 10 and later:
            fill(mq, later)
            later = []
        lease = seconds(0.01 if rng.random() < 0.15 else 30)
        got = mq.receive("k", max_messages=rng.randint(1, 8), lease=lease)
        if not got:
            idle += 1
            assert idle < 3000, f"stuck at {lag(mq)}"
            mq.execute("select pg_sleep(0.002)")
            continue
        fate = rng.random()
        if lease < seconds(1):
            mq.execute("select pg_sleep(0.012)")
        elif fate < 0.15:
            mq.call("release", got[0].receipt)
        elif fate < 0.5:
            bad = rng.sample(offsets(got), rng.randint(1, len(got)))
            left = _left(policy, [(m.queue_offset, m.key) for m in got], set(bad))
            fail(mq, got, *bad, delay=0.001 * rng.randint(1, 8))
            done += left
            if left:
                mq.ack(got[0].receipt)
        else:
            mq.ack(got[0].receipt, through=got[-1].queue_offset)
            done += offsets(got)
    assert sorted(done) == list(range(60))
    lanes: dict[str | None, list[int]] = defaultdict(list)
    for offset in done:
        lanes[keys[offset] if policy == "block_key" else "queue"].append(offset)
    lanes.pop(None, None)
    for lane in lanes.values():
        assert lane == sorted(lane)


def _left(policy: str, delivered: list[tuple[int, str | None]], bad: set[int]) -> list[int]:
    """Return the offsets that a delivery still has after these failed."""
    left, blocked = [], set()
    for offset, key in delivered:
        lane = "queue" if policy == "block_queue" else key
        if offset in bad and lane is not None:
            blocked.add(lane)
        elif offset not in bad and lane not in blocked:
            left.append(offset)
    return left


@pytest.mark.parametrize(("policy", "back"), [("block_key", [2, 4]), ("block_queue", [2, 3, 4])])
def test_what_is_behind_a_dead_letter_is_returned_at_once(mq: Session, policy: str, back: list[int]) -> None:
    """Its consumer does not go on behind a failed message, whatever became of that one."""
    subscribe(mq, policy, max_attempts=1)
    ids = fill(mq, "abbcb")
    got = mq.receive("k")
    fail(mq, got, 1, reason="hopeless")
    assert [letter.message_id for letter in mq.call("dead_letters", "g", "k")] == [ids[1]]
    mq.ack(got[0].receipt)
    again = mq.receive("k")
    assert [(row.queue_offset, row.attempt) for row in again] == [(offset, 1) for offset in back]
    mq.ack(again[0].receipt)
    assert lag(mq).lag == 0


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_a_final_failure_returns_nothing(mq: Session, policy: str) -> None:
    subscribe(mq, policy, max_attempts=1)
    got = handed(mq, "bbb")
    mq.nack(got[0].receipt, [got[1].message_id], final=True)
    mq.ack(got[0].receipt)
    assert mq.receive("k") == []
    assert lag(mq).lag == 0
