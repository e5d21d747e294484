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
    consumer_group text not null,  -- Name of the consumer group, as it was
    member text not null,  -- Mode broadcast: name of the consumer; else empty
    topic text not null,  -- Name of the topic, as it was
    queue_id smallint not null,  -- -1: the retry lane
    from_offset bigint not null,  -- First offset of the range
    to_offset bigint not null,  -- Offset after the last one of the range
    -- seek | purge | expired (message_ttl) | age (lose_after) | size (lose_over); the last two are losses
    why text not null check (why in ('seek', 'purge', 'expired', 'age', 'size')),
    back boolean not null default false,  -- true: moved back, so the messages may come again
    by text not null default session_user
);
create index position_jump_subscription on mqpg.position_jump (subscription_id, queue_id, to_offset);
