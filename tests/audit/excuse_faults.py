"""Planted excuses: dead letters, position jumps and dropped segments that hide a loss."""

from typing import Any

from tests.audit.planting import Story, apply_at, fault

_JUMP = (
    "insert into mqpg.position_jump (subscription_id, topic_id, consumer_group, member, topic, queue_id, from_offset, "
    "to_offset, why, back) select subscription_id, topic_id, 'board', '', 'orders', %s, %s, %s, %s, %s "
    "from mqpg.subscription where consumer_group = 'board'"
)


def _effect(story: Story, condition: str) -> dict[str, Any]:
    row = story.consumer.execute(
        f"select * from mqpg_applied where {condition} order by queue_id, queue_offset limit 1"
    ).fetchone()
    assert row is not None
    return row


def _forget(story: Story, effect: dict[str, Any]) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (effect["message_id"],))


def _bury(story: Story, message: int, attempts: int = 1) -> None:
    story.broker.execute(
        "insert into mqpg.dead_letter (subscription_id, message_id, deliver_id, queue_id, attempts) "
        "select subscription_id, %s, %s, 0, %s from mqpg.subscription where consumer_group = 'board'",
        (message, message, attempts),
    )


def _jump(story: Story, effect: dict[str, Any], why: str = "seek", *, back: bool = False) -> None:
    offset = effect["queue_offset"]
    story.broker.execute(_JUMP, (effect["queue_id"], offset, offset + 1, why, back))


@fault("dead_letter", "a dead letter of 1 attempts, but no delivery of it failed")
def loss_hidden_by_a_dead_letter(story: Story) -> None:
    effect = _effect(story, "queue_id = 0")
    _forget(story, effect)
    _bury(story, effect["message_id"])


@fault("dead_letter", "a dead letter of 2 attempts, but no delivery of it failed")
def loss_hidden_by_a_discarded_dead_letter(story: Story) -> None:
    effect = _effect(story, "queue_id = 1")
    _forget(story, effect)
    _bury(story, effect["message_id"], 2)
    story.broker.execute(
        "select mqpg.discard_dead_letters('board', 'orders', array[%s::bigint])", (effect["message_id"],)
    )


@fault("dead_letter", "a dead letter, but the group applied the message")
def dead_letter_applied(story: Story) -> None:
    apply_at(story, int(story.one("select message_id from mqpg.dead_letter order by attempts desc limit 1")))


@fault("unexplained", "a position jump over the offsets")
def loss_hidden_by_a_seek(story: Story) -> None:
    effect = _effect(story, "queue_id = 0")
    _forget(story, effect)
    _jump(story, effect)


@fault("unexplained", "(expired), but no version of the cursor made it")
def loss_hidden_by_an_expiry(story: Story) -> None:
    story.broker.execute("select mqpg.alter_topic('orders', message_ttl => '100 days')")
    effect = _effect(story, "queue_id = 1")
    _forget(story, effect)
    _jump(story, effect, "expired")


@fault("unexplained", "(age), but no version of the cursor made it")
def loss_in_the_retry_lane_hidden_by_a_policy(story: Story) -> None:
    story.broker.execute("select mqpg.alter_topic('orders', lose_after => '100 days')")
    effect = _effect(story, "queue_id = -1")
    _forget(story, effect)
    _jump(story, effect, "age")


@fault("unexplained", "a position jump back over the offsets")
def repeated_effect_hidden_by_a_seek_back(story: Story) -> None:
    effect = _effect(story, "queue_id = 1 and queue_offset > 0")
    story.consumer.execute(
        "insert into mqpg_applied select * from mqpg_applied where message_id = %s", (effect["message_id"],)
    )
    _jump(story, effect, back=True)


def _lose(story: Story, why: str) -> None:
    """Let group mail lose what it has not read, as keep() does it."""
    story.business()
    story.append()
    lost = story.one(
        "select sum(mqpg._move_cursor(s, q, mqpg._tail(s.topic_id, q::smallint, 0), %s)) "
        "from mqpg.subscription as s, generate_series(0, 1) as q where s.consumer_group = 'mail'",
        why,
    )
    assert lost > 0


@fault("unexplained", "(age), but the topic had no such policy", alone=True)
def loss_by_a_policy_that_never_was(story: Story) -> None:
    _lose(story, "age")


