"""A time without end is an anomaly, and ends no audit."""

from collections.abc import Callable

import pytest

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.story import Story

pytestmark = pytest.mark.spark

# Those that the audit reads.
_COLUMNS = """
select format('mqpg.%I', c.relname) as "table", quote_ident(a.attname) as "column"
from pg_attribute as a
join pg_class as c on c.oid = a.attrelid
where c.relnamespace = 'mqpg'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and a.atttypid = 'timestamptz'::regtype and (c.relname, a.attname) <> ('delayed', 'written_at')
    and c.relname = any(array[
        'check_log', 'commit_log', 'cursor', 'dead_letter', 'delayed', 'dropped_topic', 'former_dead_letter',
        'former_setting', 'held', 'op_log', 'position_jump', 'producer_group', 'segment', 'subscription', 'tick', 'topic'
    ])
"""


@pytest.mark.parametrize("end", ["infinity", "-infinity"])
def test_times_without_end(audit: Callable[..., Report], story: Story, end: str) -> None:
    """Each of them, and all at once."""
    handle = story.prepare()
    story.broker.execute("select mqpg.settle(%s, 'rollback', 'by hand')", (handle,))
    story.broker.execute("select mqpg.seek('mail', 'orders', 'latest'), mqpg.redrive('board', 'orders')")
    story.broker.execute("select mqpg.alter_topic('orders', message_ttl => '1 day')")
    users = [(story.ledger, "mqpg_ledger", "created_at"), (story.ledger, "mqpg_ledger", "done_at")]
    users += [(story.consumer, "mqpg_applied", "applied_at"), (story.consumer, "mqpg_offsets", "updated_at")]
    brokers = [(story.broker, row["table"], row["column"]) for row in story.broker.execute(_COLUMNS).fetchall()]
    assert len(brokers) > 20
    for connection, table, column in users + brokers:
        connection.execute(f"update {table} set {column} = %s where {column} is not null".encode(), (end,))
    assert audit().verdict is Verdict.INVALID
