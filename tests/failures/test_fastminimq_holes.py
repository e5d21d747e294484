"""Cases that FastMiniMQ's published code does not handle, and mqpg does."""

import logging
import uuid
from functools import partial

import pytest

import mqpg
from mqpg import errors
from tests.failures.stage import SALE, Stage


def test_1_1_F1_decision_over_an_unknown_id_is_never_swallowed(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The broker lost the half, because the PREPARE never became durable or expired.

    The outcome says so, and the ledger row remains.
    """
    with stage.sql.transaction() as tx:
        lost = stage.sql.prepare("orders", "{}", "shop")
        tx.force_rollback = True
    with stage.engine.begin() as conn:
        stage.ledger.begin(conn, lost)
    assert stage.mq.commit(lost) is mqpg.Outcome.UNKNOWN
    assert stage.mq.rollback(lost) is mqpg.Outcome.UNKNOWN
    with caplog.at_level(logging.ERROR):
        assert stage.recover() == 0
    assert f"{lost} (local): the broker says unknown" in caplog.text
    assert stage.shop.scalar("select done_at from mqpg_ledger where entry = 'local'") is None
    known = [stage.sell(1), stage.sql.prepare("orders", "{}", "shop")]
    assert stage.mq.commit(known[0]) is mqpg.Outcome.ALREADY_COMMITTED
    assert stage.mq.rollback(known[1]) is mqpg.Outcome.ROLLED_BACK
    assert stage.mq.commit(known[1]) is mqpg.Outcome.ALREADY_ROLLED_BACK


def test_1_1_F2_late_duplicate_of_a_prepare_arms_nothing(stage: Stage) -> None:
    """With its dedup id the PREPARE is the first half, which is decided.

    Without one it is another half, which no ledger names.
    """
    prepare = partial(stage.mq.prepare, "orders", {"id": 1}, "shop", key="1")
    handle = prepare(dedup_id="order 1")
    with stage.engine.begin() as local:
        stage.ledger.begin(local, handle)
        local.execute(SALE, {"id": 1})
    assert stage.mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert prepare(dedup_id="order 1") == handle
    assert stage.mq.commit(handle) is mqpg.Outcome.ALREADY_COMMITTED
    late = prepare()
    stage.recover()
    stage.check_back()
    assert stage.decision(late) == ("b", "checker")
    stage.exactly_once([1])


def test_1_1_F4_rollback_is_indexed_nowhere(stage: Stage) -> None:
    """A half that is rolled back reaches no topic, not even one that is named after its producer."""
    topics = stage.sql.rows("select name from mqpg.topic")
    for handle in (stage.sql.prepare("orders", "{}", "shop", key="k"), stage.sql.prepare("orders", "{}", "shop")):
        assert stage.mq.rollback(handle) is mqpg.Outcome.ROLLED_BACK
    assert stage.mq.append() == 0
    assert stage.sql.scalar("select count(*) from mqpg.consume_queue") == 0
    assert stage.sql.rows("select name from mqpg.topic") == topics


def test_1_1_F5_ids_are_the_brokers_and_cannot_be_made_up(stage: Stage) -> None:
    """Two producers never share an id, and a client cannot choose, guess or alter one."""
    handles = [stage.sql.prepare("orders", "{}", "shop") for _ in range(20)]
    assert len(set(handles)) == 20
    broker, incarnation, message, nonce = handles[0].split(".")
    for forged in (
        str(uuid.uuid4()),
        ".".join([broker, incarnation, message, uuid.uuid4().hex]),
        ".".join([broker, incarnation, str(int(message) + 1), nonce]),
        ".".join([uuid.uuid4().hex[:12], incarnation, message, nonce]),
    ):
        assert stage.mq.commit(forged) is mqpg.Outcome.UNKNOWN
        with pytest.raises(errors.UnknownHandle):
            stage.mq.check_wait(forged)
    assert stage.mq.commit_batch(handles) == [(handle, mqpg.Outcome.COMMITTED) for handle in handles]
