"""FastMiniMQ with dedupe at the consumer: a topic of kind relay, and an inbox that holds PREPAREs
back. The steps are S1 S2 PREPARE arrives, S3 stored in the inbox, S4 queue position, S5 S6 COMMIT
or ROLLBACK arrives, S7 taken out of the inbox in the transaction of the effect, S8 queue position.
In mqpg S4 and S8 are in the transactions of S3 and S7. The broker learns the position afterwards,
and may miss it.
"""

import pytest

import mqpg
from tests.failures.stage import Stage


@pytest.fixture
def relay(stage: Stage) -> Stage:
    """Topic `relayed`, whose consumers see every phase."""
    stage.mq.create_topic("relayed", queues=1, kind="relay")
    stage.mq.subscribe("there", "relayed", "pinned")
    return stage


def prepare(stage: Stage, id: int) -> str:
    handle = stage.mq.prepare("relayed", {"id": id}, "shop", check_after=3600)
    stage.append()
    return handle


def inbox(stage: Stage) -> list[str]:
    return [row[0] for row in stage.shop.rows("select handle from mqpg_prepared")]


# Where a consumer can die in an iteration: before its local commit, or after it and before the broker knows.
DEATHS = [("after", "mqpg._sync.stores.offsets:Offsets.move"), ("before", "mqpg:Client.ack_delivery")]


@pytest.mark.parametrize(("when", "step"), DEATHS, ids=["S3", "S4"])
def test_1_1_E12_consumer_dies_after_it_stored_a_prepare(relay: Stage, when: str, step: str) -> None:
    """The PREPARE comes again and is stored once, not applied. Its COMMIT then applies it once."""
    handle = prepare(relay, 1)
    relay.killed("consume_there", when, step, topic="relayed")
    relay.finished("consume_there", topic="relayed")
    assert (inbox(relay), relay.effects()) == ([handle], [])
    assert relay.mq.commit(handle) is mqpg.Outcome.COMMITTED
    relay.append()
    relay.finished("consume_there", topic="relayed")
    assert (inbox(relay), relay.effects()) == ([], [1])


@pytest.mark.parametrize(("when", "step"), DEATHS, ids=["S7", "S8"])
@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_1_1_E13_consumer_dies_after_it_applied_a_commit(relay: Stage, decision: str, when: str, step: str) -> None:
    """The COMMIT comes again and finds no PREPARE.

    It is ignored, as every repeated COMMIT is.
    """
    handle = prepare(relay, 1)
    relay.finished("consume_there", topic="relayed")
    getattr(relay.mq, decision)(handle)
    relay.append()
    relay.killed("consume_there", when, step, topic="relayed")
    for _ in range(2):
        relay.finished("consume_there", topic="relayed")
    assert (inbox(relay), relay.effects()) == ([], [1] if decision == "commit" else [])
    relay.mq.send("relayed", {"id": 2}, headers={"mqpg-phase": "commit", "mqpg-handle": handle})
    relay.append()
    relay.finished("consume_there", topic="relayed")
    assert relay.effects() == ([1] if decision == "commit" else [])


@pytest.mark.parametrize(("when", "step"), DEATHS, ids=["before its commit", "after its commit"])
def test_1_1_F3_prepare_and_commit_in_one_batch_apply_once(relay: Stage, when: str, step: str) -> None:
    """In FastMiniMQ both have one position at the end of the batch, so a crash replays both.

    In mqpg the position is in the effect's transaction.
    """
    handles = [prepare(relay, id) for id in (1, 2)]
    relay.mq.commit(handles[0])
    relay.append()
    relay.killed("consume_there", when, step, topic="relayed")
    for _ in range(2):
        relay.finished("consume_there", topic="relayed")
    assert (inbox(relay), relay.effects()) == ([handles[1]], [1])
