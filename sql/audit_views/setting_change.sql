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
comment on column mqpg_audit.setting_change.setting_id is
    'From the numbers of position_jump: jumps with a greater number came later; null: a filter';
comment on column mqpg_audit.setting_change.topic_id is 'Id of the topic';
comment on column mqpg_audit.setting_change.subscription_id is 'Id of the subscription; null: a setting of the topic';
comment on column mqpg_audit.setting_change.name is
    'retention | message_ttl | lose_after | lose_over | checksums | retries_from | mode | on_failure | filter';
comment on column mqpg_audit.setting_change.value is
    'The value that was replaced; null: there was none; unknown: from before the broker noted them';
comment on column mqpg_audit.setting_change.tags is 'name filter: the tags that were replaced with it; else null';
comment on column mqpg_audit.setting_change.replaced_at is 'When it was replaced';
comment on column mqpg_audit.setting_change.replaced_by is 'The role that replaced it';
