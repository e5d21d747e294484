-- The offsets that consumers with a journal took. to_offset is null where they still do.
select
    s.subscription_id,
    s.queue_id::int as queue_id,
    lower(r.r) as from_offset,
    upper(r.r) as to_offset
from mqpg.audit_queue_start as s
cross join lateral unnest(s.journal) as r (r)
