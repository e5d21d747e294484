-- A consumer group reading a topic.
create table mqpg.subscription (
    subscription_id int generated always as identity primary key,
    consumer_group text not null,
    topic_id int not null references mqpg.topic on delete cascade,
    mode text not null,             -- exclusive | pinned
    start text not null,            -- earliest | latest
    max_attempts int not null,
    retry_delay interval not null,
    on_failure text not null default 'skip',
    created_at timestamptz not null default clock_timestamp(),
    unique (topic_id, consumer_group)
);
comment on table mqpg.subscription is 'Subscriptions: consumer group and topic, mode and retry policy';
