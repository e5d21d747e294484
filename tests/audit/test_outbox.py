"""An outbox takes the place of a ledger: a committed half message without a row is confirmed."""

from collections.abc import Callable
from typing import Any

import pytest

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.judged import found, require_valid
from tests.audit.outbox_faults import OUTBOX_DDL, store_row, use_outbox
from tests.audit.story import Story, Trio

pytestmark = pytest.mark.spark

_COUNTERS = """
create table if not exists mqpg_outbox_count (
    broker varchar(40), topic varchar(127), slot int, sent bigint, committed bigint, primary key (broker, topic, slot))
"""


def test_an_outbox_enters_the_counting_relations(audit: Callable[..., Report], story: Story) -> None:
    use_outbox(story)
    handle = story.prepare(dedup_id="under way")
    store_row(story, "under way", "commit", handle)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.drain()
    report = require_valid(audit())
    (relation,) = report.relations
    assert (relation.confirmed, relation.open, relation.consumed, relation.excused) == (15, 1, 15, 1)


@pytest.mark.parametrize(("counted", "verdict"), [((10, 5), Verdict.VALID), ((10, 6), Verdict.INVALID)])
def test_what_the_outbox_has_counted_is_still_there(
    audit: Callable[..., Report], story: Story, counted: tuple[int, int], verdict: Verdict
) -> None:
    """The broker may lose a message that it had confirmed, after the outbox has deleted its row (P7)."""
    use_outbox(story)
    for slot, committed in enumerate(counted):
        _count(story, committed, slot=slot)
    story.ledger.execute("insert into mqpg_outbox_count values ('another', 'orders', 0, 0, 99)")
    _drained(story)
    assert audit().verdict is Verdict.VALID  # judged only if nothing runs
    report = audit(drained=True, groups=("board",))
    assert report.verdict is verdict, report.reasons
    if verdict is Verdict.INVALID:
        assert any("confirmed > consumed" in reason for reason in report.reasons)


def test_what_the_outbox_has_counted_of_a_topic_that_was_dropped(audit: Callable[..., Report], story: Story) -> None:
    use_outbox(story)
    story.broker.execute("select mqpg.create_topic('gone', 1)")
    story.broker.execute("select mqpg.drop_topic('gone')")
    _count(story, 3, "gone")
    _drained(story)
    require_valid(audit(drained=True, groups=("board",)))


@pytest.fixture
def both(story: Story) -> Callable[[str], str]:
    """A ledger of group shop and an outbox of group web in one database. It prepares a half message of web."""
    story.ledger.execute(OUTBOX_DDL)
    story.broker.execute("select mqpg.create_producer_group('web', checker => 'due_checks')")
    story.ledger.execute(f"{_COUNTERS}; insert into mqpg_outbox_count values ('0ab1c2d3', '', 0, 0, 0)")
    prepare = "select mqpg.prepare('orders', '{}'::text, 'web', ledger => '0ab1c2d3', dedup_id => %s)"
    handles = [story.one(prepare, f"web {n}") for n in range(3)]
    for handle in handles:
        story.broker.execute("select mqpg.commit(%s)", (handle,))
    _count(story, 3)
    _drained(story)
    return lambda row: str(story.one(prepare, row))


def test_a_ledger_and_an_outbox_in_one_database(
    audit: Callable[..., Report], story: Story, trio: Trio, both: Callable[[str], str]
) -> None:
    report = require_valid(audit(ledgers=_both(trio)))
    found = {one.ledger: (one.confirmed, one.open, one.consumed) for one in report.relations}
    assert found == {"shop,web": (15, 0, 14), "shop,web (outbox)": (3, 0, 3)}
    drained: dict[str, Any] = {"drained": True, "groups": ("board",), "ledgers": _both(trio)}
    require_valid(audit(**drained))
    story.ledger.execute("update mqpg_outbox_count set committed = committed + 1 where topic = 'orders'")
    assert any("confirmed > consumed" in reason for reason in audit(**drained).reasons)


@pytest.mark.parametrize("row", ["ledger row gone", "outbox says rollback", "outbox says commit"])
def test_faults_of_a_ledger_and_an_outbox_in_one_database(
    audit: Callable[..., Report], story: Story, trio: Trio, both: Callable[[str], str], row: str
) -> None:
    if row == "ledger row gone":
        oldest = "select min(handle) from mqpg_ledger where entry = 'local'"
        story.ledger.execute(f"delete from mqpg_ledger where handle = ({oldest})".encode())
    else:
        handle = both(row)
        store_row(story, row, row.split()[-1], handle)
        decide = "commit" if row.endswith("rollback") else "rollback"
        story.broker.execute(f"select mqpg.{decide}(%s)", (handle,))
        _drained(story)
    kind = "mismatch" if row == "outbox says commit" else "phantom"
    assert found(audit(ledgers=_both(trio))) == {kind: 1}


def test_an_outbox_beside_the_brokers_own_ledger(audit: Callable[..., Report], story: Story) -> None:
    """It does not stand for the ledger of a group whose checker looks into that."""
    story.broker.execute(OUTBOX_DDL)
    story.broker.execute("select mqpg.create_producer_group('inside', checker => 'ledger')")
    handle = story.one("select mqpg.prepare('orders', '{}'::text, 'inside')")
    story.broker.execute("select mqpg.local_begin(%s)", (handle,))
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    _drained(story)
    require_valid(audit())
    handle = story.one("select mqpg.prepare('orders', '{}'::text, 'inside')")
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    _drained(story)
    assert found(audit()) == {"phantom": 1}


def _both(trio: Trio) -> dict[str, str]:
    return {"shop": trio.ledger, "web": trio.ledger}


def _count(story: Story, committed: int, topic: str = "orders", slot: int = 0) -> None:
    """Let the outbox count messages that it has deleted."""
    story.ledger.execute(_COUNTERS)
    broker = story.one("select broker_id from mqpg.broker")
    row = (broker, topic, slot, committed)
    story.ledger.execute("insert into mqpg_outbox_count values (%s, %s, %s, 0, %s)", row)


def _drained(story: Story) -> None:
    story.drain()
    story.drain("mail", journal=False)
