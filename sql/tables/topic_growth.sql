-- Queues that alter_topic() added to topics. One row for each call. The rows stay, because the audit
-- judges by them in which queue a message of a key may be.
create table mqpg.topic_growth (
    topic_id int not null references mqpg.topic on delete cascade,
    queues_before int not null,
    queues int not null,
    at timestamptz not null default clock_timestamp(),
    first_batch bigint not null,
    waits_for text [],
    settled_batch bigint,
    settled_xid xid8,
    boundaries bigint [],
    primary key (topic_id, queues)
);
comment on column mqpg.topic_growth.queues_before is
    'Number of queues until then; the keys of an added queue were in the queue of its number modulo this';
comment on column mqpg.topic_growth.queues is 'Number of queues since then, a multiple of the number before';
comment on column mqpg.topic_growth.first_batch is 'Batch ids below it were placed by the number before';
comment on column mqpg.topic_growth.waits_for is
    'Transactions that ran when the queues had been added and have not ended; null: not looked up yet';
comment on column mqpg.topic_growth.settled_batch is
    'Batch ids above it were placed by the new number; null: not known yet';
comment on column mqpg.topic_growth.settled_xid is
    'A tick that sees it has all messages that were placed by the number before; null: not known yet';
comment on column mqpg.topic_growth.boundaries is
    'Per older queue, an offset behind all messages that were placed by the number before; null: not known yet';
