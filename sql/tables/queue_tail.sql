-- Oldest and next offsets of queues, noted by keep(). It notes them before it drops rows of
-- consume_queue, and only keep() writes here. The row of topic 0 belongs to no queue: its
-- next_offset counts how often keep() has moved oldest offsets.
create table mqpg.queue_tail (
    topic_id int not null,
    queue_id smallint not null,
    subscription_id int not null,
    next_offset bigint not null default 0,
    oldest_offset bigint not null default 0,
    primary key (topic_id, queue_id, subscription_id)
);
comment on column mqpg.queue_tail.queue_id is '-1: the retry lane of subscription_id';
comment on column mqpg.queue_tail.subscription_id is '0: a queue of the topic';
comment on column mqpg.queue_tail.next_offset is
    'Noted when a segment is closed, so that the queue''s next offset never goes back';
comment on column mqpg.queue_tail.oldest_offset is
    'Messages before it are past retention and no longer needed, though their rows may still exist';
