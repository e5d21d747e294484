-- Unread messages that keep closed segments from being dropped. For each group (or member of a
-- broadcast group) and queue: which offsets of the segment it has not read.
-- Cost: a few index lookups for each closed segment and each queue of each subscription that a
-- condition on consumer_group and topic leaves.
create view mqpg.pins as
select s.consumer_group, nullif(s.member, '') as consumer, t.name as topic, p.queue_id, p.segment_no, p.closed_at,
    clock_timestamp() - p.closed_at as age, p.from_offset, p.to_offset, p.messages, p.bytes
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
cross join lateral mqpg._pins(s.subscription_id) as p;
comment on column mqpg.pins.consumer is 'Mode broadcast: the consumer; else null';
comment on column mqpg.pins.queue_id is '-1: the retry lane';
comment on column mqpg.pins.segment_no is 'The closed tick segment that cannot be dropped';
comment on column mqpg.pins.age is 'Time since the segment was closed';
comment on column mqpg.pins.from_offset is 'First unread offset in the segment';
comment on column mqpg.pins.to_offset is 'Offset after the last one in the segment';
comment on column mqpg.pins.messages is 'Number of offsets in between';
comment on column mqpg.pins.bytes is 'About how many bytes the messages take';
