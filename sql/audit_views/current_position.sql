-- Where each subscription is now in each queue and in its retry lane.
-- Cost: a few index lookups per partition for each queue of each subscription.
create view mqpg_audit.current_position as
select s.subscription_id, s.consumer_group, nullif(s.member, '') as consumer, s.topic_id, t.name as topic, q.queue_id,
    c.committed as committed_offset, c.claimed as claimed_offset,
    greatest(e.end_offset, n.next_offset, 0) as end_offset,
    greatest(e.end_offset, n.next_offset, 0) - c.committed as lag,
    (
        select count(*)::int from unnest(c.claims) as u
        where u.epoch > 0
    ) as deliveries,
    c.version, c.at as changed_at
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
cross join lateral generate_series(-1, t.queues - 1) as q (queue_id)
cross join lateral (
    select k.committed, k.claimed, k.claims, k.version, k.at
    from mqpg.cursor as k
    where k.subscription_id = s.subscription_id and k.queue_id = q.queue_id
    order by k.version desc
    limit 1
) as c
left join lateral (
    select l.base_offset + l.n as end_offset from mqpg.consume_queue as l
    where l.topic_id = s.topic_id and l.queue_id = q.queue_id
        and l.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
    order by l.base_offset desc
    limit 1
) as e on true
-- keep() notes the end of a queue before it drops its last row.
left join mqpg.queue_tail as n
    on s.topic_id = n.topic_id and q.queue_id = n.queue_id
        and n.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
where s.mode <> 'broadcast' or s.member <> '';
-- subscription_id: Id of the subscription
-- consumer_group: Name of the consumer group
-- consumer: Mode broadcast: the member of the group; else null
-- topic_id: Id of the topic
-- topic: Name of the topic
-- queue_id: Queue of the topic, from 0; -1: the retry lane
-- committed_offset: The group is done with everything below this offset
-- claimed_offset: Nothing from this offset on was delivered yet; the view pending says what is open between the two
-- end_offset: The offset that the next appended message gets
-- lag: end_offset - committed_offset: number of offsets, done out of order or not
-- deliveries: Number of deliveries in flight
-- version: Number of changes of this position; the same as in position_change
-- changed_at: Time of the last delivery, acknowledgment, heartbeat or other change
