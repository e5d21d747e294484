-- Topics are rows. A name used again after drop_topic gets a new id and so starts at offset 0.
create table mqpg.topic (
    topic_id int generated always as identity primary key,
    name text not null unique,
    queues int not null,
    retention interval not null,
    kind text not null default 'normal',    -- normal | relay
    max_payload int not null default 1048576,
    paused boolean not null default false,     -- delivers nothing to anybody
    created_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.topic is 'Topics: number of ordered queues, retention, payload limit in bytes';
