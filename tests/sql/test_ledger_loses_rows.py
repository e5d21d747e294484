"""A ledger in the broker's database that lost rows, and half messages that carry one in another database."""

import pytest

from tests.support.broker import Broker, Session, refused, seconds
from tests.support.halves import decided, decision, parked
from tests.support.waiting import eventually

LOST = "the ledger of the broker was made again or lost rows since it was prepared: settle() it"
LEDGER = "0123abcd"
COPY = "create table public.copy as table mqpg.ledger"


@pytest.fixture
def led(mq: Session) -> Session:
    """A broker with the group `led`, whose ledger is here."""
    mq.call("create_producer_group", "led", check_after=seconds(0.01), checker="ledger")
    return mq


def local_transaction(mq: Session, handle: str) -> None:
    with mq.transaction():
        mq.call("local_begin", handle)


MAKE_AGAIN = (
    "alter table mqpg.ledger rename to ledger_before; create table mqpg.ledger (handle text primary key, entry text"
    " not null default 'local', at timestamptz not null default clock_timestamp());"
    " alter table mqpg.ledger owner to mqpg_owner"
)


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param("truncate mqpg.ledger", id="truncate"),
        pytest.param("delete from mqpg.ledger", id="delete"),
        pytest.param(
            "set session_replication_role = replica; delete from mqpg.ledger; reset session_replication_role",
            id="delete without triggers",
        ),
        pytest.param("delete from mqpg.ledger; insert into mqpg.ledger select * from public.copy", id="restore"),
        pytest.param(MAKE_AGAIN, id="make again", marks=pytest.mark.own_database),
    ],
)
def test_a_ledger_that_lost_rows_parks_and_never_rolls_back(led: Session, lose: str) -> None:
    kept = led.prepare("one", "1", "led")
    local_transaction(led, kept)
    led.execute(COPY)
    committed = led.prepare("one", "2", "led")
    local_transaction(led, committed)
    for statement in lose.split(";"):
        led.execute(statement)
    assert parked(led, committed) == LOST
    assert decision(led, committed) is None
    if "public.copy" in lose:
        assert decided(led, kept)[0] == "c"  # a row that is there is a proof
    # It serves what is prepared from now on.
    later, absent = led.prepare("one", "3", "led"), led.prepare("one", "4", "led")
    local_transaction(led, later)
    assert [decided(led, handle)[0] for handle in (later, absent)] == ["c", "b"]
    assert led.call("settle", committed, "commit", "its order is there") is not None


def test_keep_does_not_count_as_a_loss(led: Session) -> None:
    before = led.scalar("select array_agg(since::text) from mqpg.ledger_loss")
    led.call("keep")
    assert led.scalar("select array_agg(since::text) from mqpg.ledger_loss") == before


def test_the_policy_rollback_and_the_expiry_need_the_rows_too(mq: Session) -> None:
    soon = seconds(0.01)
    mq.call("create_producer_group", "app", check_after=soon, max_checks=1, on_exhausted="rollback")
    mq.call("create_producer_group", "brief", check_after=soon, expire_after=soon)
    exhausted, expired = mq.prepare("one", "1", "app"), mq.prepare("one", "2", "brief")
    for handle in (exhausted, expired):
        local_transaction(mq, handle)
    mq.execute("truncate mqpg.ledger")
    assert eventually(lambda: mq.call("due_checks", "app", lease=seconds(0.01)))
    eventually(lambda: mq.call("due_checks", "app") == [] and mq.rows("select from mqpg.half_parked"))
    assert LOST in parked(mq, exhausted)
    assert LOST in parked(mq, expired)
    assert (decision(mq, exhausted), decision(mq, expired)) == (None, None)


# half messages that carry a ledger in another database


@pytest.mark.parametrize("checker", ["due_checks", "function"])
def test_what_carries_a_ledger_elsewhere_is_never_rolled_back_here(mq: Session, checker: str) -> None:
    mq.execute(
        "create or replace function public.answer(handle text, key text, headers jsonb, payload json)"
        " returns mqpg.verdict security definer language sql as $$ select 'wait'::mqpg.verdict $$"
    )
    target = "public.answer" if checker == "function" else None
    soon = seconds(0.01)
    mq.call("create_producer_group", "far", checker=checker, checker_target=target, check_after=soon, expire_after=soon)
    mq.call("create_producer_group", "worn", check_after=soon, max_checks=1, on_exhausted="rollback")
    mq.execute("select mqpg._note_ledger('far', %s, 'sqlite /data/shop.db on node2')", LEDGER)
    handle = mq.value("prepare", "one", "1", "far", ledger=LEDGER)
    assert "a rollback needs a fence in the ledger 0123abcd (sqlite /data/shop.db on node2)" in parked(mq, handle)
    worn = mq.value("prepare", "one", "1", "worn", ledger=LEDGER)
    eventually(lambda: mq.call("due_checks", "worn", lease=seconds(0.01)))
    eventually(
        lambda: mq.call("due_checks", "worn") == [] and mq.rows("select from mqpg.half_parked where handle = %s", worn)
    )
    assert (decision(mq, handle), decision(mq, worn)) == (None, None)
    assert mq.commit(handle) == "committed"


