-- Where each subscription began in each queue, and which offsets its consumers take with a journal.
-- Cost: as the table, which is small.
create view mqpg_audit.queue_start as
select q.subscription_id, q.queue_id::int as queue_id, q.start_offset, q.journal::text as journal
from mqpg.queue_start as q;
-- subscription_id: Id of the subscription
-- queue_id: Queue of the topic, from 0; -1: the retry lane
-- start_offset: The first offset that it was to get; null: not known
-- journal: Ranges of offsets that consumers with a journal took, as int8multirange; null: no consumer said
