-- Topics: number of ordered queues, retention, payload limit and policies. A name that is used
-- again after drop_topic() gets a new id, and so its queues start at offset 0.
create table mqpg.topic (
    topic_id int generated always as identity primary key,
    name text not null unique,
    queues int not null,
    retention interval not null,
    kind text not null default 'normal',
    max_payload int not null default 1048576,
    paused boolean not null default false,
    message_ttl interval,
    on_expired text not null default 'skip',
    lose_after interval,
    lose_over bigint,
    checksums boolean not null default false,
    archive boolean not null default false,
    created_at timestamptz not null default clock_timestamp(),
    senders mqpg.grantee [] not null default '{}',
    readers mqpg.grantee [] not null default '{}',
    max_bytes bigint,
    full_of text
);
comment on column mqpg.topic.queues is 'Number of ordered queues';
comment on column mqpg.topic.kind is 'normal | relay';
comment on column mqpg.topic.max_payload is 'Greatest size of a payload, in bytes';
comment on column mqpg.topic.paused is 'true: receive() returns nothing to any group';
comment on column mqpg.topic.message_ttl is
    'A message that a group did not get within this time after it became visible expires; null: never';
comment on column mqpg.topic.on_expired is 'skip (counts as consumed) | dead_letter';
comment on column mqpg.topic.lose_after is
    'Unread messages may be dropped this long after their segment was closed; null: never';
comment on column mqpg.topic.lose_over is
    'Unread messages of a group may be dropped beyond this many bytes; null: never';
comment on column mqpg.topic.checksums is
    'true: each new record batch has a checksum of its contents, which the audit compares';
comment on column mqpg.topic.archive is 'Not used; the next release drops it';
comment on column mqpg.topic.senders is 'Roles that may send; a copy of role_right for the hot path';
comment on column mqpg.topic.readers is 'Roles that may receive for some group; a copy of role_right for the hot path';
comment on column mqpg.topic.max_bytes is
    'With about so many bytes of messages stored, sends raise MQ028; null: no limit';
comment on column mqpg.topic.full_of is
    'Whose max_bytes was reached when it was last measured: topic | broker; null: neither';
