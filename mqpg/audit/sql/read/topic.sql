-- The audited topics.
select t.topic_id, t.name as topic
from mqpg.audit_topic as t
where not exists (select from other_topic as o where o.topic_id = t.topic_id)