def test_an_app_that_polls_is_told_the_ledger(mq: Session) -> None:
    mq.call("create_producer_group", "app", check_after=seconds(0.01))
    mq.value("prepare", "one", "1", "app", headers='{"a": 1}', ledger=LEDGER)
    (plain,) = (mq.value("prepare", "one", "2", "app"),)
    found = {}

    def all_due() -> bool:
        found.update({row.handle: row.headers for row in mq.call("due_checks", "app")})
        return len(found) == 2

    eventually(all_due)
    assert found.pop(plain) is None
    assert list(found.values()) == [{"a": 1, "mqpg-ledger": LEDGER}]


def test_consumers_do_not_see_it(mq: Session) -> None:
    (one, two) = mq.call("prepare_batch", "one", ["1", "2"], "pg", ledger=LEDGER)
    mq.commit(one[0]), mq.commit(two[0])
    mq.commit(mq.value("prepare", "one", "3", "pg", ledger=LEDGER))
    mq.append()
    assert [row.headers for row in mq.call("receive", "g", "one", 10)] == [None, None, None]


@pytest.mark.parametrize("wrong", ["", "0123ABCD", "0123abc", "0123abcde", "identity"])
def test_a_malformed_identity_raises(mq: Session, wrong: str) -> None:
    for call, payload in (("prepare", "1"), ("prepare_batch", ["1"])):
        with refused("MQ001"):
            mq.call(call, "one", payload, "pg", ledger=wrong)


def test_handles_of_one_ledger_are_not_alike(mq: Session) -> None:
    handles = {mq.value("prepare", "one", "1", "pg", ledger=LEDGER).split(".")[3] for _ in range(20)}
    assert len(handles) == 20
    assert not any(LEDGER in handle for handle in handles)


# the limit


def test_more_undecided_halves_than_the_limit_stop_prepare(mq: Session, broker: Broker) -> None:
    mq.call("create_producer_group", "few", max_undecided=3)
    handles = [mq.prepare("one", str(n), "few") for n in range(3)]
    mq.execute("select mqpg._enqueue_halves_now('test')")
    handles.append(mq.prepare("one", "4", "few"))
    mq.execute("select mqpg._enqueue_halves_now('test')")
    with refused("MQ026"):
        mq.prepare("one", "5", "few")
    with refused("MQ026"):
        mq.call("prepare_batch", "one", ["5"], "few")
    mq.prepare("one", "5", "pg")  # other groups are not concerned
    assert [tuple(row) for row in mq.call("_overfull_groups")] == [("few", 3)]
    mq.commit(handles[0])
    mq.rollback(handles[1])

    def again() -> bool:
        mq.execute("select mqpg._enqueue_halves_now('test')")
        return mq.call("_overfull_groups") == []

    eventually(again)
    mq.prepare("one", "6", "few")


def test_parked_halves_count_and_a_higher_limit_helps_at_once(mq: Session) -> None:
    soon = seconds(0.01)
    mq.call("create_producer_group", "few", check_after=soon, expire_after=soon, checker="url", checker_target="x")
    mq.call("alter_producer_group", "few", max_undecided=1)
    handles = [mq.prepare("one", str(n), "few") for n in range(2)]
    for handle in handles:
        parked(mq, handle)
    mq.prepare("one", "3", "pg")

    def full() -> bool:
        mq.prepare("one", "4", "pg")
        mq.execute("select mqpg._enqueue_halves_now('test')")
        return bool(mq.call("_overfull_groups"))

    eventually(full)
    with refused("MQ026"):
        mq.prepare("one", "5", "few")
    mq.call("alter_producer_group", "few", max_undecided=100)
    mq.prepare("one", "5", "few")


def test_decided_halves_do_not_count_and_their_entries_go(mq: Session) -> None:
    mq.call("create_producer_group", "few", max_undecided=2)
    handles = [mq.prepare("one", str(n), "few") for n in range(5)]
    mq.execute("select mqpg._enqueue_halves_now('test')")
    for handle in handles:
        mq.commit(handle)
    mq.execute("select mqpg._count_undecided()")
    assert mq.call("_overfull_groups") == []
    assert mq.scalar("select count(*) from pgmq.q_mqpg_oplog where message ->> 'producer_group' = 'few'") == 0
