-- The audited topics.
select
    t.topic_id, t.name as topic, t.first_queues, t.grown_from, t.settled_batch,
    t.lose_after is not null as loses_by_age,
    t.lose_over is not null as loses_by_size
from mqpg.audit_topic as t
where not exists (select from other_topic as o where o.topic_id = t.topic_id)
