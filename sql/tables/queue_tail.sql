-- Next offsets of queues whose consume_queue rows are all gone: keep() notes them before it drops a
-- partition, and nobody else writes here. So a tail never goes back.
create table mqpg.queue_tail (
    topic_id int not null,
    queue_id smallint not null,     -- -1: the retry lane of subscription_id
    subscription_id int not null,   -- 0: the topic's own queue
    next_offset bigint not null,
    primary key (topic_id, queue_id, subscription_id)
);
comment on table mqpg.queue_tail is 'Next offsets of queues, noted before their consume_queue rows are dropped';
