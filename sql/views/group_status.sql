-- What each consumer group has left to do in each topic. One row for each subscription.
-- Cost: for each subscription that a condition on consumer_group and topic leaves, that of
-- subscription_lag, one index lookup for each queue with unread messages, and up to 1,001 dead letters.
create view mqpg.group_status as
select s.consumer_group, t.name as topic, s.mode, s.paused or t.paused as paused, coalesce(q.lag, 0) as lag,
    coalesce(q.claims, 0) as claims, q.oldest_unread_at, d.dead_letters, q.changed_at
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
cross join lateral (
    select sum(n.lag)::bigint as lag, sum(n.claims) as claims, min(o.at) as oldest_unread_at,
        max(n.changed_at) as changed_at
    from mqpg._subscription_lag(s.consumer_group, t.name) as n
    left join lateral (
        select k.at
        from mqpg.consume_queue as e
        inner join mqpg.tick as k on e.tick_id = k.tick_id
        where
            n.lag > 0 and e.topic_id = n.topic_id and e.queue_id = n.queue_id and e.base_offset <= n.committed
            and e.subscription_id = case when n.queue_id = -1 then n.subscription_id else 0 end
        order by e.base_offset desc
        limit 1
    ) as o on true
) as q
cross join lateral (  -- noqa: ST05
    select count(*) as dead_letters
    from (
        select from mqpg.dead_letter as e
        inner join mqpg.subscription as m on e.subscription_id = m.subscription_id
        where m.topic_id = s.topic_id and m.consumer_group = s.consumer_group
        limit 1001  -- noqa: AM09
    ) as letter
) as d
where s.member = '';
-- paused: Whether the subscription or the topic is paused
-- lag: Number of messages that are not acknowledged, in flight or not; of a broadcast group, of all members
-- claims: Number of open deliveries
-- oldest_unread_at: When the oldest message that is not acknowledged got its offset; null: there is none
-- dead_letters: Number of dead letters; 1001 means more than 1000
-- changed_at: Time of the last delivery, acknowledgement, heartbeat or other change
