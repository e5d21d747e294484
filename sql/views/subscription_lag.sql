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
-- queue_id: -1: the subscription's retry lane
-- committed: All messages below this offset are done
-- next_offset: The offset that the next appended message gets
-- lag: Number of messages that are not acknowledged, in flight or not
-- claims: Number of open deliveries
-- owner: Mode pinned: the consumer that owns the queue; mode broadcast: the member; else null
-- changed_at: Time of the last delivery, acknowledgement, heartbeat or other change on this queue
-- subscription_id: The subscription of the group, or of the member, in mqpg_audit.subscription
