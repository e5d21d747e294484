"""Planted faults that only the conservation from the cursor finds: an end without its row, or a row without its end."""

from typing import Any

from tests.audit.planting import Story, fault

_OF_BOARD = "(select subscription_id from mqpg.subscription where consumer_group = 'board')"


def _forget_one(story: Story, queue: int = 0) -> int:
    """Delete the first effect of a queue, and return its message."""
    row = story.consumer.execute(
        "delete from mqpg_applied where (queue_id, queue_offset) = (select queue_id, queue_offset from mqpg_applied "
        "where queue_id = %s order by queue_offset limit 1) returning message_id",
        (queue,),
    ).fetchone()
    assert row is not None
    return int(row["message_id"])


def _schedule(story: Story, message: int, attempt: int) -> None:
    """Write the row of a retry in 30 days."""
    story.broker.execute(
        "insert into mqpg.delayed (visible_at, xid, first_id, written_at, topic_id, subscription_id, queue_id, n, "
        "attempt) select now() + interval '30 days', pg_current_xact_id(), %s, clock_timestamp(), topic_id, "
        f"subscription_id, -1, 1, %s from mqpg.subscription where subscription_id = {_OF_BOARD}",
        (message, attempt),
    )


def _receive(story: Story, group: str, **options: Any) -> list[dict[str, Any]]:
    named = "".join(f", {name} => %s" for name in options)
    return story.broker.execute(
        f"select * from mqpg.receive(%s, 'orders', 10{named}) order by queue_offset", (group, *options.values())
    ).fetchall()


def _ack(story: Story, rows: list[dict[str, Any]]) -> None:
    story.broker.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))


def _at_the_end(story: Story, group: str, *messages: str, **options: str) -> None:
    """Subscribe a group without a journal that gets these messages only."""
    named = "".join(f", {name} => %s" for name in options)
    story.broker.execute(f"select mqpg.subscribe(%s, 'orders', start => 'latest'{named})", (group, *options.values()))
    for payload in messages:
        story.broker.execute("select mqpg.send('orders', %s::text, key => '1')", (payload,))
    story.append()


@fault("unexplained", "it shall come back 1 times by a nack, of which there were 0", alone=True)
def loss_hidden_by_a_retry(story: Story) -> None:
    _schedule(story, _forget_one(story), 2)


@fault("unexplained", "it shall come back 1 times by a redrive, of which there were 0", alone=True)
def loss_hidden_by_a_redrive(story: Story) -> None:
    _schedule(story, _forget_one(story, 1), 1)


@fault("unexplained", "by a redrive, of which there were 0", alone=True)
def redriven_letter_called_discarded(story: Story) -> None:
    message = story.one("select message_id from mqpg.dead_letter")
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    story.drain()
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    story.broker.execute("update mqpg.former_dead_letter set fate = 'discarded'")


@fault("phantom", "in the retry lane 1 times by a nack, of which there were 0", alone=True)
def retry_that_nobody_asked_for(story: Story) -> None:
    message = story.one(
        "select first_ids[1] from mqpg.consume_queue where subscription_id = 0 order by tick_id limit 1"
    )
    story.broker.execute(
        "insert into mqpg.consume_queue (base_offset, tick_id, topic_id, subscription_id, n, queue_id, first_ids, "
        "starts, attempts) select (select max(base_offset + n) from mqpg.consume_queue where subscription_id = "
        f"{_OF_BOARD}), (select max(tick_id) from mqpg.tick), topic_id, {_OF_BOARD}, 1, -1, array[%s::bigint], "
        "array[0], array[2::smallint] from mqpg.topic",
        (message,),
    )


@fault("lost", "acknowledged 1 times, and applied 0 times", alone=True)
def loss_hidden_by_a_seek_back_and_forth(story: Story) -> None:
    for target in ("earliest", "latest"):
        story.broker.execute("select mqpg.seek('board', 'orders', %s)", (target,))
    _forget_one(story)


@fault("lost", "acknowledged 1 times, and applied 0 times", alone=True)
def loss_hidden_by_a_filter(story: Story) -> None:
    _forget_one(story)
    story.broker.execute(
        f"insert into mqpg.former_filter (subscription_id, filter, replaced_at) values ({_OF_BOARD}, 'false', now())"
    )


