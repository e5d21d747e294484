-- The ids of the messages that groups were moved over, or back, as far back as the queues reach.
select
    j.subscription_id, j.back, e.message_id
from jump as j
join entry as e
    on e.topic_id = j.topic_id
    and e.queue_id = j.queue_id
    and e.lane = case when j.queue_id = -1 then j.subscription_id else 0 end
    and e.queue_offset >= j.from_offset
    and e.queue_offset < j.to_offset
