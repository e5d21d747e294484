-- What each queue holds: messages at oldest_offset to next_offset - 1 can be read.
-- Cost: two index lookups a partition for each queue.
create view mqpg.queue_depth as
select
    t.name as topic,
    q.queue_id,
    mqpg._oldest(t.topic_id, q.queue_id, 0) as oldest_offset,
    mqpg._tail(t.topic_id, q.queue_id, 0) as next_offset
from mqpg.topic as t
cross join lateral generate_series(0, t.queues - 1) as q (queue_id);
comment on view mqpg.queue_depth is 'Oldest and next offset of each queue';
