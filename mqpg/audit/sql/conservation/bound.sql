-- Between which offsets the queues and retry lanes hold messages.
select m.topic_id, m.lane, m.queue_id, min(m.queue_offset) as low, max(m.queue_offset) + 1 as high
from stored_message as m
group by 1, 2, 3
