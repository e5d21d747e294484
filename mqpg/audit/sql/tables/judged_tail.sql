-- Where each queue and retry lane ended at the tick judged.last_tick.
create temp table judged_tail (
    topic_id int not null,
    lane int not null,
    queue_id int not null,
    tail bigint not null
);
