-- Topics: number of ordered queues, retention, payload limit and policies. A name that is used
-- again after drop_topic() gets a new id, and so its queues start at offset 0.
create table mqpg.topic (
    topic_id int generated always as identity primary key,
    name text not null unique,
    queues int not null,  -- Number of ordered queues
    retention interval not null,
    kind text not null default 'normal',  -- normal | relay
    max_payload int not null default 1048576,  -- Greatest size of a payload, in bytes
    paused boolean not null default false,  -- true: receive() returns nothing to any group
    -- A message that a group did not get within this time after it became visible expires; null: never
    message_ttl interval,
    on_expired text not null default 'skip',  -- skip (counts as consumed) | dead_letter
    lose_after interval,  -- Unread messages may be dropped this long after their segment was closed; null: never
    lose_over bigint,  -- Unread messages of a group may be dropped beyond this many bytes; null: never
    -- true: each new record batch has a checksum of its contents, which the audit compares
    checksums boolean not null default false,
    archive boolean not null default false,  -- Not used; the next release drops it
    created_at timestamptz not null default clock_timestamp(),
    senders mqpg.grantee [] not null default '{}',  -- Roles that may send; a copy of role_right for the hot path
    -- Roles that may receive for some group; a copy of role_right for the hot path
    readers mqpg.grantee [] not null default '{}',
    max_bytes bigint,  -- With about so many bytes of messages stored, sends raise MQ028; null: no limit
    full_of text  -- Whose max_bytes was reached when it was last measured: topic | broker; null: neither
);
