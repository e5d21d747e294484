-- The audited topics.
select
    t.topic_id, t.name as topic, t.first_queues, t.grown_from, t.settled_batch
from mqpg.audit_topic as t
where not exists (select from other_topic as o where o.topic_id = t.topic_id)
