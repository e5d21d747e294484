-- Effects by subscription and offset: the journal says so. A group may subscribe again and go on at its
-- own offsets. It then answers for what it applied before.
-- former: it did, and the deliveries of that time are not known any longer.
select
    k.subscription_id, a.queue_id, a.queue_offset, a.message_id,
    coalesce(a.subscription_id <> k.subscription_id, false) as former
from applied as a
left join keeper as s
    on s.consumer_group = a.consumer_group
    and s.topic = a.topic
    and s.subscriptions = 1
    and (s.own or a.subscription_id is null)
join keeper as k on k.subscription_id = coalesce(s.subscription_id, a.subscription_id)
