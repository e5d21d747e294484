-- Broadcast groups. The view subscription has their members, which alone have positions.
-- Cost: one row for each group.
create view mqpg_audit.broadcast_group as
select s.subscription_id, s.consumer_group, s.topic_id, t.name as topic, s.start, s.filter::text as filter, s.tags,
    s.on_failure, nullif(s.retries_from, '-infinity') as retries_from, s.created_at
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
where s.mode = 'broadcast' and s.member = '';
-- subscription_id: Id of the group, which no member has
-- consumer_group: Name of the consumer group
-- topic_id: Id of the topic
-- topic: Name of the topic
-- start: Where it began, as given to subscribe(): earliest | latest | a time
-- filter: jsonpath that chooses messages; null: all
-- tags: Tags that choose messages; null: all
-- on_failure: skip | block_key | block_queue
-- retries_from: Retries that were written before this time are purged; null: none are
-- created_at: When it was created
