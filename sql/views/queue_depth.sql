-- What each queue holds: the messages at the offsets from oldest_offset to next_offset - 1.
-- Cost: two index lookups per partition for each queue.
create view mqpg.queue_depth as
select
    t.name as topic,
    q.queue_id,
    mqpg._oldest(t.topic_id, q.queue_id, 0) as oldest_offset,
    mqpg._tail(t.topic_id, q.queue_id, 0) as next_offset
from mqpg.topic as t
cross join lateral generate_series(0, t.queues - 1) as q (queue_id);
comment on view mqpg.queue_depth is 'Oldest and next offset of each queue';
comment on column mqpg.queue_depth.oldest_offset is 'The first offset that can still be read';
comment on column mqpg.queue_depth.next_offset is 'The offset that the next appended message gets';
