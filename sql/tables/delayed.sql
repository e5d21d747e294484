-- Delayed messages and retries, append-only, partitioned by the time of writing. Delayed sends,
-- commits with a delay, and retries: one row is one batch or run, due at visible_at.
create table mqpg.delayed (
    visible_at timestamptz not null,  -- The first append() after this time appends the messages
    xid xid8 not null,
    first_id bigint not null,  -- Message id that the run begins with
    deliver_id bigint,  -- Message id that the body of first_id lies under; null: under first_id
    written_at timestamptz not null,
    topic_id int not null,
    subscription_id int not null default 0,  -- 0: a delayed message; else a retry for this subscription
    queue_id smallint not null,  -- -1 for a retry
    n smallint not null,  -- Number of messages: first_id, first_id + 1, …
    attempt smallint not null default 1,  -- Number of the attempt that the coming delivery is; 1 after redrive()
    reason text,  -- Retries: why the attempt before failed
    consumer text  -- Retries: the consumer whose attempt failed
) partition by range (written_at);
-- Without a key; publications need one for UPDATE.
alter table mqpg.delayed replica identity full;
create index delayed_visible_at on mqpg.delayed (visible_at);
create index delayed_xid on mqpg.delayed (xid);
create index delayed_first_id on mqpg.delayed (first_id);
