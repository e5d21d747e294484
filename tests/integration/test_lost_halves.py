"""A broker that lost a committed half message gets it again, once, from a ledger that keeps messages."""

import json
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text

import mqpg
from mqpg import errors, migrate
from tests.support.business import business_at
from tests.support.in_process import Run
from tests.support.killing import die_at, killed

pytestmark = pytest.mark.shared_database

_AT_ONCE = timedelta(0)
_MODULE = "mqpg._sync.producer.prepare_again"
_REPLACE = "mqpg._sync.stores.ledger_messages:LedgerMessages.replace_handle"
_STEPS = [
    ("before", f"{_MODULE}:prepare_half"),
    ("after", f"{_MODULE}:prepare_half"),
    ("before", _REPLACE),
    ("after", _REPLACE),
    ("after", f"{_MODULE}:decide"),
]


@pytest.fixture
def producer(mq: mqpg.Client, local_url: str, orders: str) -> Iterator[mqpg.TransactionalProducer]:
    """A producer that keeps messages, whose check-backs look into its ledger."""
    mq.alter_producer_group("shop", check_after="10 ms", checker="url", checker_target="shop")
    mq.subscribe("readers", orders)
    with (
        business_at(local_url) as engine,
        mqpg.TransactionalProducer(mq, group="shop", ledger=engine, keep_messages=True) as made,
    ):
        made.create_ledger()
        yield made


def sell(producer: mqpg.TransactionalProducer, n: int, **options: object) -> str:
    with producer.transaction("orders", {"id": n}, **options) as tx:  # type: ignore[arg-type]
        tx.execute(text("insert into business values (:n)"), {"n": n})
    return tx.handle


