"""A producer group whose ledger nobody serves: the call that makes it says what to start."""

import pytest

from tests.support.broker import Session

LINE = (
    'no compensator knows the ledger shop: start "mqpg worker" with --ledger shop=URL '
    "or with the variable MQPG_LEDGER_SHOP=URL"
)


@pytest.fixture
def warnings(mq: Session) -> list[str]:
    """The warnings that the session gets."""
    found: list[str] = []
    mq.conn.add_notice_handler(lambda notice: found.append(str(notice.message_primary)))
    return found


def test_who_makes_a_group_with_a_ledger_that_nobody_serves_is_warned(mq: Session, warnings: list[str]) -> None:
    mq.call("create_producer_group", "shop", checker="url", checker_target="shop")
    assert warnings == [f"producer group shop: {LINE}"]
    mq.call("create_producer_group", "shop", checker="url", checker_target="shop")  # repeated at each start
    assert len(warnings) == 2
    mq.call("alter_producer_group", "shop", max_checks=3)
    assert len(warnings) == 2


def test_who_gives_a_group_such_a_ledger_is_warned(mq: Session, warnings: list[str]) -> None:
    mq.call("alter_producer_group", "pg", checker="url", checker_target="shop")
    assert warnings == [f"producer group pg: {LINE}"]


def test_where_the_ledger_is_served_or_here_there_is_no_warning(mq: Session, warnings: list[str]) -> None:
    mq.execute("select pg_advisory_lock(1836150846, mqpg._ledger_lock('shop'))")  # as its compensator does
    mq.call("create_producer_group", "shop", checker="url", checker_target="shop")
    mq.call("create_producer_group", "here", checker="ledger")
    mq.call("create_producer_group", "polled")
    assert warnings == []


def test_a_compensator_that_knows_the_ledger_begins_with_its_first_group(mq: Session, warnings: list[str]) -> None:
    """It serves a ledger once a group names it, and then reports how that goes."""
    report = "select mqpg._heartbeat('c', 'compensator', 'host', 1, 'active', %s::jsonb)"
    mq.execute(report, '{"ledgers": {}, "known_ledgers": ["MQPG_LEDGER_SHOP_EU"]}')
    mq.call("create_producer_group", "shop", checker="url", checker_target="shop-eu")
    assert warnings == []
    silent = "select l.problem from mqpg._silent_ledgers() l"  # what status and doctor say
    assert mq.execute(silent).fetchall() == []
    mq.call("create_producer_group", "depot", checker="url", checker_target="shop")
    assert warnings == [f"producer group depot: {LINE}"]
    refused = '{"state": "refused", "reason": "no such driver"}'
    mq.execute(report, f'{{"ledgers": {{"shop-eu": {refused}}}, "known_ledgers": ["MQPG_LEDGER_SHOP_EU"]}}')
    mq.call("create_producer_group", "shop", checker="url", checker_target="shop-eu")
    assert warnings[1:] == ["producer group shop: no such driver"]
    assert {row[0] for row in mq.execute(silent)} == {LINE, "no such driver"}
