-- The half messages of topics that are not audited. A ledger may have rows of them.
select l.batch_id * 1024 as first_id, l.n::int as n
from mqpg.audit_commit_log as l
where l.kind = 'h' and exists (select from other_topic as o where o.topic_id = l.topic_id)
union all
select h.message_id, 1
from mqpg.audit_held as h
where h.kind = 'h' and exists (select from other_topic as o where o.topic_id = h.topic_id)
