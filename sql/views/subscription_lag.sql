-- Position and lag of each subscription on each queue.
-- Cost: two index lookups per partition for each queue of each subscription that a condition on
-- consumer_group and topic leaves.
create view mqpg.subscription_lag as
select s.consumer_group, t.name as topic, q.queue_id, c.committed, n.next_offset, n.next_offset - c.committed as lag,
    p.claims, coalesce(c.owner, nullif(s.member, '')) as owner, s.mode, c.at as changed_at, s.subscription_id
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
cross join lateral generate_series(-1, t.queues - 1) as q (queue_id)
cross join lateral (
    select k.committed, k.claims, k.owner, k.at from mqpg.cursor as k
    where k.subscription_id = s.subscription_id and k.queue_id = q.queue_id
    order by k.version desc
    limit 1
) as c
cross join lateral (
    select count(*)::int as claims from unnest(c.claims) as u
    where u.epoch > 0
) as p
cross join lateral mqpg._queue_end(
    s.topic_id, q.queue_id, case when q.queue_id = -1 then s.subscription_id else 0 end
) as n (next_offset)
where s.mode <> 'broadcast' or s.member <> '';
comment on column mqpg.subscription_lag.queue_id is '-1: the subscription''s retry lane';
comment on column mqpg.subscription_lag.committed is 'All messages below this offset are done';
comment on column mqpg.subscription_lag.next_offset is 'The offset that the next appended message gets';
comment on column mqpg.subscription_lag.lag is 'Number of messages that are not acknowledged, in flight or not';
comment on column mqpg.subscription_lag.claims is 'Number of open deliveries';
comment on column mqpg.subscription_lag.owner is
    'Mode pinned: the consumer that owns the queue; mode broadcast: the member; else null';
comment on column mqpg.subscription_lag.changed_at is
    'Time of the last delivery, acknowledgement, heartbeat or other change on this queue';
comment on column mqpg.subscription_lag.subscription_id is
    'The subscription of the group, or of the member, in mqpg_audit.subscription';
