-- How often each subscription applied a message at each offset, by its journal. A group that goes on
-- at its own offsets when it subscribes again answers for what it applied before. former: that was
-- so, and its deliveries are not known any longer.
select
    k.subscription_id, a.message_id, a.queue_id, a.queue_offset,
    count(*) as times,
    bool_or(a.subscription_id <> k.subscription_id) as former
from applied as a
left join keeper as s
    on s.consumer_group = a.consumer_group
    and s.topic = a.topic
    and s.subscriptions = 1
    and (s.own or a.subscription_id is null)
join keeper as k on k.subscription_id = coalesce(s.subscription_id, a.subscription_id)
group by 1, 2, 3, 4
