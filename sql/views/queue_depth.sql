-- Oldest and next offset of each queue.
-- Cost: two index lookups per partition for each queue that a condition on topic leaves.
create view mqpg.queue_depth as
select t.name as topic, v.queue_id, v.oldest_offset, v.next_offset
from mqpg.topic as t
cross join lateral mqpg._queue_depth(t.name) as v;
-- oldest_offset: The first offset that can still be read
-- next_offset: The offset that the next appended message gets
