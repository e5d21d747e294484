-- What each consumer group has left to do in each topic. One row for each subscription.
-- Cost: as _group_status().
create view mqpg.group_status as
select v.consumer_group, v.topic, v.mode, v.paused, v.lag, v.claims, v.oldest_unread_at, v.dead_letters, v.changed_at
from mqpg._group_status() as v;
comment on column mqpg.group_status.paused is 'Whether the subscription or the topic is paused';
comment on column mqpg.group_status.lag is
    'Number of messages that are not acknowledged, in flight or not; of a broadcast group, of all members';
comment on column mqpg.group_status.claims is 'Number of open deliveries';
comment on column mqpg.group_status.oldest_unread_at is
    'When the oldest message that is not acknowledged got its offset; null: there is none';
comment on column mqpg.group_status.dead_letters is 'Number of dead letters; 1001 means more than 1000';
comment on column mqpg.group_status.changed_at is
    'Time of the last delivery, acknowledgement, heartbeat or other change';
