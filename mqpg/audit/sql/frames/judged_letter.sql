-- The dead letters of present subscriptions. judged: the history of all queues reaches back to the
-- time when the message became a dead letter.
select
    l.subscription_id, r.consumer_group, r.topic_id, r.topic, r.mode, l.message_id, l.deliver_id,
    l.attempts, l.present,
    s.known_since is null or l.died_at > s.known_since as judged
from letter as l
join reader as r on r.subscription_id = l.subscription_id
join (
    select k.subscription_id, max(k.known_since) as known_since
    from known_since as k
    group by 1
) as s on s.subscription_id = l.subscription_id