@fault("unexplained", "(expired), but the topic had no such policy", alone=True)
def expiry_in_a_topic_where_nothing_expires(story: Story) -> None:
    _lose(story, "expired")
    story.broker.execute("update mqpg.cursor set action = 'x' where action = 'q'")


@fault("unexplained", "(size), but the topic had no such policy", alone=True)
def loss_by_a_policy_that_came_later(story: Story) -> None:
    """Another one was there before, and was taken away."""
    for policy in ("lose_over => 1", "lose_over => 0"):
        story.broker.execute(f"select mqpg.alter_topic('orders', {policy})")
    story.broker.execute("update mqpg.former_setting set replaced_at = replaced_at - interval '2 hours'")
    _lose(story, "size")
    story.broker.execute("select mqpg.alter_topic('orders', lose_over => 1, lose_after => '1 day')")


@fault("unexplained", "count as purged, but there is no record of a purge")
def retry_hidden_by_a_purge_that_never_was(story: Story) -> None:
    story.broker.execute("update mqpg.subscription set retries_from = now() where consumer_group = 'board'")


@fault("unexplained", "segment 1 of log is marked as dropped, but its rows are there", alone=True)
def segment_marked_as_dropped(story: Story) -> None:
    story.broker.execute(
        "update mqpg.segment set body_dropped_at = clock_timestamp() where family = 'log' "
        "and segment_no = (select min(segment_no) from mqpg.segment where family = 'log')"
    )


@fault("dead_letter", "a dead letter of 0 attempts, but no delivery of it failed", alone=True)
def dead_letter_of_an_expiry_that_never_was(story: Story) -> None:
    """The topic has no message_ttl, and no position jump records the expiry."""
    story.drain()
    story.drain("mail", journal=False)
    message = story.business()
    story.append()
    row = story.broker.execute(
        "select queue_id, base_offset from mqpg.consume_queue where first_ids[1] = %s", (message,)
    ).fetchone()
    assert row is not None
    story.broker.execute(
        "insert into mqpg.cursor (version, committed, claimed, at, epoch, subscription_id, slot, queue_id, action, "
        "owner, claims) select version + 1, %s, %s, clock_timestamp(), null, subscription_id, slot, queue_id, 'x', "
        "owner, '{}' from mqpg.cursor where queue_id = %s and subscription_id = (select subscription_id from "
        "mqpg.subscription where consumer_group = 'mail') order by version desc limit 1",
        (row["base_offset"] + 1, row["base_offset"] + 1, row["queue_id"]),
    )
    story.broker.execute(
        "insert into mqpg.dead_letter (subscription_id, message_id, deliver_id, queue_id, attempts, reason) "
        "select subscription_id, %s, %s, %s, 0, 'expired' from mqpg.subscription where consumer_group = 'mail'",
        (message, message, row["queue_id"]),
    )


@fault("unexplained", "of tick is marked as merged without some topics, and nothing was merged", alone=True)
def segment_marked_as_merged(story: Story) -> None:
    """As if the rows of some topics were past retention."""
    story.broker.execute("update mqpg.segment set left_out = array[0] where family = 'tick' and opened_at is not null")


@fault("unexplained", "but no version of the cursor made it", alone=True)
def seek_of_three_days_ago(story: Story) -> None:
    story.business()
    story.append()
    story.broker.execute("select mqpg.seek('mail', 'orders', 'latest')")
    story.broker.execute("update mqpg.position_jump set at = at - interval '3 days'")


@fault("unexplained", "is recorded 2 times", alone=True)
def seek_recorded_twice(story: Story) -> None:
    story.business()
    story.append()
    story.broker.execute("select mqpg.seek('mail', 'orders', 'latest')")
    columns = (
        "at, subscription_id, topic_id, consumer_group, member, topic, queue_id, from_offset, to_offset, why, back"
    )
    story.broker.execute(
        f"insert into mqpg.position_jump ({columns}) select {columns} from mqpg.position_jump limit 1".encode()
    )


@fault("unexplained", "and no version of the cursor was at 5", alone=True)
def loss_hidden_by_a_pause_of_the_journal(story: Story) -> None:
    _forget(story, _effect(story, "queue_id = 0 and queue_offset = 5"))
    story.broker.execute(
        "update mqpg.queue_start set journal = '{[0,5),[6,)}' where queue_id = 0 and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'board')"
    )
