-- Ends of queues as keep() left them; nobody else writes here. next_offset: of queues whose consume_queue rows are all
-- gone, noted before a partition is dropped, so that a tail never goes back. oldest_offset: what lies before it is
-- past its retention and needed by nobody, though its rows may be there still, since another queue's reader pins the
-- segment; so its bodies may go.
create table mqpg.queue_tail (
    topic_id int not null,
    queue_id smallint not null,     -- -1: the retry lane of subscription_id
    subscription_id int not null,   -- 0: the topic's own queue
    next_offset bigint not null default 0,
    oldest_offset bigint not null default 0,
    primary key (topic_id, queue_id, subscription_id)
);
comment on table mqpg.queue_tail is 'Oldest and next offsets of queues, noted by keep()';
