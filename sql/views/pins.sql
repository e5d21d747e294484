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
-- consumer: Mode broadcast: the consumer; else null
-- queue_id: -1: the retry lane
-- segment_no: The closed tick segment that cannot be dropped
-- age: Time since the segment was closed
-- from_offset: First unread offset in the segment
-- to_offset: Offset after the last one in the segment
-- messages: Number of offsets in between
-- bytes: About how many bytes the messages take
