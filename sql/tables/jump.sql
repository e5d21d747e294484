-- Offsets that a subscription was moved over on purpose, by a person or by a policy: what it did not get of them it
-- never will. why: seek, purge, expired (message_ttl), age, size (policies of the topic: these are losses). With
-- back, a seek to before: what it got of these offsets it may get again. A later seek back shortens older rows.
-- Names are kept as they were, so that the report outlives the subscription; keep() deletes rows after `jump_keep`.
create table mqpg.jump (
    jump_id bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    subscription_id int not null,
    topic_id int not null,
    consumer_group text not null,
    member text not null,
    topic text not null,
    queue_id smallint not null,
    from_offset bigint not null,    -- inclusive
    to_offset bigint not null,      -- exclusive
    why text not null check (why in ('seek', 'purge', 'expired', 'age', 'size')),
    back boolean not null default false,
    by text not null default session_user
);
comment on table mqpg.jump is 'Offsets that a subscription was moved over by seek, purge_topic, expiry or policy';
create index jump_subscription on mqpg.jump (subscription_id, queue_id, to_offset);
