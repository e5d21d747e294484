-- Oldest and next offsets of queues, noted by keep(). It notes them before it drops rows of
-- consume_queue, and only keep() writes here. The row of topic 0 belongs to no queue: its
-- next_offset counts how often keep() has moved oldest offsets.
create table mqpg.queue_tail (
    topic_id int not null,
    queue_id smallint not null,  -- -1: the retry lane of subscription_id
    subscription_id int not null,  -- 0: a queue of the topic
    -- Noted when a segment is closed, so that the queue's next offset never goes back
    next_offset bigint not null default 0,
    -- Messages before it are past retention and no longer needed, though their rows may still exist
    oldest_offset bigint not null default 0,
    primary key (topic_id, queue_id, subscription_id)
);
