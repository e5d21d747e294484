-- Subscriptions: a consumer group that reads a topic. Of a broadcast group each member has a row,
-- because each has positions of its own.
-- Cost: one row for each subscription.
create view mqpg_audit.subscription as
select s.subscription_id, s.consumer_group, nullif(s.member, '') as consumer, s.topic_id, t.name as topic, s.mode,
    s.start, s.filter::text as filter, s.tags, s.max_attempts, s.retry_delay, s.on_failure, s.paused, s.created_at,
    nullif(s.retries_from, '-infinity') as retries_from, s.member_of
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
where s.mode <> 'broadcast' or s.member <> '';
comment on column mqpg_audit.subscription.subscription_id is 'Id; a group that subscribes again gets a new one';
comment on column mqpg_audit.subscription.consumer_group is 'Name of the consumer group';
comment on column mqpg_audit.subscription.consumer is 'Mode broadcast: the member of the group; else null';
comment on column mqpg_audit.subscription.topic_id is 'Id of the topic';
comment on column mqpg_audit.subscription.topic is 'Name of the topic';
comment on column mqpg_audit.subscription.mode is 'exclusive | shared | pinned | broadcast';
comment on column mqpg_audit.subscription.start is
    'Where it began, as given to subscribe(): earliest | latest | a time';
comment on column mqpg_audit.subscription.filter is 'jsonpath that chooses messages; null: all';
comment on column mqpg_audit.subscription.tags is 'Tags that choose messages; null: all';
comment on column mqpg_audit.subscription.max_attempts is 'Deliveries until a message becomes a dead letter';
comment on column mqpg_audit.subscription.retry_delay is 'Time until the second attempt; doubles with each further one';
comment on column mqpg_audit.subscription.on_failure is 'skip | block_key | block_queue';
comment on column mqpg_audit.subscription.paused is 'true: the group receives nothing';
comment on column mqpg_audit.subscription.created_at is 'When it was created';
comment on column mqpg_audit.subscription.retries_from is
    'Retries that were written before this time are purged; null: none are';
comment on column mqpg_audit.subscription.member_of is
    'Mode broadcast: subscription_id of the group in broadcast_group; else null';
