-- Where each subscription began in each queue, and which offsets its consumers take with a journal.
-- The audit asks, long after the first versions of the cursors are gone. receive() and ack() do not
-- read it.
create table mqpg.queue_start (
    subscription_id int not null references mqpg.subscription on delete cascade,
    queue_id smallint not null,
    start_offset bigint,
    journal int8multirange,
    primary key (subscription_id, queue_id)
);
comment on column mqpg.queue_start.queue_id is '-1: the retry lane';
comment on column mqpg.queue_start.start_offset is 'The first offset that it was to get; null: of an earlier release';
comment on column mqpg.queue_start.journal is
    'Offsets that consumers with a journal received; null: no consumer of this release has said so';