@fault("lost", "acknowledged 1 times, and applied 0 times", alone=True)
def loss_hidden_by_a_deferral(story: Story) -> None:
    story.consumer.execute(
        "create table mqpg_inbox (consumer_group varchar(127), topic varchar(127), message_id bigint, "
        "state varchar(8), broker varchar(40))"
    )
    broker = story.one("select broker_id from mqpg.broker")
    story.consumer.execute(
        "insert into mqpg_inbox values ('board', 'orders', %s, 'deferred', %s)", (_forget_one(story), broker)
    )


@fault("lost", "acknowledged 2 times, and applied 1 times", alone=True, applied={})
def second_effect_missing_after_a_seek_back(story: Story) -> None:
    """The journal lies beside the queue, so each acknowledgement has its effect."""
    story.broker.execute("create table mqpg_applied (consumer_group varchar(127), topic varchar(127), queue_id int, "
                         "queue_offset bigint, message_id bigint, applied_at timestamptz, broker varchar(40), "
                         "subscription_id int)")  # fmt: skip
    _at_the_end(story, "beside", "1")
    for times in range(2):
        with story.broker.transaction():
            rows = _receive(story, "beside")
            if times == 0:
                story.broker.execute(
                    "insert into mqpg_applied select 'beside', 'orders', %s, %s, %s, clock_timestamp(), broker_id, %s "
                    "from mqpg.broker",
                    (rows[0]["queue_id"], rows[0]["queue_offset"], rows[0]["message_id"],
                     int(rows[0]["receipt"].split(".")[0])),
                )  # fmt: skip
            _ack(story, rows)
        where = (str(rows[0]["queue_offset"]), rows[0]["queue_id"])
        if times == 0:
            story.broker.execute("select mqpg.seek('beside', 'orders', %s, queue_id => %s)", where)


@fault("lost", "nacked 1 times, but it came back 0 times, and is no dead letter", alone=True)
def retry_vanished_of_a_group_without_a_journal(story: Story) -> None:
    _at_the_end(story, "none", "1")
    rows = _receive(story, "none")
    story.broker.execute("select mqpg.nack(%s, %s)", (rows[0]["receipt"], [rows[0]["message_id"]]))
    story.broker.execute("delete from mqpg.delayed where first_id = %s", (rows[0]["message_id"],))


@fault("lost", "nacked 1 times, but it came back 0 times, and is no dead letter", alone=True)
def retry_vanished_of_a_group_that_began_in_a_queue_that_is_none(story: Story) -> None:
    retry_vanished_of_a_group_without_a_journal(story)
    story.broker.execute("insert into mqpg.queue_start select max(subscription_id), 99, 0 from mqpg.subscription")


@fault("lost", "given up after its last delivery, but there is no dead letter", alone=True)
def dead_letter_vanished_of_a_group_without_a_journal(story: Story) -> None:
    _at_the_end(story, "none", "1", on_failure="block_key")
    story.broker.execute("select mqpg.alter_subscription('none', 'orders', max_attempts => 2)")
    for _ in range(3):
        _receive(story, "none", lease="10 milliseconds")
        story.broker.execute("select pg_sleep(0.03)")
    story.broker.execute(
        "delete from mqpg.dead_letter where subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'none')"
    )


@fault("skipped", "passed it, but the filter chooses it", alone=True)
def message_left_out_that_the_filter_chooses(story: Story) -> None:
    _at_the_end(story, "few", "1", "2", filter="$ == 2")
    assert len(_receive(story, "few")) == 1
    # The filter is another one than that by which the group read.
    story.broker.execute("update mqpg.subscription set filter = '$ < 3' where consumer_group = 'few'")


@fault("phantom", "applied 1 times at this offset, and delivered 0 times", alone=True)
def effect_of_a_message_that_nobody_got(story: Story) -> None:
    story.drain()
    message = story.business()
    story.append()
    row = story.broker.execute(
        "select queue_id, base_offset from mqpg.consume_queue where first_ids[1] = %s", (message,)
    ).fetchone()
    assert row is not None
    story.consumer.execute(
        "insert into mqpg_applied values ('board', 'orders', %s, %s, %s, clock_timestamp(), %s, %s)",
        (row["queue_id"], row["base_offset"], message, story.one("select broker_id from mqpg.broker"),
         story.one(f"select {_OF_BOARD}")),
    )  # fmt: skip


