"""Ids that live long: many adoptions, and many members of broadcast groups."""

from __future__ import annotations

import pytest

from mqpg import migrate
from tests.support.broker import Broker, Session, refused

pytestmark = pytest.mark.own_database


@pytest.mark.parametrize("batch", [2**43, 10**15, 2**52])
def test_message_ids_and_handles_beyond_those_of_javascript(batch: int, mq: Session) -> None:
    """The last ones have handles with ids of 19 digits."""
    mq.execute("select setval('mqpg.batch_id', %s)", batch)
    mq.call("keep")
    message = mq.send("one")
    handles = [mq.prepare("one") for _ in range(4)]
    assert [row.state for row in mq.call("half_states", handles)] == ["undecided"] * 4
    assert mq.commit(handles[0]) == "committed"
    assert mq.rollback(handles[1]) == "rolled_back"
    assert [row.outcome for row in mq.call("commit_batch", handles[2:3])] == ["committed"]
    mq.execute("insert into mqpg.ledger (handle, at) values (%s, now() - interval '1 hour')", handles[3])
    assert [row.outcome for row in mq.call("reconcile")] == ["committed"]
    mq.append()
    got = [row.message_id for row in mq.drain("one", max_messages=10)]
    assert got[0] == message
    assert len(got) == 4


@pytest.mark.parametrize("digits", ["9223372036854775808", "9999999999999999999", "99999999999999999999"])
def test_a_number_that_is_no_id_is_no_handle(digits: str, mq: Session) -> None:
    broker, incarnation, _, nonce = mq.prepare("one").split(".")
    handle = f"{broker}.{incarnation}.{digits}.{nonce}"
    assert mq.commit(handle) == "unknown"
    assert [row.outcome for row in mq.call("commit_batch", [handle, handle])] == ["unknown"] * 2
    assert [row.state for row in mq.call("half_states", [handle])] == ["unknown"]


def test_the_end_of_subscription_ids_is_said(mq: Session) -> None:
    mq.call("subscribe", "all", "one", "broadcast")
    mq.execute("alter sequence mqpg.subscription_subscription_id_seq restart 2097150")
    mq.call("subscribe", "last", "one")
    mq.send("one")
    mq.append()
    assert len(mq.receive("one", group="last")) == 1
    with refused("54000", "2097150"):
        mq.call("subscribe", "more", "one")
    with refused("54000", "2097150"):
        mq.receive("one", group="all", consumer="pod")


@pytest.mark.parametrize(("last", "said"), [(1_600_000, False), (1_700_000, True)])
def test_the_end_of_subscription_ids_is_said_long_before(last: int, said: bool, broker: Broker, mq: Session) -> None:
    mq.execute("select setval('mqpg.subscription_subscription_id_seq', %s)", last)
    assert any("ids of subscriptions are used up" in one for one in migrate.problems(broker.dsn)) == said
