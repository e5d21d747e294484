-- Where queues and retry lanes end and begin, noted before retention drops their rows. A queue without
-- rows gets its next offset from here.
-- Cost: as the table, which is small.
create view mqpg_audit.queue_tail as
select q.topic_id, q.queue_id::int as queue_id, nullif(q.subscription_id, 0) as subscription_id, q.next_offset,
    q.oldest_offset
from mqpg.queue_tail as q
where q.topic_id <> 0;
-- topic_id: Id of the topic
-- queue_id: Queue of the topic, from 0; -1: a retry lane
-- subscription_id: Retry lane: the subscription; null: a queue of the topic
-- next_offset: The offset after the last one in the segments whose tails_noted_at is set; 0: none is noted
-- oldest_offset: Messages before it are past retention, and every group is done with them
