-- The offsets of all queues and retry lanes, and which message each of them has. The queues have
-- rows with runs of consecutive message ids, and generate_series() makes a row of each offset.
-- A condition on tick_id reaches the queues below the expansion, so it leaves out partitions. One
-- on topic, topic_id and queue_id uses an index of each partition. Conditions on queue_offset,
-- message_id or appended_at do neither: look up the ticks of a time in tick first.
-- Cost: the rows of the queues in the range of tick_id; if appended_at is read, one index lookup
-- for each of them (a row has up to 4096 offsets).
create view mqpg_audit.queue_entry as
select c.topic_id, t.name as topic, c.queue_id::int as queue_id, c.base_offset + r.first + i.i as queue_offset,
    r.first_id + i.i as message_id, (r.first_id + i.i) >> 10 as batch_id,
    nullif(c.subscription_id, 0) as subscription_id, s.consumer_group, nullif(s.member, '') as consumer,
    coalesce(r.attempt, 1)::int as attempt, c.tick_id, w.appended_at
from mqpg.consume_queue as c
cross join lateral unnest(c.first_ids, c.starts, c.starts[2:] || c.n, c.attempts)
    as r (first_id, first, after_last, attempt)
cross join lateral generate_series(0, r.after_last - r.first - 1) as i (i)
-- ORDER BY: not looked up where nobody reads it.
cross join lateral (  -- noqa: ST05
    select
        (
            select k.at from mqpg.tick as k
            where k.tick_id = c.tick_id
        ) as appended_at
    order by c.tick_id
) as w
left join mqpg.topic as t on c.topic_id = t.topic_id
left join mqpg.subscription as s on c.subscription_id = s.subscription_id;
-- topic_id: Id of the topic
-- topic: Name of the topic; null: it was dropped
-- queue_id: Queue of the topic, from 0; -1: a retry lane
-- queue_offset: Offset: 0, 1, 2, … without a hole in each queue and each retry lane
-- message_id: Id of the message at this offset
-- batch_id: message_id / 1024, to join with message
-- subscription_id: Retry lane: the subscription that it belongs to; null: a queue of the topic, for every group
-- consumer_group: Retry lane: the consumer group; null: a queue of the topic, or the group unsubscribed
-- consumer: Retry lane in mode broadcast: the member of the group; else null
-- attempt: Number of the delivery that the first delivery from this offset is; 1 in a queue of the topic
-- tick_id: The tick that appended it; the cut column, by which partitions are left out
-- appended_at: When it was appended; null: the tick was dropped by retention
