-- Queues that alter_topic() added to topics. One row for each call. The rows stay, because the audit
-- judges by them in which queue a message of a key may be.
create table mqpg.topic_growth (
    topic_id int not null references mqpg.topic on delete cascade,
    -- Number of queues until then; the keys of an added queue were in the queue of its number modulo this
    queues_before int not null,
    queues int not null,  -- Number of queues since then, a multiple of the number before
    at timestamptz not null default clock_timestamp(),
    first_batch bigint not null,  -- Batch ids below it were placed by the number before
    -- Transactions that ran when the queues had been added and have not ended; null: not looked up yet
    waits_for text [],
    settled_batch bigint,  -- Batch ids above it were placed by the new number; null: not known yet
    -- A tick that sees it has all messages that were placed by the number before; null: not known yet
    settled_xid xid8,
    -- Per older queue, an offset behind all messages that were placed by the number before; null: not known yet
    boundaries bigint [],
    primary key (topic_id, queues)
);
