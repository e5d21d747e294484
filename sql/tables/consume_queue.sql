-- What each queue delivers: dense offsets to runs of message ids. Written by the appender only.
-- Run i holds messages first_ids[i], first_ids[i]+1, … at offsets base_offset + starts[i] onwards.
-- A subscription's retry lane is queue -1 with its subscription_id; the topic's own queues have 0.
create table mqpg.consume_queue (
    base_offset bigint not null,
    tick_id bigint not null,
    topic_id int not null,
    subscription_id int not null default 0,
    n int not null,
    queue_id smallint not null,
    first_ids bigint [] not null,
    starts int [] not null,
    deliver_ids bigint [],          -- null, or per run: where the body lies if not under first_ids
    attempts smallint [],           -- retry lane: per run, the attempt that its delivery is
    primary key (topic_id, queue_id, subscription_id, base_offset, tick_id)
) partition by range (tick_id);
comment on table mqpg.consume_queue is 'Consume queues: dense offsets to runs of message ids, append-only';
create index consume_queue_tick on mqpg.consume_queue (tick_id, topic_id, queue_id);
