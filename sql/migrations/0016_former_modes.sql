-- Lets former_setting have the modes of subscriptions that were replaced. What was before is not known.
-- breaking: no
alter table mqpg.former_setting drop constraint former_setting_name_check;
alter table mqpg.former_setting add constraint former_setting_name_check check (
    name in ('retention', 'message_ttl', 'lose_after', 'lose_over', 'checksums', 'retries_from', 'mode'));
comment on table mqpg.former_setting is
    'Settings of topics and subscriptions that were replaced, as far as they can excuse that a group did not get a message, or that a record batch has no checksum, or say how late a time may be, or how many may read a queue';
comment on column mqpg.former_setting.subscription_id is 'Of retries_from and mode; null: the topic''s';
insert into mqpg.former_setting (topic_id, subscription_id, name, value)
select s.topic_id, s.subscription_id, 'mode', 'unknown'
from mqpg.subscription as s
where s.mode in ('exclusive', 'shared');
