-- Oldest and next offset of each queue.
-- Cost: two index lookups per partition for each queue.
create view mqpg.queue_depth as
select v.topic, v.queue_id, v.oldest_offset, v.next_offset
from mqpg._queue_depth() as v;
comment on column mqpg.queue_depth.oldest_offset is 'The first offset that can still be read';
comment on column mqpg.queue_depth.next_offset is 'The offset that the next appended message gets';
