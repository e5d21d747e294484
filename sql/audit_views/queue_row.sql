-- Rows of the queues and retry lanes as they are stored: up to 4096 offsets each, as runs of
-- consecutive message ids. The view queue_entry has a row for each offset of them.
-- A condition on tick_id leaves out partitions. One on topic_id, queue_id and subscription_id uses an
-- index of each partition.
-- Cost: as the queues.
create view mqpg_audit.queue_row as
select c.topic_id, c.queue_id::int as queue_id, c.subscription_id, c.base_offset, c.n::int as n, c.tick_id, c.first_ids,
    c.starts, c.deliver_ids, c.attempts::int [] as attempts
from mqpg.consume_queue as c;
-- topic_id: Id of the topic
-- queue_id: Queue of the topic, from 0; -1: a retry lane
-- subscription_id: Retry lane: the subscription that it belongs to; 0: a queue of the topic, for every group
-- base_offset: First offset of the row
-- n: Number of offsets
-- tick_id: The tick that appended them; the cut column
-- first_ids: First message id of each run
-- starts: Where each run begins, counted from base_offset
-- deliver_ids: For each run the message whose payload is delivered; null: its own
-- attempts: For each run the number of the delivery; null: 1