def lose(dsn: str, *handles: str, only_decisions: bool = False) -> None:
    """Take rows away as the promotion of a standby does that lacks them, and adopt."""
    ids = [int(handle.split(".")[2]) for handle in handles]
    with psycopg.connect(dsn) as conn:
        conn.execute("delete from mqpg.op_log where message_id = any(%s)", (ids,))
        if not only_decisions:
            conn.execute("delete from mqpg.commit_log where batch_id = any(%s)", ([one // 1024 for one in ids],))
    migrate.adopt(dsn)


def delivered(mq: mqpg.Client) -> list[mqpg.Message]:
    """What is new in both queues. It is acknowledged, since an open claim would keep what comes behind it back."""
    while mq.append():
        pass
    deliveries = [mq.receive("readers", "orders"), mq.receive("readers", "orders")]
    for delivery in deliveries:
        delivery.ack()
    return [message for delivery in deliveries for message in delivery]


def check_back(mq: mqpg.Client, producer: mqpg.TransactionalProducer) -> None:
    with mq.transaction() as conn:
        halves = [row[0] for row in conn.execute("select handle from mqpg.half_pending").fetchall()]
    for handle in halves:
        verdict = producer.ledger.verdict(handle)
        assert verdict is not mqpg.Verdict.WAIT
        (mq.commit if verdict is mqpg.Verdict.COMMIT else mq.rollback)(handle)


@pytest.mark.parametrize(("when", "step"), _STEPS)
@pytest.mark.chaos
def test_a_recovery_that_is_killed_doubles_nothing(
    mq: mqpg.Client, dsn: str, local_url: str, producer: mqpg.TransactionalProducer, when: str, step: str
) -> None:
    """A check-back may rule on the half message that the dead recovery prepared, before the next recovery.

    It does if the ledger is in SQLite.
    """
    lost = sell(producer, 1)
    producer.recover(older_than=_AT_ONCE)
    lose(dsn, lost)
    killed("tests.integration.test_lost_halves", dsn, local_url, when, step)
    if local_url.startswith("sqlite"):
        check_back(mq, producer)
    producer.recover(older_than=_AT_ONCE)
    check_back(mq, producer)
    assert producer.recover_lost() == []
    (message,) = delivered(mq)
    assert message.payload == {"id": 1}
    assert message.headers == {"mqpg-earlier-ids": [int(lost.split(".")[2])]}


def main(dsn: str, local_url: str, when: str, step: str) -> None:
    die_at(step, when)
    with mqpg.connect(dsn) as mq, mqpg.TransactionalProducer(mq, group="shop", ledger=local_url) as producer:
        producer.recover()


def test_every_message_of_a_transaction_comes_again_as_it_was(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    with producer.transaction("orders", {"id": 1}, key="k", tag="t", headers={"h": 1}) as tx:
        tx.execute(text("insert into business values (1)"))
        tx.commit_payload({"id": 1, "final": True})
        tx.add("orders", {"id": 2}, key="k", headers=[2])
        tx.add_batch("orders", [{"id": 3}, {"id": 4}], keys=[None, "k"], tags=["u", None])
    lose(dsn, *tx.handles)
    assert producer.recover(older_than=_AT_ONCE) == 4
    found = sorted(delivered(mq), key=lambda message: str(message.payload))
    ids = [int(handle.split(".")[2]) for handle in tx.handles]
    assert [(message.payload, message.key, message.tag, message.headers) for message in found] == [
        ({"id": 1, "final": True}, "k", "t", {"h": 1, "mqpg-earlier-ids": [ids[0]]}),
        ({"id": 2}, "k", None, [2]),
        ({"id": 3}, None, "u", {"mqpg-earlier-ids": [ids[2]]}),
        ({"id": 4}, "k", None, {"mqpg-earlier-ids": [ids[3]]}),
    ]


def test_a_half_that_survived_without_its_decision_is_committed_and_not_sent_again(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    handle = sell(producer, 1)
    producer.recover(older_than=_AT_ONCE)  # the row is marked done
    lose(dsn, handle, only_decisions=True)
    assert producer.recover_lost(dry_run=True) == []
    assert producer.recover_lost() == []
    (message,) = delivered(mq)
    assert message.message_id == int(handle.split(".")[2])


def test_a_message_that_is_lost_twice_names_both_earlier_ids(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    first = sell(producer, 1)
    lose(dsn, first)
    (once,) = producer.recover_lost()
    assert once.handle == first
    assert once.new_handle is not None
    lose(dsn, once.new_handle)
    (twice,) = producer.recover_lost()
    assert (twice.handle, twice.outcome) == (once.new_handle, mqpg.Outcome.COMMITTED)
    (message,) = delivered(mq)
    assert message.headers == {"mqpg-earlier-ids": [once.message_id, twice.message_id]}


def test_what_retention_has_dropped_is_not_lost(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    """The broker answers unknown to both, but sends nothing again that it has delivered long ago."""
    handle = sell(producer, 1)
    lose(dsn, handle)
    with psycopg.connect(dsn) as conn:
        conn.execute("""
            update mqpg.segment set body_dropped_at = now()
            where segment_no = (select min(segment_no) from mqpg.segment where family = 'log') and family = 'log'
        """)
    assert mq.commit(handle) is mqpg.Outcome.UNKNOWN
    assert producer.recover_lost() == []
    assert delivered(mq) == []


def test_a_handle_of_the_present_incarnation_is_not_lost(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    """It may be at a primary that this broker is no copy of any more."""
    handle = sell(producer, 1)
    with psycopg.connect(dsn) as conn:
        conn.execute("delete from mqpg.op_log")
        conn.execute("delete from mqpg.commit_log")
    assert mq.commit(handle) is mqpg.Outcome.UNKNOWN
    assert producer.recover_lost() == []


def test_purge_deletes_the_messages_too(mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer) -> None:
    done = sell(producer, 1)
    producer.recover(older_than=_AT_ONCE)
    with producer.transaction("orders", {"id": 2}) as tx:
        tx.execute(text("insert into business values (2)"))
    assert producer.ledger.purge(_AT_ONCE) == 1
    assert producer.ledger.messages.read(done) is None
    assert producer.ledger.messages.read(tx.handle) is not None


def test_a_producer_that_keeps_messages_needs_the_table(mq: mqpg.Client, local_url: str, orders: str) -> None:
    with mqpg.TransactionalProducer(mq, group="shop", ledger=local_url) as plain:
        plain.create_ledger()
    with (
        mqpg.TransactionalProducer(mq, group="shop", ledger=local_url, keep_messages=True) as producer,
        pytest.raises(errors.LedgerError, match="mqpg_ledger_message"),
    ):
        sell(producer, 1)
    with mq.transaction() as conn:
        assert conn.execute("select count(*) from mqpg.half_pending").fetchone() == (0,)


def test_the_command_lists_what_stays_lost(
    dsn: str, local_url: str, producer: mqpg.TransactionalProducer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, not_kept = sell(producer, 1), ""
    with mqpg.TransactionalProducer(producer.mq, group="shop", ledger=producer.ledger.database.engine) as forgetful:
        not_kept = sell(forgetful, 2)
    lose(dsn, kept, not_kept)

    monkeypatch.setenv("MQPG_LEDGER_SHOP", local_url)

    def recover(*options: str) -> tuple[int, str]:
        return run("half", "recover", "--ledger", "shop", *options)[:2]

    def rows(*options: str) -> tuple[int, list[tuple[str, object]]]:
        status, out = recover("--json", *options)
        return status, sorted((one["handle"], one["outcome"]) for one in json.loads(out))

    status, out = recover("--dry-run")
    assert (status, out.splitlines()[-1]) == (1, "ledger shop: the broker has lost 2 messages")
    assert rows("--dry-run") == (1, sorted([(kept, None), (not_kept, None)]))
    status, out = recover()
    assert (status, out.splitlines()[-1]) == (1, "ledger shop: sent 1 message again, of 2 that the broker had lost")
    assert rows() == (1, [(not_kept, None)])


def test_what_the_broker_refuses_is_tried_again_and_not_purged(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    """Its row was marked done, so nothing else would look at it again."""
    handle = sell(producer, 1)
    producer.recover(older_than=_AT_ONCE)
    lose(dsn, handle)
    mq.alter_topic("orders", max_payload=1)
    assert producer.recover(older_than=_AT_ONCE) == 0
    assert producer.ledger.purge(_AT_ONCE) == 0
    mq.alter_topic("orders", max_payload=1000)
    assert producer.recover(older_than=_AT_ONCE) == 1
    (message,) = delivered(mq)
    assert message.payload == {"id": 1}


def test_a_final_payload_that_is_refused_holds_no_other_message_up(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    with producer.transaction("orders", {"id": 1}) as tx:
        tx.commit_payload({"id": "much longer"})
    lose(dsn, tx.handle, sell(producer, 2))
    mq.alter_topic("orders", max_payload=10)
    assert sorted(str(one.outcome) for one in producer.recover_lost()) == ["None", "committed"]
    assert [message.payload for message in delivered(mq)] == [{"id": 2}]
    mq.alter_topic("orders", max_payload=1000)
    assert producer.recover(older_than=_AT_ONCE) == 1
    assert [message.payload for message in delivered(mq)] == [{"id": "much longer"}]


@pytest.mark.parametrize("count", [1, 2])
def test_a_transaction_that_was_open_during_the_loss_is_sent_by_recovery(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer, count: int
) -> None:
    """An error behind its commit would have its caller repeat it."""
    with producer.transaction("orders", {"id": 1}) as tx:
        tx.execute(text("insert into business values (1)"))
        for _ in range(count - 1):
            tx.add("orders", {"id": 2})
        lose(dsn, *tx.handles)
    assert (tx.committed, tx.outcome) == (True, None)
    assert producer.recover(older_than=_AT_ONCE) == count
    assert producer.recover_lost() == []
    assert len(delivered(mq)) == count


def test_a_transaction_without_kept_messages_says_what_was_lost(
    mq: mqpg.Client, dsn: str, producer: mqpg.TransactionalProducer
) -> None:
    with (
        mqpg.TransactionalProducer(mq, group="shop", ledger=producer.ledger.database.engine) as forgetful,
        pytest.raises(errors.UnknownHandle, match="has committed"),
        forgetful.transaction("orders", {"id": 1}) as tx,
    ):
        lose(dsn, tx.handle)
