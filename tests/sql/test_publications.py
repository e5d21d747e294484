"""A publication for all tables, as change data capture or a move by logical replication makes one, stops nothing."""

import pytest

from tests.support.broker import Session
from tests.support.retention import aged, gone, keep, pass_time, roll

pytestmark = pytest.mark.own_database
UNIDENTIFIED = """
select c.oid::regclass::text from pg_class as c
where c.relnamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace, 'pgmq'::regnamespace)
    and c.relkind in ('r', 'p') and c.relpersistence = 'p' and c.relreplident <> 'f'
    and not exists (select from pg_index as i where i.indrelid = c.oid
        and case c.relreplident when 'i' then i.indisreplident else i.indisprimary end)
"""


@pytest.fixture
def published(mq: Session) -> Session:
    mq.execute("create publication everything for all tables")
    return mq


def test_every_table_can_be_published(mq: Session) -> None:
    assert mq.rows(UNIDENTIFIED) == []


def test_tables_that_are_made_later_can_be_published(mq: Session) -> None:
    """Those of new segments, and those that a merge makes."""
    mq.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    reported = []
    for _ in range(8):
        mq.sent("t")
        reported += aged(mq)
        pass_time(mq, "6 hours")
        reported += keep(mq, 100)
    assert "merged" in {row[0] for row in reported}
    assert mq.rows(UNIDENTIFIED) == []


def test_retention_works(published: Session, brisk: Session) -> None:
    brisk.sent("one")
    brisk.drain("one")
    brisk.execute("update mqpg.settings set value = '0 s' where name = 'position_jump_keep'")
    gone(brisk, {"commit_log_1", "op_log_1", "consume_queue_1", "tick_1"}, roll(brisk))


def test_what_deletes_and_updates_works(published: Session) -> None:
    published.call("subscribe", "once", "one", max_attempts=1, filter="$ > 0")
    first, second = (published.send("one", "1") for _ in range(2))
    published.append()
    for message in (first, second):
        published.nack(published.receive("one", group="once", max_messages=1)[0].receipt, [message])
    assert published.value("redrive", "once", "one") == 2
    published.call("alter_subscription", "once", "one", filter="$ > 1")
    published.call("purge_topic", "one")
    published.call("keep")
    published.call("unsubscribe", "once", "one")
    published.call("settle", published.prepare("one"), "rollback", "test")
    published.call("drop_topic", "one", True)
    published.call("drop_producer_group", "pg")
    published.execute("select pgmq.create('other'), pgmq.drop_queue('other')")


@pytest.mark.parametrize("same_xids", [False, True])
def test_a_restored_copy_is_adopted(published: Session, same_xids: bool) -> None:
    published.send("one")
    published.send("one", delay="1 hour")
    published.commit(published.prepare("one"))
    published.prepare("one", check_after="10 ms")
    published.append()
    published.send("one")
    published.execute("update mqpg.broker set system_identifier = 1")
    published.value("adopt", same_xids)
    assert published.append() == 1
    assert len(published.receive("one", max_messages=10)) == 3
