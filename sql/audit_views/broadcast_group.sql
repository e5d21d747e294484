-- Broadcast groups. The view subscription has their members, which alone have positions.
-- Cost: one row for each group.
create view mqpg_audit.broadcast_group as
select s.subscription_id, s.consumer_group, s.topic_id, t.name as topic, s.start, s.filter::text as filter, s.tags,
    s.on_failure, nullif(s.retries_from, '-infinity') as retries_from, s.created_at
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
where s.mode = 'broadcast' and s.member = '';
comment on column mqpg_audit.broadcast_group.subscription_id is 'Id of the group, which no member has';
comment on column mqpg_audit.broadcast_group.consumer_group is 'Name of the consumer group';
comment on column mqpg_audit.broadcast_group.topic_id is 'Id of the topic';
comment on column mqpg_audit.broadcast_group.topic is 'Name of the topic';
comment on column mqpg_audit.broadcast_group.start is
    'Where it began, as given to subscribe(): earliest | latest | a time';
comment on column mqpg_audit.broadcast_group.filter is 'jsonpath that chooses messages; null: all';
comment on column mqpg_audit.broadcast_group.tags is 'Tags that choose messages; null: all';
comment on column mqpg_audit.broadcast_group.on_failure is 'skip | block_key | block_queue';
comment on column mqpg_audit.broadcast_group.retries_from is
    'Retries that were written before this time are purged; null: none are';
comment on column mqpg_audit.broadcast_group.created_at is 'When it was created';
