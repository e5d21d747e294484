-- Consume queues: dense offsets to runs of message ids, append-only, partitioned by tick id. Only
-- the appender writes here. Run i holds the messages first_ids[i], first_ids[i] + 1, … at the
-- offsets from base_offset + starts[i] on. The last run ends at base_offset + n - 1.
create table mqpg.consume_queue (
    base_offset bigint not null,
    tick_id bigint not null,
    topic_id int not null,
    subscription_id int not null default 0,
    n int not null,
    queue_id smallint not null,
    first_ids bigint [] not null,
    starts int [] not null,
    deliver_ids bigint [],
    attempts smallint [],
    primary key (topic_id, queue_id, subscription_id, base_offset, tick_id)
) partition by range (tick_id);
comment on column mqpg.consume_queue.base_offset is 'Offset of the row''s first message';
comment on column mqpg.consume_queue.tick_id is 'The tick that appended the row';
comment on column mqpg.consume_queue.subscription_id is
    '0: a queue of the topic; else the retry lane of this subscription';
comment on column mqpg.consume_queue.n is 'Number of messages in the row';
comment on column mqpg.consume_queue.queue_id is '-1: the retry lane of subscription_id';
comment on column mqpg.consume_queue.first_ids is 'Per run, the message id that it begins with';
comment on column mqpg.consume_queue.starts is 'Per run, its first offset minus base_offset';
comment on column mqpg.consume_queue.deliver_ids is
    'Per run, the message id that the body lies under; null: under first_ids';
comment on column mqpg.consume_queue.attempts is 'Retry lanes: per run, the number of the delivery attempt; else null';
create index consume_queue_tick on mqpg.consume_queue (tick_id, topic_id, queue_id);
