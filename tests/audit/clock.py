"""A clock that goes back: what was written so far was written while it was ahead."""

from tests.audit.story import Story

__all__ = ["turn_back"]

_CLAIMS = (
    "array(select row(c.epoch, c.from_offset, c.to_offset, c.attempt, c.lease_until + %(by)s, c.consumer, c.settled, "
    "c.picked, c.key)::mqpg.claim from unnest(claims) as c)"
)
_RETRIES = (
    "case when failed is null then (select array_agg(r + date_part('epoch', %(by)s) * 1000000)::bigint[] "
    "from unnest(reason::bigint[]) as r)::text else reason end"
)
_BROKER = {
    "commit_log": "born_at = born_at + %(by)s, check_at = check_at + %(by)s",
    "op_log": "at = at + %(by)s",
    "tick": "at = at + %(by)s, due_until = due_until + %(by)s",
    "cursor": f"at = at + %(by)s, claims = {_CLAIMS}, reason = {_RETRIES}",
    "delayed": "visible_at = visible_at + %(by)s, written_at = written_at + %(by)s",
    "dead_letter": "died_at = died_at + %(by)s",
    "former_dead_letter": "died_at = died_at + %(by)s",
    "position_jump": "at = at + %(by)s",
}
_MARK = "select setval('mqpg.due_mark', (date_part('epoch', max(due_until)) * 1000000)::bigint) from mqpg.tick"


def turn_back(story: Story, by: str) -> None:
    """Let the clock of the cluster go back, by so much as an interval of PostgreSQL says.

    Args:
        story: The three databases, all of one cluster.
        by: For example '3 s'.
    """
    for table, change in _BROKER.items():
        story.broker.execute(f"update mqpg.{table} set {change}".replace("%(by)s", f"interval '{by}'").encode())
    story.broker.execute(_MARK)
    story.consumer.execute(f"update mqpg_applied set applied_at = applied_at + interval '{by}'".encode())
    story.ledger.execute(
        f"update mqpg_ledger set created_at = created_at + interval '{by}', done_at = done_at + interval '{by}'".encode()
    )
