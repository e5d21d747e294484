-- The offsets that consumers with a journal took. to_offset is null where they still do.
select
    s.subscription_id, s.queue_id,
    lower(r.r) as from_offset,
    upper(r.r) as to_offset
from mqpg_audit.queue_start as s
cross join lateral unnest(s.journal::int8multirange) as r (r)
