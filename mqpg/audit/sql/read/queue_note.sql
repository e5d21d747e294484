-- Where queues end and begin by what retention noted of them.
select q.topic_id, coalesce(q.subscription_id, 0) as lane, q.queue_id, q.next_offset, q.oldest_offset
from mqpg_audit.queue_tail as q
