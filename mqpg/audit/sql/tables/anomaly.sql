-- What the kinds have found.
create temp table anomaly (
    kind text not null,
    consumer_group text,
    topic text,
    queue_id int,
    queue_offset bigint,
    message_id bigint,
    evidence text not null
);
