"""The schema of each release, frozen with messages in every state, upgraded to this one.

tools/freeze_schema.py writes them. Where test_every_way_gives_one_catalog of test_alembic.py
fails, a table has changed without a numbered migration: see CONTRIBUTING, "Add a migration".
"""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mqpg import migrate
from mqpg.errors import WrongState
from tests.migration.catalog import FROZEN
from tests.support.broker import Broker, Session, refused
from tests.support.frozen_states import GROUPS, MEMBERS


@pytest.fixture(params=FROZEN, ids=[path.name.removesuffix(".sql.gz") for path in FROZEN])
def restored(request: pytest.FixtureRequest, empty_dsn: str) -> dict[str, Any]:
    """What is expected of the frozen data, which were restored into `empty_dsn`."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(gzip.decompress(request.param.read_bytes()))
    expected = request.param.with_name(request.param.name.replace(".sql.gz", ".json"))
    found: dict[str, Any] = json.loads(expected.read_text("utf-8"))
    return found


@pytest.fixture
def mq(empty_dsn: str, restored: dict[str, Any]) -> Iterator[Session]:
    migrate.upgrade(empty_dsn)
    broker = Broker(empty_dsn)
    yield broker.session()
    broker.close()


def test_there_is_a_frozen_schema() -> None:
    assert FROZEN


def test_what_earlier_releases_did_not_note_is_unknown(mq: Session) -> None:
    """Which policies topics had before neither excuses a loss nor makes it one."""
    assert mq.scalar("select count(*) from mqpg.topic t where (select count(*) from mqpg.former_setting f "
                     "where f.topic_id = t.topic_id and f.value = 'unknown') < 5") == 0  # fmt: skip
    assert mq.scalar("select count(*) from mqpg.subscription s where s.retries_from > '-infinity' and not exists "
                     "(select from mqpg.former_setting f where f.replaced_at = s.retries_from)") == 0  # fmt: skip
    assert mq.scalar("select count(*) from mqpg.subscription s where s.on_failure <> 'block_key' and not exists "
                     "(select from mqpg.former_setting f where f.name = 'on_failure' "
                     "and f.subscription_id = s.subscription_id and f.value = 'unknown')") == 0  # fmt: skip


def test_every_state_goes_on_to_its_end_once(mq: Session, restored: dict[str, Any]) -> None:
    with refused("MQ016"):
        mq.append()
    mq.value("adopt")
    with refused("MQ009"):
        mq.ack(restored["receipt"])
    halves = restored["halves"]
    assert mq.commit(halves["committed"]) == "already_committed"
    assert mq.commit(halves["rolled_back"]) == "already_rolled_back"
    assert mq.commit(halves["open"]) == "committed"
    assert mq.commit(halves["parked"]) == "committed"
    assert mq.commit(halves["expired"]) in ("already_rolled_back", "rolled_back")
    assert {letter.payload for letter in mq.call("dead_letters", "exclusive", "evt")} == set(restored["dead"])
    assert mq.value("redrive", "exclusive", "evt") == len(restored["dead"])
    # What was delayed or waits for its next attempt is made due now.
    mq.execute("update mqpg.delayed set visible_at = clock_timestamp() where visible_at > clock_timestamp()")
    for group in GROUPS:
        expected = [*due(restored, group), "half open", "half parked"]
        if group == "exclusive":
            expected += restored["dead"]
        assert everything(mq, group, len(expected)) == sorted(expected), group
    assert mq.scalar("select count(*) from mqpg.half_pending") == 0
    assert len(mq.call("receive", "exclusive", "old", 100)) == 5
    mq.call("keep")


def test_a_topic_that_waits_for_the_archive_is_named(empty_dsn: str, restored: dict[str, Any]) -> None:
    """Its segments would be dropped before anybody has read them."""
    waits = "update mqpg.topic set archive = %s where name = 'evt'"
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(waits, (True,))
        with pytest.raises(WrongState, match=r"mqpg archive is gone, .*: evt"):
            migrate.upgrade(empty_dsn)
        connection.execute(waits, (False,))
    assert migrate.upgrade(empty_dsn).up_to_date


def due(restored: dict[str, Any], group: str) -> list[str]:
    """What a group has not had of what was sent. One has a filter."""
    sent = ["half committed"] if group == "filtered" else restored["sent"]
    return [payload for payload in sent if payload not in restored["had"][group]]


def everything(mq: Session, group: str, count: int) -> list[Any]:
    """Receive and acknowledge until `count` messages came, and then until nothing comes."""
    found: list[Any] = []
    empty = 0
    while empty < (3 if len(found) >= count else 300):
        mq.append()
        batch = mq.call("receive", group, "evt", 50, consumer=MEMBERS.get(group, "one"))
        empty = 0 if batch else empty + 1
        if batch:
            mq.ack(batch[0].receipt)
            found += [message.payload for message in batch]
        else:
            mq.execute("select pg_sleep(0.02)")
    return sorted(found)
