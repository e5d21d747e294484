-- Settings, filters and tags of topics and subscriptions that were replaced, as far as they can
-- excuse that a group did not get a message, or say how late a time may be, or how a queue may be read.
-- Cost: as two tables, which are small.
create view mqpg_audit.setting_change as
select f.setting_id, f.topic_id, f.subscription_id, f.name, f.value, null::text [] as tags, f.replaced_at,
    f.by as replaced_by
from mqpg.former_setting as f
union all
select null as setting_id, s.topic_id, f.subscription_id, 'filter' as name, f.filter::text as value, f.tags,
    f.replaced_at, f.by as replaced_by
from mqpg.former_filter as f
inner join mqpg.subscription as s on f.subscription_id = s.subscription_id;
-- setting_id: From the numbers of position_jump: jumps with a greater number came later; null: a filter
-- topic_id: Id of the topic
-- subscription_id: Id of the subscription; null: a setting of the topic
-- name: retention | message_ttl | lose_after | lose_over | checksums | retries_from | mode | on_failure | filter
-- value: The value that was replaced; null: there was none; unknown: from before the broker noted them
-- tags: name filter: the tags that were replaced with it; else null
-- replaced_at: When it was replaced
-- replaced_by: The role that replaced it
