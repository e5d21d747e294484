-- Position and lag of each subscription on each queue.
-- Cost: two index lookups per partition for each queue of each subscription.
create view mqpg.subscription_lag as
select v.consumer_group, v.topic, v.queue_id, v.committed, v.next_offset, v.lag, v.claims, v.owner, v.mode, v.changed_at
from mqpg._subscription_lag() as v;
comment on column mqpg.subscription_lag.queue_id is '-1: the subscription''s retry lane';
comment on column mqpg.subscription_lag.committed is 'All messages below this offset are done';
comment on column mqpg.subscription_lag.next_offset is 'The offset that the next appended message gets';
comment on column mqpg.subscription_lag.lag is 'Number of messages that are not acknowledged, in flight or not';
comment on column mqpg.subscription_lag.claims is 'Number of open deliveries';
comment on column mqpg.subscription_lag.owner is
    'Mode pinned: the consumer that owns the queue; mode broadcast: the member; else null';
comment on column mqpg.subscription_lag.changed_at is
    'Time of the last delivery, acknowledgement, heartbeat or other change on this queue';