@fault("duplicated", "applied 2 times at this offset, and delivered", alone=True)
def effect_repeated_in_a_second_life(story: Story) -> None:
    """An effect from before a group subscribed again still counts."""
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    story.drain()
    story.broker.execute("select mqpg.unsubscribe('board', 'orders')")
    story.broker.execute("select mqpg.subscribe('board', 'orders', mode => 'pinned')")
    story.consumer.execute("delete from mqpg_offsets where queue_id < 0")
    story.consumer.execute(
        "insert into mqpg_applied select consumer_group, topic, queue_id, queue_offset, message_id, "
        "clock_timestamp(), broker, %s from mqpg_applied where queue_id = 0 order by queue_offset limit 1",
        (story.one(f"select {_OF_BOARD}"),),
    )


def _change_newest(story: Story, queue_id: int, changed: str, group: str = "board") -> None:
    """Change the newest version of a group's cursor of a queue."""
    story.broker.execute(
        f"update mqpg.cursor set {changed} where (subscription_id, queue_id, version) = ("
        "select c.subscription_id, c.queue_id, max(c.version) from mqpg.cursor c join mqpg.subscription s "
        "using (subscription_id) where s.consumer_group = %s and c.queue_id = %s group by 1, 2)",
        (group, queue_id),
    )


@fault("lease", "consumer c2 has the queue, which c1 owns", alone=True)
def pinned_queue_taken_by_another_consumer(story: Story) -> None:
    story.drain()
    for _ in range(2):
        story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()
    rows = _receive(story, "board", consumer="c1")
    _change_newest(story, rows[0]["queue_id"], "owner = 'c2', claims[1].consumer = 'c2'")


@fault("lease", "its consumer does not own the queue", alone=True)
def pinned_queue_delivered_to_another_consumer(story: Story) -> None:
    story.drain()
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()
    rows = _receive(story, "board", consumer="c1")
    _change_newest(story, rows[0]["queue_id"], "claims[1].consumer = 'c2'")


@fault("lease", "it has a claim beside one whose lease had not ended", alone=True)
def exclusive_queue_read_twice(story: Story) -> None:
    _at_the_end(story, "none", "1", "2")
    for mode in ("exclusive", "shared"):
        story.broker.execute("update mqpg.subscription set mode = %s where consumer_group = 'none'", (mode,))
        assert len(story.broker.execute("select * from mqpg.receive('none', 'orders', 1)").fetchall()) == 1
    story.broker.execute("update mqpg.subscription set mode = 'exclusive' where consumer_group = 'none'")


@fault("lost", "redriven 1 times, but it came back 0 times", alone=True)
def redriven_message_vanished_of_a_group_without_a_journal(story: Story) -> None:
    _at_the_end(story, "none", "1")
    rows = _receive(story, "none")
    message = rows[0]["message_id"]
    story.broker.execute("select mqpg.nack(%s, %s, final => true)", (rows[0]["receipt"], [message]))
    story.broker.execute("select mqpg.redrive('none', 'orders')")
    story.broker.execute("delete from mqpg.delayed where first_id = %s", (message,))


@fault("phantom", "ended its delivery, and the filter leaves it out", alone=True)
def message_delivered_that_the_filter_leaves_out(story: Story) -> None:
    _at_the_end(story, "few", "1", filter="$ == 1")
    _ack(story, _receive(story, "few"))
    # The filter is another one than that by which the group read.
    story.broker.execute("update mqpg.subscription set filter = '$ == 2' where consumer_group = 'few'")


@fault("lease", "consumer c2 has the queue, which nobody owns", alone=True)
def exclusive_queue_with_an_owner(story: Story) -> None:
    """No other consumer gets anything of it any more."""
    _at_the_end(story, "none", "1")
    rows = _receive(story, "none")
    _change_newest(story, rows[0]["queue_id"], "owner = 'c2'", "none")
