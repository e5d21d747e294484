-- Settings of topics and subscriptions that were replaced, as far as they can excuse that a group
-- did not get a message, or that a record batch has no checksum, or say how late a time may be, or how
-- a queue may be read.
-- Append-only. The audit judges an excuse by the setting of its time.
-- setting_id comes from the numbers of position_jump, so it says without a clock which jumps were
-- made under the new setting: those with a greater number.
create table mqpg.former_setting (
    setting_id bigint primary key default nextval('mqpg.position_jump_jump_id_seq'),
    topic_id int not null references mqpg.topic on delete cascade,
    -- Of retries_from, mode and on_failure; null: the topic's
    subscription_id int references mqpg.subscription on delete cascade,
    name text not null check (
        name in (
            'retention', 'message_ttl', 'lose_after', 'lose_over', 'checksums', 'retries_from', 'mode', 'on_failure')),
    value text,  -- As text; null: none; 'unknown': it was before the broker noted it
    -- Until when it held; of retries_from exactly the new value
    replaced_at timestamptz not null default clock_timestamp(),
    by text not null default session_user
);
create index former_setting_topic on mqpg.former_setting (topic_id);
create index former_setting_subscription on mqpg.former_setting (subscription_id);
