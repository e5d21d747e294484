-- The dedup ids of recent sends, as hashes. at_edge: retention has dropped the slot before its own.
select d.message_id, d.slot, d.topic_id, d.dedup_hash, exists (
    select from mqpg_audit.segment as s
    where s.family = 'dedup' and (s.dropped_at is not null or s.leaving is not null)
        and d.slot > s.lower_bound and d.slot <= s.upper_bound
) as at_edge
from mqpg_audit.dedup as d
where not exists (select from other_topic as o where o.topic_id = d.topic_id)
