-- The positions that consumer groups store in their own database, those of other brokers included.
create temp table stored_offset (
    consumer_group text,
    topic text,
    queue_id int,
    next_offset bigint,
    broker text,
    incarnation int,
    last_message_id bigint
);
