-- Ranges of offsets that a subscription was moved over by seek, purge_topic, expiry or policy. It
-- will never get the messages in them that it did not get before. With `back`, it was moved back
-- instead and may get them again. A later move back shortens older rows.
-- The names are copied, so that the report outlives the subscription. keep() deletes rows that are
-- older than the setting `position_jump_keep`.
create table mqpg.position_jump (
    jump_id bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    subscription_id int not null,
    topic_id int not null,
    consumer_group text not null,
    member text not null,
    topic text not null,
    queue_id smallint not null,
    from_offset bigint not null,
    to_offset bigint not null,
    why text not null check (why in ('seek', 'purge', 'expired', 'age', 'size')),
    back boolean not null default false,
    by text not null default session_user
);
comment on column mqpg.position_jump.consumer_group is 'Name of the consumer group, as it was';
comment on column mqpg.position_jump.member is 'Mode broadcast: name of the consumer; else empty';
comment on column mqpg.position_jump.topic is 'Name of the topic, as it was';
comment on column mqpg.position_jump.queue_id is '-1: the retry lane';
comment on column mqpg.position_jump.from_offset is 'First offset of the range';
comment on column mqpg.position_jump.to_offset is 'Offset after the last one of the range';
comment on column mqpg.position_jump.why is
    'seek | purge | expired (message_ttl) | age (lose_after) | size (lose_over); the last two are losses';
comment on column mqpg.position_jump.back is 'true: moved back, so the messages may come again';
create index position_jump_subscription on mqpg.position_jump (subscription_id, queue_id, to_offset);
