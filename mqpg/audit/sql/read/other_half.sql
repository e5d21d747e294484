-- The half messages of topics that are not audited. A ledger may have rows of them.
select l.first_id, l.n
from mqpg_audit.record_batch as l
where l.kind = 'half' and exists (select from other_topic as o where o.topic_id = l.topic_id)
