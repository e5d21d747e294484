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
-- subscription_id: Id; a group that subscribes again gets a new one
-- consumer_group: Name of the consumer group
-- consumer: Mode broadcast: the member of the group; else null
-- topic_id: Id of the topic
-- topic: Name of the topic
-- mode: exclusive | shared | pinned | broadcast
-- start: Where it began, as given to subscribe(): earliest | latest | a time
-- filter: jsonpath that chooses messages; null: all
-- tags: Tags that choose messages; null: all
-- max_attempts: Deliveries until a message becomes a dead letter
-- retry_delay: Time until the second attempt; doubles with each further one
-- on_failure: skip | block_key | block_queue
-- paused: true: the group receives nothing
-- created_at: When it was created
-- retries_from: Retries that were written before this time are purged; null: none are
-- member_of: Mode broadcast: subscription_id of the group in broadcast_group; else null
