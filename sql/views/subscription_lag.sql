-- Position and lag of each subscription on each queue.
-- Cost: two index lookups per partition for each queue of each subscription that a condition on
-- consumer_group and topic leaves.
create view mqpg.subscription_lag as
select s.consumer_group, t.name as topic, v.queue_id, v.committed, v.next_offset, v.lag, v.claims, v.owner, v.mode,
    v.changed_at, v.subscription_id
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
cross join lateral mqpg._subscription_lag(s.consumer_group, t.name) as v
where s.member = '';
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
