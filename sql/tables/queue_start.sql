-- Where each subscription began in each queue, and which offsets its consumers take with a journal.
-- The audit asks, long after the first versions of the cursors are gone. receive() and ack() do not
-- read it.
create table mqpg.queue_start (
    subscription_id int not null references mqpg.subscription on delete cascade,
    queue_id smallint not null,  -- -1: the retry lane
    start_offset bigint,  -- The first offset that it was to get; null: of an earlier release
    -- Offsets that consumers with a journal received; null: no consumer of this release has said so
    journal int8multirange,
    primary key (subscription_id, queue_id)
);
