-- Lets former_setting have what subscriptions did with failures before. What was before is not known.
-- breaking: no
alter table mqpg.former_setting drop constraint former_setting_name_check;
alter table mqpg.former_setting add constraint former_setting_name_check check (
    name in (
        'retention', 'message_ttl', 'lose_after', 'lose_over', 'checksums', 'retries_from', 'mode', 'on_failure'));
comment on table mqpg.former_setting is
    'Settings of topics and subscriptions that were replaced, as far as they can excuse that a group did not get a message, or that a record batch has no checksum, or say how late a time may be, or how a queue may be read';
comment on column mqpg.former_setting.subscription_id is 'Of retries_from, mode and on_failure; null: the topic''s';
insert into mqpg.former_setting (topic_id, subscription_id, name, value)
select s.topic_id, s.subscription_id, 'on_failure', 'unknown'
from mqpg.subscription as s
where s.on_failure <> 'block_key';
