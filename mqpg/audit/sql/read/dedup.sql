-- The dedup ids of recent sends, as hashes.
select d.message_id, d.slot, d.topic_id, d.dedup_hash
from mqpg_audit.dedup as d
where not exists (select from other_topic as o where o.topic_id = d.topic_id)
