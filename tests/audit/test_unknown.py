"""The audit says unknown where it cannot decide, and why. An unknown name is an error."""

from collections.abc import Callable

import pytest

from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from mqpg.errors import DatabaseError, LedgerError, NotFound, UnknownProducerGroup, UnknownTopic
from tests.audit.story import Story, Trio

RunAudit = Callable[[AuditOptions], Report]


def test_nothing_read(run_audit: RunAudit, dsn: str) -> None:
    report = run_audit(AuditOptions(dsn=dsn))
    assert (report.verdict, report.reasons) == (Verdict.UNKNOWN, ("nothing was read: there is no message to audit",))


def test_not_drained_though_asked(audit: Callable[..., Report], story: Story) -> None:
    story.business()
    story.append()
    story.business()
    story.broker.execute("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")
    report = audit(drained=True)
    assert report.verdict is Verdict.UNKNOWN
    assert not any(report.anomalies.values())
    reasons = "\n".join(report.reasons)
    assert "1 messages of topic orders wait for the appender" in reasons
    assert "1 messages of topic orders wait for their time" in reasons
    assert "group board is 1 messages behind on topic orders" in reasons
    assert "group mail is 67 messages behind on topic orders" in reasons


def test_offsets_of_another_broker(audit: Callable[..., Report], story: Story) -> None:
    story.consumer.execute("update mqpg_offsets set broker = 'ffffffffffff'")
    report = audit()
    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == ("the offsets of group board belong to another broker, ffffffffffff",)


def test_offsets_of_a_later_incarnation(audit: Callable[..., Report], story: Story) -> None:
    """The broker was restored from a backup, and the consumer's database was not."""
    story.consumer.execute("update mqpg_offsets set incarnation = incarnation + 1 where queue_id = 0")
    report = audit()
    assert report.verdict is Verdict.UNKNOWN
    (reason,) = report.reasons
    assert reason.startswith("the offsets of group board come from incarnation 2 of the broker, which is at 1")


def test_loss_by_a_policy_of_which_nothing_is_known(audit: Callable[..., Report], story: Story) -> None:
    """An earlier release did not note which policies a topic had."""
    story.broker.execute("insert into mqpg.former_setting (topic_id, name, value) "
                         "select topic_id, 'lose_after', 'unknown' from mqpg.topic")  # fmt: skip
    story.broker.execute("select mqpg.subscribe('slow', 'orders')")
    story.broker.execute(
        "select mqpg._move_cursor(s, 0, 4, 'age') from mqpg.subscription as s where s.consumer_group = 'slow'"
    )
    report = audit()
    assert (report.verdict, len(report.reasons)) == (Verdict.UNKNOWN, 1)
    assert report.reasons[0].startswith("group slow lost 4 offsets of topic orders by a policy (age)")


def test_unknown_names_are_errors(run_audit: RunAudit, story: Story, trio: Trio) -> None:
    story.broker.execute("select mqpg.create_topic('bills')")
    for options, error in (
        ({"topics": ("absent",)}, UnknownTopic),
        ({"groups": ("absent",)}, NotFound),
        ({"topics": ("bills",), "groups": ("board",)}, NotFound),  # It reads other topics.
        ({"applied": {"absent": trio.consumer}}, NotFound),
        ({"ledgers": {"absent": trio.ledger}}, UnknownProducerGroup),
        ({"ledgers": {"shop": trio.consumer}}, LedgerError),
        ({"applied": {"board": trio.ledger}}, LedgerError),
    ):
        with pytest.raises(error):
            run_audit(AuditOptions(dsn=trio.broker, **options))


def test_a_broker_without_its_row_is_an_error(run_audit: RunAudit, story: Story, trio: Trio) -> None:
    story.broker.execute("delete from mqpg.broker")
    with pytest.raises(DatabaseError, match=r"the row of mqpg\.broker is gone"):
        run_audit(AuditOptions(dsn=trio.broker))
