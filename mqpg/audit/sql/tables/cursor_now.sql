-- The newest cursor of each queue of each subscription, read before everything else. start_offset
-- is where the subscription started, null where that is no longer known.
create temp table cursor_now (
    subscription_id int not null,
    queue_id int not null,
    committed bigint not null,
    start_offset bigint,
    version bigint not null
);
