-- The effects of messages that must be in a queue, at an offset at which they were not delivered.
select f.*
from effect as f
where f.state = 'committed' and f.expected and not exists (
    select from delivery as d
    where d.subscription_id = f.subscription_id
        and d.queue_id = f.queue_id
        and d.queue_offset = f.queue_offset
        and d.message_id = f.message_id
)
