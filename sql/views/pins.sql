-- What keeps closed segments from being dropped: the offsets that a consumer group (or a member of a broadcast group)
-- has not read in them, since when the segment is closed, and about how many bytes that is.
-- Cost: see _pins(): a few lookups for each queue of each subscription and closed segment.
create view mqpg.pins as
select
    p.consumer_group,
    nullif(p.member, '') as consumer,
    p.topic,
    p.queue_id,
    p.segment_no,
    p.closed_at,
    clock_timestamp() - p.closed_at as age,
    p.from_offset,
    p.to_offset,
    p.messages,
    p.bytes
from mqpg._pins() as p;
comment on view mqpg.pins is 'Unread messages that keep closed segments from being dropped';
