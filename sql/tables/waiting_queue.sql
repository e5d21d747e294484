-- Queues that alter_topic() added and that a subscription does not read yet, because older messages
-- of their keys are unread in an older queue. The cursor of such a queue has the owner `(after queue
-- n)`, which is no name of a consumer, so that receive() passes it over. _open_queues() ends it.
create table mqpg.waiting_queue (
    subscription_id int not null references mqpg.subscription on delete cascade,
    queue_id smallint not null,
    since timestamptz not null default clock_timestamp(),
    primary key (subscription_id, queue_id)
);
