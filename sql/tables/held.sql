-- The few survivors of dropped segments, one row per message; readers fall back to it.
create table mqpg.held (
    message_id bigint primary key,
    xid xid8 not null,
    born_at timestamptz not null,
    topic_id int not null,
    producer_group_id int,
    incarnation int,
    queue_id smallint not null,
    kind "char" not null,
    nonce uuid,
    check_at timestamptz,
    delay interval,
    key text,
    tag text,
    headers jsonb,
    payload json not null,
    relay boolean,
    held_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.held is 'Messages that outlive their commit_log segment';
create index held_topic_key on mqpg.held (topic_id, key);
