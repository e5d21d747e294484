-- Where subscriptions began in their queues. noted: their consumers said whether they keep a journal.
select s.subscription_id, s.queue_id, s.start_offset, s.journal is not null as noted
from mqpg_audit.queue_start as s
