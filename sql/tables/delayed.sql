-- Delayed messages and retries, append-only, partitioned by the time of writing. Delayed sends,
-- commits with a delay, and retries: one row is one batch or run, due at visible_at.
create table mqpg.delayed (
    visible_at timestamptz not null,
    xid xid8 not null,
    first_id bigint not null,
    deliver_id bigint,
    written_at timestamptz not null,
    topic_id int not null,
    subscription_id int not null default 0,
    queue_id smallint not null,
    n smallint not null,
    attempt smallint not null default 1,
    reason text,
    consumer text
) partition by range (written_at);
-- Without a key; publications need one for UPDATE.
alter table mqpg.delayed replica identity full;
comment on column mqpg.delayed.visible_at is 'The first append() after this time appends the messages';
comment on column mqpg.delayed.first_id is 'Message id that the run begins with';
comment on column mqpg.delayed.deliver_id is 'Message id that the body of first_id lies under; null: under first_id';
comment on column mqpg.delayed.subscription_id is '0: a delayed message; else a retry for this subscription';
comment on column mqpg.delayed.queue_id is '-1 for a retry';
comment on column mqpg.delayed.n is 'Number of messages: first_id, first_id + 1, …';
comment on column mqpg.delayed.attempt is 'Number of the attempt that the coming delivery is; 1 after redrive()';
comment on column mqpg.delayed.reason is 'Retries: why the attempt before failed';
comment on column mqpg.delayed.consumer is 'Retries: the consumer whose attempt failed';
create index delayed_visible_at on mqpg.delayed (visible_at);
create index delayed_xid on mqpg.delayed (xid);
create index delayed_first_id on mqpg.delayed (first_id);
