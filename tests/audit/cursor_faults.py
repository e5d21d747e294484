"""Planted faults of cursors: positions, claims, epochs and leases.

Each fault has a consumer group of its own, which reads topic `orders` from its beginning.
"""

import time
from typing import Any

from tests.audit.planting import Story, fault


def _subscribe(story: Story, group: str, mode: str = "exclusive") -> None:
    story.broker.execute("select mqpg.subscribe(%s, 'orders', mode => %s)", (group, mode))


def _receive(story: Story, group: str, most: int = 3, lease: str = "1 hour", consumer: str = "c1") -> str:
    """Receive a few messages of queue 0 and return the receipt."""
    rows = story.broker.execute(
        "select * from mqpg.receive(%s, 'orders', %s, %s::interval, %s, 0)", (group, most, lease, consumer)
    ).fetchall()
    assert rows, group
    return str(rows[0]["receipt"])


def _ack(story: Story, receipt: str) -> None:
    story.broker.execute("select mqpg.ack(%s)", (receipt,))


def _newest(story: Story, group: str, queue: int = 0, *, member: str = "") -> dict[str, Any]:
    row = story.broker.execute(
        "select c.* from mqpg.cursor c join mqpg.subscription s using (subscription_id) "
        "where s.consumer_group = %s and s.member = %s and c.queue_id = %s order by c.version desc limit 1",
        (group, member, queue),
    ).fetchone()
    assert row is not None
    return row


def _write(story: Story, group: str, action: str, *, queue: int = 0, member: str = "", **changed: object) -> None:
    """Write the next version of a cursor: the newest one with some columns changed."""
    row = _newest(story, group, queue, member=member)
    values = {
        name: changed.get(name, f"c.{name}")
        for name in ("committed", "claimed", "epoch", "subscription_id", "slot", "queue_id", "owner", "claims")
    }
    story.broker.execute(
        "insert into mqpg.cursor (version, at, action, "
        + ", ".join(values)
        + f") select c.version + 1, clock_timestamp(), '{action}', {', '.join(map(str, values.values()))} "
        "from mqpg.cursor c where c.subscription_id = %s and c.queue_id = %s and c.version = %s",
        (row["subscription_id"], row["queue_id"], row["version"]),
    )


def _change(story: Story, group: str, change: str, *, back: int = 0) -> None:
    """Change a version of a cursor of queue 0: the newest one, or one of those before it."""
    row = _newest(story, group)
    story.broker.execute(
        f"update mqpg.cursor set {change} where subscription_id = %s and queue_id = 0 and version = %s",
        (row["subscription_id"], row["version"] - back),
    )


def _forget(story: Story, group: str, queue: int, version: int) -> None:
    story.broker.execute(
        "delete from mqpg.cursor where queue_id = %s and version = %s and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = %s)",
        (queue, version, group),
    )


@fault("skipped", "version 2 (action ack): moved from 0 (claimed up to 0) to 5")
def acknowledged_without_a_claim(story: Story) -> None:
    _subscribe(story, "one")
    _write(story, "one", "a", committed=5, claimed=5)


@fault("skipped", "the versions between 1 and it are missing")
def version_missing(story: Story) -> None:
    _forget(story, "board", 0, 2)


@fault("skipped", "the versions between 1 and it are missing")
def version_of_the_retry_lane_missing(story: Story) -> None:
    _forget(story, "board", -1, 2)


@fault("skipped", "version 2 (action receive): the versions before it are missing")
def first_version_missing(story: Story) -> None:
    _subscribe(story, "two")
    _receive(story, "two")
    _forget(story, "two", 0, 1)


@fault("skipped", "version 1 (action subscribe): its position is 0, and the subscription began elsewhere")
def first_version_set_back(story: Story) -> None:
    story.broker.execute("select mqpg.subscribe('begun', 'orders', start => 'latest')")
    assert _newest(story, "begun")["committed"] > 0
    _change(story, "begun", "committed = 0, claimed = 0")


@fault("skipped", "version 1 (action subscribe): its position is 0, and the subscription began elsewhere")
def start_forgotten(story: Story) -> None:
    _subscribe(story, "forgotten")
    story.broker.execute(
        "update mqpg.queue_start set start_offset = null where queue_id = 0 and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'forgotten')"
    )


@fault("skipped", "version 1 (action subscribe): its position is 1, and the subscription began elsewhere")
def first_version_moved_ahead_of_deliveries(story: Story) -> None:
    _subscribe(story, "ahead")
    _receive(story, "ahead")
    _change(story, "ahead", "committed = 1, claimed = 1", back=1)


@fault("skipped", "(action ack): moved from 0 (claimed up to 6) to 6")
def acknowledged_for_another_consumer(story: Story) -> None:
    _subscribe(story, "three", "shared")
    first, _ = _receive(story, "three"), _receive(story, "three", consumer="c2")
    _ack(story, first)
    _change(story, "three", "claims = '{}', committed = claimed")


@fault("skipped", "(action extend): moved from 0")
def extended_and_moved(story: Story) -> None:
    _subscribe(story, "four")
    story.broker.execute("select mqpg.extend(%s, '1 hour')", (_receive(story, "four"),))
    _change(story, "four", "claims = '{}', committed = claimed")


@fault("skipped", "(action moved): moved from 0")
def seek_without_its_record(story: Story) -> None:
    _subscribe(story, "five")
    story.broker.execute("select mqpg.seek('five', 'orders', '4', queue_id => 0)")
    story.broker.execute("delete from mqpg.position_jump where consumer_group = 'five'")


@fault("skipped", "(action moved): moved from 0", alone=True)
def seek_whose_record_names_another_queue(story: Story) -> None:
    story.broker.execute("select mqpg.seek('mail', 'orders', '4', queue_id => 0)")
    story.broker.execute("update mqpg.position_jump set queue_id = 1")


