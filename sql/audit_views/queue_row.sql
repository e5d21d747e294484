-- Rows of the queues and retry lanes as they are stored: up to 4096 offsets each, as runs of
-- consecutive message ids. The view queue_entry has a row for each offset of them.
-- A condition on tick_id leaves out partitions. One on topic_id, queue_id and subscription_id uses an
-- index of each partition.
-- Cost: as the queues.
create view mqpg_audit.queue_row as
select c.topic_id, c.queue_id::int as queue_id, c.subscription_id, c.base_offset, c.n::int as n, c.tick_id, c.first_ids,
    c.starts, c.deliver_ids, c.attempts::int [] as attempts
from mqpg.consume_queue as c;
comment on column mqpg_audit.queue_row.topic_id is 'Id of the topic';
comment on column mqpg_audit.queue_row.queue_id is 'Queue of the topic, from 0; -1: a retry lane';
comment on column mqpg_audit.queue_row.subscription_id is
    'Retry lane: the subscription that it belongs to; 0: a queue of the topic, for every group';
comment on column mqpg_audit.queue_row.base_offset is 'First offset of the row';
comment on column mqpg_audit.queue_row.n is 'Number of offsets';
comment on column mqpg_audit.queue_row.tick_id is 'The tick that appended them; the cut column';
comment on column mqpg_audit.queue_row.first_ids is 'First message id of each run';
comment on column mqpg_audit.queue_row.starts is 'Where each run begins, counted from base_offset';
comment on column mqpg_audit.queue_row.deliver_ids is
    'For each run the message whose payload is delivered; null: its own';
comment on column mqpg_audit.queue_row.attempts is 'For each run the number of the delivery; null: 1';
