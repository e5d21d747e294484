-- Delayed sends, delayed commits and retries: one row per batch or run, due at visible_at.
create table mqpg.delayed (
    visible_at timestamptz not null,
    xid xid8 not null,
    first_id bigint not null,
    deliver_id bigint,
    written_at timestamptz not null,
    topic_id int not null,
    subscription_id int not null default 0,     -- not 0: a retry of that subscription
    queue_id smallint not null,                 -- -1 for a retry
    n smallint not null,
    attempt smallint not null default 1,        -- the attempt that the coming delivery is (1: redriven)
    reason text,                                -- of a retry: why the attempt before failed,
    consumer text                               -- and whose it was
) partition by range (written_at);
comment on table mqpg.delayed is 'What becomes visible later: delayed messages and retries, append-only';
create index delayed_visible_at on mqpg.delayed (visible_at);
create index delayed_xid on mqpg.delayed (xid);
create index delayed_first_id on mqpg.delayed (first_id);