@fault("reverted", "went back from 3", alone=True)
def seek_back_whose_record_says_forward(story: Story) -> None:
    _subscribe(story, "one")
    _ack(story, _receive(story, "one"))
    story.broker.execute("select mqpg.seek('one', 'orders', '0', queue_id => 0)")
    story.broker.execute("update mqpg.position_jump set back = false")


@fault("skipped", "(action expired): moved from 0")
def expired_without_its_record(story: Story) -> None:
    _subscribe(story, "six")
    _write(story, "six", "x", committed=4, claimed=4)


@fault("skipped", "moved from 3 (claimed up to 3) to 7")
def member_of_a_broadcast_moved(story: Story) -> None:
    _subscribe(story, "cast", "broadcast")
    _ack(story, _receive(story, "cast", consumer="m1"))
    _write(story, "cast", "a", member="m1", committed=7, claimed=7)


@fault("skipped", "to 3 (claimed up to 6), which its action does not explain")
def committed_beyond_a_claim(story: Story) -> None:
    _subscribe(story, "seven", "shared")
    _receive(story, "seven")
    _receive(story, "seven")
    _change(story, "seven", "committed = 3")


@fault("reverted", "went back from")
def went_back_without_a_seek(story: Story) -> None:
    _write(story, "board", "a", committed=0, claimed=0)


@fault("reverted", "(action moved): went back from 3")
def seek_back_without_its_record(story: Story) -> None:
    _subscribe(story, "one")
    _ack(story, _receive(story, "one"))
    story.broker.execute("select mqpg.seek('one', 'orders', '0', queue_id => 0)")
    story.broker.execute("delete from mqpg.position_jump where consumer_group = 'one' and back")


@fault("reverted", "went back from 3")
def member_of_a_broadcast_went_back(story: Story) -> None:
    _subscribe(story, "cast", "broadcast")
    _ack(story, _receive(story, "cast", consumer="m1"))
    _write(story, "cast", "l", member="m1", committed=1, claimed=1)


@fault("stale_epoch", "(action ack): no claim had epoch 77")
def acknowledged_with_a_stale_epoch(story: Story) -> None:
    _subscribe(story, "one")
    _receive(story, "one")
    _write(story, "one", "a", epoch=77, claims="'{}'", committed="c.claimed")


@fault("stale_epoch", "(action nack): no claim had epoch 78")
def nacked_with_a_stale_epoch(story: Story) -> None:
    _subscribe(story, "two")
    _receive(story, "two")
    _write(story, "two", "n", epoch=78, claims="'{}'", committed="c.claimed")


@fault("stale_epoch", "(action extend): no claim had epoch 79")
def extended_with_a_stale_epoch(story: Story) -> None:
    _subscribe(story, "three")
    _receive(story, "three")
    _write(story, "three", "e", epoch=79)


@fault("stale_epoch", "(action release): no claim had epoch 80")
def released_with_a_stale_epoch(story: Story) -> None:
    _subscribe(story, "four")
    _receive(story, "four")
    _write(story, "four", "l", epoch=80)


@fault("stale_epoch", "epoch 5 is not a new claim's")
def epoch_that_does_not_rise(story: Story) -> None:
    _subscribe(story, "five", "shared")
    _receive(story, "five")
    _receive(story, "five")
    _change(story, "five", "epoch = 5, claims[2].epoch = 5")


@fault("stale_epoch", "it has a claim that no delivery gave")
def claim_that_nobody_gave(story: Story) -> None:
    _subscribe(story, "six")
    _receive(story, "six")
    story.broker.execute("select mqpg.seek('six', 'orders', '4', queue_id => 0)")
    _change(story, "six", "claims = array[row(99, 4, 5, 1, clock_timestamp(), 'c1', null, null, null)::mqpg.claim]")


@fault("stale_epoch", "is not a new claim's")
def first_delivery_counted_as_the_third(story: Story) -> None:
    _subscribe(story, "seven")
    _receive(story, "seven")
    _change(story, "seven", "claims[1].attempt = 3")


@fault("stale_epoch", "it has a claim that no delivery gave")
def claim_of_more_attempts_than_before(story: Story) -> None:
    _subscribe(story, "eight", "shared")
    _receive(story, "eight")
    _receive(story, "eight")
    _change(story, "eight", "claims[1].attempt = 3")


@fault("lease", "two claims hold the same offset")
def range_given_twice(story: Story) -> None:
    _subscribe(story, "one", "shared")
    _receive(story, "one")
    _receive(story, "one", consumer="c2")
    _change(story, "one", "claims[2].from_offset = 1")


@fault("lease", "it took over a claim whose lease had not ended")
def taken_over_before_the_lease_ended(story: Story) -> None:
    _subscribe(story, "two")
    _receive(story, "two", lease="10 milliseconds")
    time.sleep(0.05)
    _receive(story, "two", consumer="c2")
    _change(story, "two", "claims[1].lease_until = clock_timestamp() + interval '1 hour'", back=1)


@fault("lease", "it took over a claim whose lease had not ended")
def member_of_a_broadcast_taken_over(story: Story) -> None:
    _subscribe(story, "cast", "broadcast")
    _receive(story, "cast", lease="10 milliseconds", consumer="m1")
    time.sleep(0.05)
    _receive(story, "cast", consumer="m1")
    row = _newest(story, "cast", member="m1")
    story.broker.execute(
        "update mqpg.cursor set claims[1].lease_until = clock_timestamp() + interval '1 hour' "
        "where subscription_id = %s and queue_id = 0 and version = %s",
        (row["subscription_id"], row["version"] - 1),
    )
