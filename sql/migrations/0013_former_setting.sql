-- Adds the settings of topics and subscriptions that were replaced. What was before is not known.
-- breaking: no
create table mqpg.former_setting (
    setting_id bigint primary key default nextval('mqpg.position_jump_jump_id_seq'),
    topic_id int not null references mqpg.topic on delete cascade,
    subscription_id int references mqpg.subscription on delete cascade,
    name text not null check (
        name in ('retention', 'message_ttl', 'lose_after', 'lose_over', 'checksums', 'retries_from')),
    value text,
    replaced_at timestamptz not null default clock_timestamp(),
    by text not null default session_user
);
comment on table mqpg.former_setting is
    'Settings of topics and subscriptions that were replaced, as far as they can excuse that a group did not get a message, or that a record batch has no checksum, or say how late a time may be';
comment on column mqpg.former_setting.subscription_id is 'Of retries_from; null: the topic''s';
comment on column mqpg.former_setting.value is 'As text; null: none; ''unknown'': it was before the broker noted it';
comment on column mqpg.former_setting.replaced_at is 'Until when it held; of retries_from exactly the new value';
create index former_setting_topic on mqpg.former_setting (topic_id);
create index former_setting_subscription on mqpg.former_setting (subscription_id);
insert into mqpg.former_setting (topic_id, name, value)
select t.topic_id, n.name, 'unknown'
from mqpg.topic as t
cross join (values ('retention'), ('message_ttl'), ('lose_after'), ('lose_over'), ('checksums')) as n (name);
comment on column mqpg.topic.checksums is
    'true: each new record batch has a checksum of its contents, which the audit compares';
comment on column mqpg.commit_log.checksum is
    'Of all contents, see _checksum(); of an earlier release, of the bodies; null: the topic did not ask for it';
insert into mqpg.former_setting (topic_id, subscription_id, name, value, replaced_at)
select s.topic_id, s.subscription_id, 'retries_from', 'unknown', s.retries_from
from mqpg.subscription as s
where s.retries_from > '-infinity';
