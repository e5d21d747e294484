-- A key that is in another queue now than in the judged batches. At most one row.
-- Cost: reads the keys of all judged batches where there are keys to compare.
select m.message_id
from (
    select m.topic_id, m.key_hash, m.queue_id, min(m.message_id) as message_id
    from message as m
    where m.key_hash is not null and m.kind <> 'f'
    group by 1, 2, 3
) as m
join (
    select distinct l.topic_id, l.queue_id, k.key_hash
    from mqpg_audit.record_batch as l
    cross join lateral unnest(l.key_hashes) as k (key_hash)
    where l.batch_id < (select j.until_id >> 10 from judged as j) and not l.kept and l.kind <> 'final' and k.key_hash is not null
) as b on b.topic_id = m.topic_id and b.key_hash = m.key_hash and b.queue_id <> m.queue_id
limit 1
