-- Where each subscription with a journal started, and until when its judged offsets were applied.
create temp table judged_start (
    subscription_id int not null,
    queue_id int not null,
    start_offset bigint,
    applied_until timestamptz
);
