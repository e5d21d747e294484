-- Messages that outlive their commit_log segment. One row per message that must stay readable.
-- Readers look here when the segment is gone.
create table mqpg.held (
    message_id bigint primary key,
    xid xid8 not null,  -- The transaction that wrote the message
    born_at timestamptz not null,
    topic_id int not null,
    producer_group_id int,
    incarnation int,
    queue_id smallint not null,
    kind "char" not null,  -- As in commit_log: n normal | h half message | d delayed | f final payload
    nonce uuid,
    check_at timestamptz,
    delay interval,
    key text,
    tag text,
    headers jsonb,
    payload json not null,
    relay boolean,  -- true: a half message of a relay topic; else null
    copied_at timestamptz not null default clock_timestamp()  -- When keep() copied it out of its segment
);
create index held_topic_key on mqpg.held (topic_id, key);
