-- Topics are rows. A name used again after drop_topic gets a new id and so starts at offset 0.
create table mqpg.topic (
    topic_id int generated always as identity primary key,
    name text not null unique,
    queues int not null,
    retention interval not null,
    kind text not null default 'normal',    -- normal | relay
    max_payload int not null default 1048576,
    paused boolean not null default false,     -- delivers nothing to anybody
    message_ttl interval,           -- null: never; else what nobody got so long after it became visible expires
    on_expired text not null default 'skip',    -- skip | dead_letter
    lose_after interval,            -- policies: what a group left unread so long, or more than so many bytes of
    lose_over bigint,               -- it, may be dropped; null: never
    created_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.topic is 'Topics: number of ordered queues, retention, payload limit in bytes';
