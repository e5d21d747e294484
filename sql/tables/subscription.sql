-- A consumer group reading a topic. A member of a broadcast group is a row of its own (`member` its consumer
-- name, `member_of` the group's row), so that its positions, retry lane, locks and what keep() must leave are
-- those of any subscription; settings are the same in all rows of a group. The group's own row keeps the
-- positions that a new member starts from and is never read by: nothing is kept for it.
create table mqpg.subscription (
    subscription_id int generated always as identity primary key,
    consumer_group text not null,
    topic_id int not null references mqpg.topic on delete cascade,
    member text not null default '',
    member_of int references mqpg.subscription on delete cascade,
    mode text not null,             -- exclusive | shared | pinned | broadcast
    start text not null,            -- as given: earliest | latest | a time
    filter jsonpath,
    tags text [],                   -- null: any
    max_attempts int not null,
    retry_delay interval not null,
    on_failure text not null default 'skip',    -- skip | block_key | block_queue
    paused boolean not null default false,
    retries_from timestamptz not null default '-infinity',  -- retries written before were purged
    created_at timestamptz not null default clock_timestamp(),
    unique (topic_id, consumer_group, member)
);
comment on table mqpg.subscription is 'Subscriptions: consumer group and topic, mode, filter and retry policy';
create index subscription_consumer_group on mqpg.subscription (consumer_group);
create index subscription_member_of on mqpg.subscription (member_of) where member_of is not null;
