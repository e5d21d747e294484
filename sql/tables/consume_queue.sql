-- Consume queues: dense offsets to runs of message ids, append-only, partitioned by tick id. Only
-- the appender writes here. Run i holds the messages first_ids[i], first_ids[i] + 1, … at the
-- offsets from base_offset + starts[i] on. The last run ends at base_offset + n - 1.
create table mqpg.consume_queue (
    base_offset bigint not null,  -- Offset of the row's first message
    tick_id bigint not null,  -- The tick that appended the row
    topic_id int not null,
    subscription_id int not null default 0,  -- 0: a queue of the topic; else the retry lane of this subscription
    n int not null,  -- Number of messages in the row
    queue_id smallint not null,  -- -1: the retry lane of subscription_id
    first_ids bigint [] not null,  -- Per run, the message id that it begins with
    starts int [] not null,  -- Per run, its first offset minus base_offset
    deliver_ids bigint [],  -- Per run, the message id that the body lies under; null: under first_ids
    attempts smallint [],  -- Retry lanes: per run, the number of the delivery attempt; else null
    primary key (topic_id, queue_id, subscription_id, base_offset, tick_id)
) partition by range (tick_id);
create index consume_queue_tick on mqpg.consume_queue (tick_id, topic_id, queue_id);
